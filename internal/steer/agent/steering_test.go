package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// TestSteering runs both agents of a lab through what can happen to them, under
// TCP and UDP traffic that must outlive all of it. Each step can be run alone (-run
// TestSteering/restart): it needs nothing of those before, but that the flows are where
// it says.
func TestSteering(t *testing.T) {
	steers(t, newBed(t, "t-agt", "routed-bgp", "vxlan", "macvlan"), []step{
		{"pairs open by handshake", "", pairsOpen},
		{"the agent answers on its socket", "routed-bgp", answersOnSocket},
		{"a switch by hand", "routed-bgp", switchByHand},
		{"routes lead straight to where the traffic is", "vxlan", directRoutes},
		{"a pin holds", "vxlan", pinHolds},
		{"a canary of all flows becomes a move", "vxlan", canaryStays},
		{"a black hole of hosts", "vxlan", blackHole},
		{"a black hole outwards", "vxlan", oneWay(impair.Impairment{DropEgress: true})},
		{"a black hole inwards", "vxlan", oneWay(impair.Impairment{DropIngress: true})},
		{"a black hole of the default network", "routed-bgp", defaultBlackHole},
		{"forged probes", "vxlan", forged},
		{"busy processors", "vxlan", busyProcessors},
		{"restart", "vxlan", restart},
		{"dry run", "routed-bgp", dryRun},
		{"default deny", "vxlan", defaultDeny},
		{"a black hole of pods", "macvlan", podBlackHole(impair.Impairment{DropIngress: true, DropEgress: true})},
		{"a black hole of pods inwards", "macvlan", podBlackHole(impair.Impairment{DropIngress: true})},
		{"a black hole of pods outwards", "macvlan", podBlackHole(impair.Impairment{DropEgress: true})},
		{"agents gone", "vxlan", agentsGone},
		{"the peer is another pod", "vxlan", replaced},
	})
}

// step is one of what can happen to agents.
type step struct {
	name string
	on   string // where the flows are before; "" where nobody has moved them
	run  func(*bed)
}

// steers runs steps under traffic, which must outlive all of them.
func steers(t *testing.T, b *bed, steps []step) {
	t.Helper()
	b.start("h1", nil)
	b.start("h2", nil)
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("both ends to know the pair", func() bool {
		return b.agents["h1"].opened("a", "b") && b.agents["h2"].opened("b", "a")
	})
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			if step.on != "" {
				b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
				b.move(step.on)
			}
			step.run(b)
		}) {
			b.reset()
		}
	}
	checkLived(t, rr.stop(), udp.stop())
}

// checkLived wants no connection lost, and traffic both ways until the end.
func checkLived(t *testing.T, rr, udp stream.Report) {
	t.Helper()
	checkConnections(t, rr)
	d := udp.Counts.Datagrams
	if d.Received == 0 || d.Duplicated > 0 || d.Foreign > 0 {
		t.Errorf("UDP: %+v, %v", d, udp.Errors.Reasons)
	}
	t.Logf("%d of %d datagrams came back", d.Received, d.Sent)
}

// checkConnections wants no connection lost, and traffic both ways until the end.
func checkConnections(t *testing.T, rr stream.Report) {
	t.Helper()
	c := rr.Counts
	if c.Connections.Lost > 0 || c.Connections.Opened == 0 || c.Corrupt > 0 || c.Operations == 0 {
		t.Errorf("TCP: %+v, %d operations, %d corrupt, %v", c.Connections, c.Operations, c.Corrupt, rr.Errors.Reasons)
	}
	worst, _ := stream.Stall(rr, 0, rr.Ended)
	t.Logf("%d operations, longest stall %v", c.Operations, worst.Length())
}

func pairsOpen(b *bed) {
	a := b.agents["h1"]
	a.event(b, 0, "the pair to open", func(e Event) bool {
		return e.Kind == EventPeer && e.Pair == "a>b" &&
			strings.Contains(e.Reason, "can use 3 paths: the agent of h2 has confirmed")
	})
	b.await("probes to measure every path", func() bool {
		ps := a.Paths()
		return len(ps) == 3 && !slices.ContainsFunc(ps, func(p PathStatus) bool { return p.State != "up" || p.RTT <= 0 })
	})
	if on := a.on("a", "b"); on != "routed-bgp" {
		b.t.Errorf("flows are on %q before anybody has moved them", on)
	}
	b.flows("routed-bgp")
}

// answersOnSocket asks for everything that the commands ask for.
func answersOnSocket(b *bed) {
	a := b.agents["h1"]
	path := filepath.Join(b.t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	c := Dial(path)
	ps, err := c.Paths(ctx)
	if err != nil || len(ps) != 3 || ps[0].Pair != "a>b" || ps[0].Host != "h1" {
		b.t.Errorf("paths: %+v, %v", ps, err)
	}
	for _, p := range ps {
		if p.Active != (p.Network == "routed-bgp") || p.Active && (p.Buckets != 64 || p.Why == "") {
			b.t.Errorf("path: %+v", p)
		}
	}
	h, err := c.Health(ctx)
	if err != nil || h.Host != "h1" || h.Pods != 1 || h.Pairs != 1 || h.Policy != "wish" || len(h.Senders) != 3 ||
		h.Senders["vxlan"].Accepted == 0 {
		b.t.Errorf("health: %+v, %v", h, err)
	}
	ms, err := c.Maps(ctx)
	if err != nil || len(ms) != 1 || ms[0].Pod != "a" || ms[0].Fault != "" || ms[0].Memory == 0 || len(ms[0].Peers) != 1 ||
		ms[0].Peers[0].Pod != "b" || len(ms[0].Peers[0].Paths) != 3 {
		b.t.Errorf("maps: %+v, %v", ms, err)
	}
	evs, err := c.Events(ctx, 0, false)
	if err != nil || len(evs) == 0 || evs[0].Kind != EventStarted {
		b.t.Errorf("events: %+v, %v", evs, err)
	}
	waited := make(chan []Event, 1)
	go func() {
		evs, _ := c.Events(ctx, evs[len(evs)-1].ID, true)
		waited <- evs
	}()
	for _, o := range []Order{{Local: "a", Remote: "b", Network: "routed-bgp", Pin: true}, {Local: "a", Remote: "b"}} {
		if e, err := c.Order(ctx, o); err != nil || e.Kind != EventPinned {
			b.t.Errorf("order %+v: %+v, %v", o, e, err)
		}
	}
	if evs := <-waited; len(evs) == 0 {
		b.t.Error("who waits for events gets none")
	}
	for want, o := range map[string]Order{
		"no such pair on this host": {Local: "a", Remote: "nobody", Network: "vxlan"},
		`a>b has no path on "weave": expected one of [routed-bgp macvlan vxlan]`: {Local: "a", Remote: "b", Network: "weave"},
	} {
		if _, err := c.Order(ctx, o); err == nil || !strings.Contains(err.Error(), want) {
			b.t.Errorf("order %+v: got %v, want %s", o, err, want)
		}
	}
	rec := httptest.NewRecorder()
	a.Metrics().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(rec.Body)
	for _, want := range []string{`pathwise_path_up{class="",network="vxlan",pair="a>b"} 1`,
		`pathwise_path_buckets{class="",network="routed-bgp",pair="a>b"} 64`, "pathwise_agent_pods 1",
		"pathwise_agent_switches_total 0", `pathwise_agent_probes_refused_total{network="vxlan",reason="reflector_forged"} 0`,
		`pathwise_agent_dataplane_events_total{event="stranger"} 0`,
		`pathwise_agent_flows{state="steerable"} `, "pathwise_agent_flows_room ", "pathwise_agent_flows_refused_total 0",
		"pathwise_agent_kernel_memory_bytes "} {
		if !strings.Contains(string(text), want) {
			b.t.Errorf("metrics lack %s", want)
		}
	}
	cancel()
	if err := <-served; err != nil {
		b.t.Errorf("serve: %v", err)
	}
	if _, err := c.Paths(context.Background()); err == nil || !strings.Contains(err.Error(), "no agent is running") {
		b.t.Errorf("an agent that has ended: %v", err)
	}
}

func switchByHand(b *bed) {
	a := b.agents["h1"]
	a.wish.set("vxlan") // the policy agrees: else it would move back
	e, err := a.Order(Order{Local: "a", Remote: "b", Network: "vxlan"})
	if err != nil {
		b.t.Fatal(err)
	}
	// The policy may have been faster by a moment.
	if e.To != "vxlan" || e.By != "user" || e.Kind != string(decide.Switch) && e.Kind != string(decide.Stay) {
		b.t.Errorf("event: %+v", e)
	}
	b.flows("vxlan") // the peer follows
	b.await("paths to show where a pair goes that follows", func() bool {
		return !slices.ContainsFunc(b.agents["h2"].Paths(), func(s PathStatus) bool {
			there := s.Network == "vxlan"
			return s.Active != there || there != (s.Buckets == dataplane.Buckets) ||
				there && s.Why != "no flows of its own: follows the other end"
		})
	})
	b.await("the peer's agent to confirm", func() bool {
		a.members.Lock()
		defer a.members.Unlock()
		p := a.entries.firstNamed("a", "b")
		return !p.unsettled
	})
	again, err := a.Order(Order{Local: "a", Remote: "b", Network: "vxlan"})
	if err != nil || again.Kind != string(decide.Stay) {
		b.t.Errorf("once more: %+v, %v", again, err)
	}
	a.event(b, 0, "the outcome of the switch",
		func(o Event) bool { return o.Kind == EventOutcome && o.Gain != nil && o.To == "vxlan" })
}

// canaryStays: no more flows move then, but who reads the events must learn of it.
func canaryStays(b *bed) {
	a := b.agents["h1"]
	since := a.journal.last().ID
	a.wish.attempt("vxlan", "macvlan")
	b.flows("macvlan")
	a.wish.set("macvlan")
	e := a.event(b, since, "the move", func(e Event) bool { return e.Kind == string(decide.Switch) })
	if e.From != "vxlan" || e.To != "macvlan" || e.Evidence == nil {
		b.t.Errorf("event: %+v", e)
	}
	a.event(b, e.ID, "its outcome", func(o Event) bool { return o.Kind == EventOutcome && o.Of == e.ID && o.Gain != nil })
	time.Sleep(5 * epoch)
	events, _ := a.journal.since(e.ID)
	for _, again := range events {
		if again.Kind == string(decide.Switch) {
			b.t.Errorf("it is told again: %+v", again)
		}
	}
	a.wish.set("vxlan")
	b.flows("vxlan")
}

func pinHolds(b *bed) {
	a := b.agents["h1"]
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: true}); err != nil {
		b.t.Fatal(err)
	}
	b.flows("macvlan")
	time.Sleep(5 * epoch) // the policy wants vxlan, several times
	if on := a.on("a", "b"); on != "macvlan" {
		b.t.Errorf("a pinned pair is on %q", on)
	}
	if i := slices.IndexFunc(a.Paths(), func(p PathStatus) bool { return p.Pinned && p.Network == "macvlan" }); i < 0 {
		b.t.Errorf("the pin is not shown: %+v", a.Paths())
	}
	// A failure moves it all the same; well again, it returns.
	b.impair("macvlan", impair.Impairment{DropIngress: true, DropEgress: true}, "a", "agent-h1")
	b.await("the pinned pair to leave", func() bool { return a.on("a", "b") != "macvlan" })
	b.impair("macvlan", impair.Impairment{}, "a", "agent-h1")
	b.flows("macvlan")
	if _, err := a.Order(Order{Local: "a", Remote: "b"}); err != nil {
		b.t.Fatal(err)
	}
	b.flows("vxlan")
}

func blackHole(b *bed) {
	a := b.agents["h1"]
	since := a.journal.last().ID
	b.impair("vxlan", impair.Impairment{DropIngress: true, DropEgress: true}, "a", "agent-h1")
	e := a.event(b, since, "failover",
		func(e Event) bool { return e.Kind == string(decide.Failover) && e.Pair == "a>b" && e.From == "vxlan" })
	if e.Evidence == nil || e.By != "policy" || e.To == "vxlan" {
		b.t.Errorf("event: %+v", e)
	}
	b.t.Logf("detected in %v", e.Detected)
	b.flows(e.To)
	// A user may insist, but must say so.
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "vxlan"}); err == nil ||
		!strings.Contains(err.Error(), "--force") {
		b.t.Errorf("order onto a failed path: %v", err)
	}
	b.impair("vxlan", impair.Impairment{}, "a", "agent-h1")
	a.event(b, since, "the path to be well again", func(e Event) bool { return e.Kind == EventCleared && e.To == "vxlan" })
	b.flows("vxlan")
}

// oneWay is a black hole of the sender's host in one direction: the other end
// still sends, or still receives.
func oneWay(how impair.Impairment) func(*bed) {
	return func(b *bed) {
		a := b.agents["h1"]
		since := a.journal.last().ID
		b.impair("vxlan", how, "agent-h1", "a") // else it fails for the pair alone
		e := a.event(b, since, "failover",
			func(e Event) bool { return e.Kind == string(decide.Failover) && e.Pair == "a>b" && e.From == "vxlan" })
		b.flows(e.To)
		there := func(p PathStatus) bool {
			return p.Network == "vxlan" && strings.HasSuffix(p.Why, "ago, on the way there")
		}
		if how.DropEgress {
			b.await("the direction", func() bool { return slices.ContainsFunc(a.Paths(), there) })
		} else if time.Sleep(10 * epoch); slices.ContainsFunc(a.Paths(), there) {
			b.t.Error("what comes in does not pass, and is said to")
		}
		b.impair("vxlan", impair.Impairment{}, "a", "agent-h1")
		b.flows("vxlan")
	}
}

func defaultBlackHole(b *bed) {
	a := b.agents["h1"]
	since := a.journal.last().ID
	b.impair("routed-bgp", impair.Impairment{DropIngress: true, DropEgress: true}, "a", "agent-h1")
	e := a.event(b, since, "failover",
		func(e Event) bool { return e.Kind == string(decide.Failover) && e.From == "routed-bgp" })
	b.flows(e.To)
	b.impair("routed-bgp", impair.Impairment{}, "a", "agent-h1")
	b.flows("routed-bgp")
}

// forged sends the agent of h2 what claims that networks have failed and flows
// have moved: without a key, with another key, and rubbish.
func forged(b *bed) {
	a, z := b.agents["h1"], b.agents["h2"]
	since := z.journal.last().ID
	self, target := b.pod("agent-h1"), b.pod("agent-h2")
	lie := notice{kind: noticeFailed, network: uint8(slices.Index(z.members.names, "vxlan")),
		names: z.members.dialect()}.encode()
	refused := func() (n uint64) {
		for _, c := range z.Health().Reflectors {
			n += c.Forged + c.Short + c.Oversized + c.BadTime
		}
		return n
	}
	before := refused()
	for _, at := range target.Attachments {
		own, _ := self.On(at.Network)
		to := netip.AddrPortFrom(at.Addr, stamp.Port)
		for _, keys := range []stamp.Keys{{}, {Current: []byte("another key of 32 octets, forged")}} {
			conn := dialFrom(b, self, own)
			s, err := stamp.NewSender(conn, stamp.SenderConfig{Keys: keys})
			if err != nil {
				b.t.Fatal(err)
			}
			for range 3 {
				if _, err := s.Send(to, stamp.SendOptions{TLVs: []stamp.TLV{{Type: noticeType, Value: lie}}}); err != nil {
					b.t.Error(err)
				}
			}
			conn.Close()
		}
		conn := dialFrom(b, self, own)
		for _, raw := range [][]byte{nil, {1}, make([]byte, 44), make([]byte, 112), make([]byte, 1400), lie} {
			if _, err := conn.WriteToUDPAddrPort(raw, to); err != nil {
				b.t.Error(err)
			}
		}
		conn.Close()
	}
	b.await("the reflectors to refuse all of them", func() bool { return refused() >= before+36 })
	time.Sleep(2 * epoch)
	events, _ := z.journal.since(since)
	for _, e := range events {
		if e.By == "peer" {
			b.t.Errorf("a forged notice was obeyed: %+v", e)
		}
	}
	if on := a.on("a", "b"); on != "vxlan" {
		b.t.Errorf("flows went to %q", on)
	}
}

func dialFrom(b *bed, p topo.Pod, at topo.Attachment) (conn *net.UDPConn) {
	b.t.Helper()
	if err := netns.Do(p.Netns, func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: at.Addr.AsSlice()})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// busyProcessors: silence that an agent does not notice as it waits for its turn, or
// that the other end waits for its own, is no failure.
func busyProcessors(b *bed) {
	a, z := b.agents["h1"], b.agents["h2"]
	since := map[*running]int{a: a.journal.last().ID, z: z.journal.last().ID}
	var hogs []*exec.Cmd
	for range 3 * runtime.NumCPU() {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		if err := hog.Start(); err != nil {
			b.t.Fatal(err)
		}
		hogs = append(hogs, hog)
	}
	time.Sleep(5 * time.Second)
	for _, hog := range hogs {
		if err := hog.Process.Kill(); err != nil {
			b.t.Error(err)
		}
		_ = hog.Wait() // killed
	}
	for r, id := range since {
		events, _ := r.journal.since(id)
		for _, e := range events {
			if e.Kind == string(decide.Failover) || e.Kind == string(decide.Fallback) || e.Kind == EventSuspect ||
				e.Kind == EventPeer {
				b.t.Errorf("nothing has failed: %s %s %s: %s", e.Host, e.Kind, e.Pair, e.Reason)
			}
		}
	}
	a.members.Lock()
	defer a.members.Unlock()
	b.t.Logf("the loop was up to %v late; %d suspicions", a.pacer.late(a.start, a.cfg.Now()), a.stats.suspicions)
}

// restart: the new agent finds the flows where its predecessor left them.
func restart(b *bed) {
	b.stop("h1")
	a := b.start("h1", func(c *Config) { c.Policy.(*wish).set("vxlan") })
	e := a.event(b, 0, "adoption", func(e Event) bool { return e.Kind == EventAdopted })
	if e.Pair != "a>b" || e.To != "vxlan" {
		b.t.Errorf("event: %+v", e)
	}
	b.flows("vxlan")
	events, _ := a.journal.since(0)
	for _, e := range events {
		if e.Kind == string(decide.Switch) || e.Kind == string(decide.Fallback) {
			b.t.Errorf("the new agent has moved flows: %+v", e)
		}
	}
}

// dryRun decides and moves nothing.
func dryRun(b *bed) {
	b.stop("h1")
	a := b.start("h1", func(c *Config) { c.DryRun = true; c.Policy.(*wish).set("macvlan") })
	e := a.event(b, 0, "a decision", func(e Event) bool { return e.Kind == string(decide.Switch) })
	if !e.DryRun || e.To != "macvlan" || e.Evidence == nil {
		b.t.Errorf("event: %+v", e)
	}
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "macvlan", Force: true}); err == nil ||
		!strings.Contains(err.Error(), "--dry-run") {
		b.t.Errorf("an order to an agent that moves nothing: %v", err)
	}
	b.flows("routed-bgp")
	b.stop("h1")
	b.start("h1", func(c *Config) { c.Policy.(*wish).set("vxlan") })
	b.flows("vxlan")
}

// defaultDeny: a network that is no longer said to enforce the same policy is
// left and used no more.
func defaultDeny(b *bed) {
	a := b.agents["h1"]
	deny := func(c *Cluster) { c.Equal = []string{"routed-bgp", "macvlan"} }
	b.tell("h1", deny)
	b.tell("h2", deny)
	b.await("the path to go", func() bool {
		p := a.pair("a", "b")
		return p != nil && len(p.routes) == 2 && b.agents["h2"].pair("b", "a") != nil &&
			len(b.agents["h2"].pair("b", "a").routes) == 2
	})
	b.await("the pair to open again", func() bool { return a.opened("a", "b") })
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "vxlan", Force: true}); err == nil ||
		!strings.Contains(err.Error(), "has no path on") {
		b.t.Errorf("order onto a network that is not equal: %v", err)
	}
	sent, _ := a.tallies("a", "b", "vxlan")
	b.flows("routed-bgp")
	if now, _ := a.tallies("a", "b", "vxlan"); now != sent {
		b.t.Errorf("%d packets went over it", now-sent)
	}
	for _, h := range []string{"h1", "h2"} {
		b.tell(h, func(c *Cluster) { c.Equal = b.state.Spec.Networks })
	}
	b.flows("vxlan")
}

// podBlackHole: the hosts' probes pass, the pods' packets do not.
func podBlackHole(how impair.Impairment) func(*bed) {
	return func(b *bed) {
		a := b.agents["h1"]
		since := a.journal.last().ID
		b.impair("macvlan", how, "a")
		e := a.event(b, since, "the pair to leave", func(e Event) bool { return e.Kind == EventSuspect && e.To == "macvlan" })
		// The other end may have been faster, or, on a busy machine, a connection of its own.
		if !strings.Contains(e.Reason, "packets do not pass") && !strings.Contains(e.Reason, "does not get through") ||
			e.Pair != "a>b" {
			b.t.Errorf("event: %+v", e)
		}
		b.await("flows to leave", func() bool { on := a.on("a", "b"); return on != "macvlan" && on != "" })
		b.impair("macvlan", impair.Impairment{}, "a")
		switch {
		case strings.Contains(e.Reason, "probes do"):
			a.event(b, since, "the path to be well again",
				func(e Event) bool { return e.Kind == EventCleared && e.Pair == "a>b" && e.To == "macvlan" })
		case strings.Contains(e.Reason, "says so"): // believed for a while by an agent that has just begun
			b.await("the path to be used again", func() bool {
				return slices.ContainsFunc(a.Paths(), func(s PathStatus) bool {
					return s.Pair == "a>b" && s.Network == "macvlan" && s.State == string(decide.Up)
				})
			})
		}
		b.move("routed-bgp")
	}
}

// replaced: the other host says first that b is another pod now. What is still
// steered to the old one is dropped; then its agent says that it does not know
// the pair, and traffic is native, until the new pair opens.
func replaced(b *bed) {
	a, z := b.agents["h1"], b.agents["h2"]
	before := z.strangers()
	again := func(c *Cluster) {
		i := slices.IndexFunc(c.Pods, func(p topo.Pod) bool { return p.Name == "b" })
		c.Pods[i].UID = "another-pod"
	}
	old := a.pair("a", "b").remote.UID
	b.tell("h2", again)
	// Packets may all have left by then: their silence moves the flows within
	// milliseconds.
	b.await("steered packets to be refused, or flows to have left",
		func() bool { return z.strangers() > before || a.on("a", "b") == "routed-bgp" })
	b.await("flows to the old pod to be native", func() bool {
		a.members.Lock()
		defer a.members.Unlock()
		p := a.entries.firstNamed("a", "b")
		choices, err := p.local.plane.Choices(p.remote.UID)
		return err == nil && moved(choices) == 0 && p.opened.IsZero()
	})
	b.tell("h1", again)
	b.await("the new pair", func() bool { p := a.pair("a", "b"); return p != nil && p.remote.UID == "another-pod" })
	b.await("the new pair to open", func() bool { return a.opened("a", "b") })
	a.members.Lock()
	for _, l := range a.members.pods {
		if l.pairs[old] != nil {
			b.t.Error("the old pair is still there")
		}
	}
	a.members.Unlock()
	// Connections of the old pod would end now; these stay native, as the new
	// pod has not opened them.
	b.carried("vxlan")
	// A pod that goes takes its pair with it, and traffic is native.
	gone := func(c *Cluster) { c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.Name == "b" }) }
	b.tell("h1", gone)
	b.await("the pair to go", func() bool { return a.pair("a", "b") == nil })
	if on := b.leads("a", "b"); on != "eth0" {
		b.t.Errorf("a's route to b leads to %s", on)
	}
	b.tell("h1", func(c *Cluster) { c.Pods = b.clusters["h2"].Pods })
	b.await("the pair to open again", func() bool { return a.opened("a", "b") })
	b.carried("vxlan")
}

// agentsGone: the data planes fall back to the default network by themselves when
// the lease is over.
func agentsGone(b *bed) {
	b.stop("h1")
	b.stop("h2")
	b.await("both pods to send over the default network alone", func() bool {
		var before, after [4]uint64
		for _, at := range []*[4]uint64{&before, &after} {
			for i, name := range []string{"a", "b"} {
				p := b.pod(name)
				vxlan, _ := p.On("vxlan")
				at[2*i], at[2*i+1] = b.transmitted(p, p.Attachments[0].Dev), b.transmitted(p, vxlan.Dev)
			}
			time.Sleep(100 * time.Millisecond)
		}
		return after[0] >= before[0]+5 && after[1] == before[1] && after[2] >= before[2]+5 && after[3] == before[3]
	})
	// Their successors find the choice in the maps, and it holds again.
	b.start("h1", func(c *Config) { c.Policy.(*wish).set("vxlan") })
	b.start("h2", nil)
	b.flows("vxlan")
}

// TestLinkLayerDefault: where the default network is one link, a peer must stay
// resolved while that network is a black hole, or nothing would leave the pod.
func TestLinkLayerDefault(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-l2", "vxlan", "macvlan")
	a := b.start("h1", nil)
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 64},
		Think: 2 * time.Millisecond})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.flows("vxlan")
	b.impair("vxlan", impair.Impairment{DropIngress: true, DropEgress: true}, "a", "agent-h1")
	b.flows("macvlan")
	b.await("both pods to hold their neighbour", func() bool {
		held := b.neighbour(b.pod("a"), b.pod("b").Addr()) & b.neighbour(b.pod("b"), b.pod("a").Addr())
		return held&netlink.NUD_PERMANENT != 0
	})
	time.Sleep(time.Second)
	b.flows("macvlan")
	// Its successor undoes what the agent has done to the pod.
	b.stop("h1")
	b.start("h1", nil)
	b.flows("macvlan")
	b.impair("vxlan", impair.Impairment{}, "a", "agent-h1")
	b.move("vxlan")
	b.await("the neighbour to be the kernel's again",
		func() bool { return b.neighbour(b.pod("a"), b.pod("b").Addr())&netlink.NUD_PERMANENT == 0 })
	checkLived(t, rr.stop(), udp.stop())
}

// TestPeerThatGoes: what an agent put into a pod for a peer goes with it.
func TestPeerThatGoes(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agt-go", "vxlan", "macvlan")
	a := b.start("h1", func(c *Config) { c.Policy.(*wish).set("macvlan") })
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.flows("macvlan")
	route := b.run(b.pod("a"), "ip", "route", "show", b.pod("b").Addr().String())
	if !strings.Contains(route, "rto_min lock 8ms") {
		t.Errorf("the route to a peer: %q", route)
	}
	b.tell("h1", func(c *Cluster) {
		c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.Name == "b" })
	})
	b.await("the pair to go", func() bool { return a.pair("a", "b") == nil })
	// The fitter undoes it, apart from the agent's loop.
	b.await("a's route to b to lead to eth0", func() bool { return b.leads("a", "b") == "eth0" })
	b.await("the agent's route to go",
		func() bool { return b.run(b.pod("a"), "ip", "route", "show", b.pod("b").Addr().String()) == "" })
	b.await("the neighbour to be the kernel's again",
		func() bool { return b.neighbour(b.pod("a"), b.pod("b").Addr())&netlink.NUD_PERMANENT == 0 })
	// The pod itself goes while its agent is away: the next one tidies up.
	b.stop("h1")
	pins := pinsOf(filepath.Join(b.pins, "h1"), b.pod("a").UID)
	if _, err := os.Stat(pins); err != nil {
		t.Error(err)
	}
	b.tell("h1", func(c *Cluster) {
		c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.Name == "a" })
	})
	b.start("h1", nil)
	b.await("the pins of a pod that is gone to go",
		func() bool { _, err := os.Stat(pins); return errors.Is(err, os.ErrNotExist) })
	udp.stop()
}

// TestFaults: what an agent cannot do, it says once, and goes on.
func TestFaults(t *testing.T) {
	b := newBed(t, "t-agt-bad", "vxlan", "macvlan")
	for want, change := range map[string]func(*Config){
		"key of 3 octets: expected at least 16": func(c *Config) { c.Keys = oneKey("abc") },
	} {
		cfg := Config{Host: "h1", Keys: oneKey("a key of the test, 32 octets wide")}
		change(&cfg)
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, c := range map[string]Cluster{
		`host "h1" is not in the cluster`: {},
	} {
		a, err := New(Config{Host: "h1", Keys: oneKey("a key of the test, 32 octets wide"),
			PinDir: filepath.Join(b.pins, "h1"), Source: func() (Cluster, error) { return c, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// A source that fails later is told once, not twice a second.
	var broken atomic.Bool
	a := b.start("h1", func(c *Config) {
		good := c.Source
		c.Source = func() (Cluster, error) {
			if broken.Load() {
				return Cluster{}, errors.New("the file is gone")
			}
			return good()
		}
	})
	broken.Store(true)
	warned := func(e Event) bool { return e.Kind == EventWarning && strings.Contains(e.Reason, "the file is gone") }
	a.event(b, 0, "a warning", warned)
	time.Sleep(4 * refresh)
	evs, _ := a.journal.since(0)
	if n := len(slices.DeleteFunc(evs, func(e Event) bool { return !warned(e) })); n != 1 {
		t.Errorf("warned %d times of one fault", n)
	}
}
