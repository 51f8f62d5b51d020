package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// TestOrders holds agents to what they say: an order that is refused changes nothing,
// and a pair that was silent has not failed.
func TestOrders(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-order", "routed-bgp", "vxlan", "macvlan")
	b.start("h1", nil)
	b.start("h2", nil)
	for _, step := range []struct {
		name string
		run  func(*bed)
	}{
		{"an order that is refused enters no pair", refusedFirst},
		{"refused orders change nothing", refusedOrders},
		{"a silent pair goes home", silentPair},
		{"a dry run refuses", dryOrders},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			step.run(b)
		}) {
			break
		}
	}
}

// TestUnpinWhatIsNotPinned: it is no event, and nobody is told that a pin has gone.
func TestUnpinWhatIsNotPinned(t *testing.T) {
	a, p, _ := onePair(t)
	a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
	for _, tc := range []struct{ pinned, kind string }{{"", string(decide.Stay)}, {"z", EventPinned},
		{"", string(decide.Stay)}} {
		before := a.journal.last().ID
		p.pinned = tc.pinned
		e, err := a.Order(Order{Local: "p", Remote: "q"})
		if err != nil || e.Kind != tc.kind || p.pinned != "" || (a.journal.last().ID != before) != (tc.pinned != "") {
			t.Errorf("pinned to %q: %+v, %v", tc.pinned, e, err)
		}
	}
}

// TestOrderToWhatFlowsKeepOff: flows that do not get through on a path keep off it, so that an
// order to it is refused before anything moves, and nothing is told as done.
func TestOrderToWhatFlowsKeepOff(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	p.local.plane, p.opened = &dataplane.Plane{}, now
	p.assigned = decide.Assignment{Active: "m"}
	z := p.routes[1].Index
	d := p.detours.of(5)
	d.from, d.to, d.out = z, p.routes[0].Index, true
	d.bar.Raise(a.pairs.params, now)
	a.members.Lock() // as Order has it
	defer a.members.Unlock()
	_, err := a.overrides.obey(p, p.routes[1], decide.PairEvidence{}, false)
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "1 of 64 groups of flows of p>q keep off z") {
		t.Error(err)
	}
	if e := a.journal.last(); strings.Contains(e.Reason, "move to") || a.stats.switches != 0 || p.on().Network != "m" {
		t.Errorf("told %+v; %d switches, on %s", e, a.stats.switches, p.on().Network)
	}
	if _, err := a.overrides.obey(p, p.routes[1], decide.PairEvidence{}, true); err == nil ||
		strings.Contains(err.Error(), "keep off") || !p.detours[5].out {
		t.Errorf("by force: %v, %+v", err, p.detours[5])
	}
}

// TestOrderWhileAConnectionIsAsked: buckets that try another path for a connection keep off none yet,
// so that an order is not refused for them.
func TestOrderWhileAConnectionIsAsked(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	p.local.plane, p.opened = &dataplane.Plane{}, now
	p.assigned = decide.Assignment{Active: "m"}
	d := p.detours.of(5)
	d.from, d.to, d.out = p.routes[1].Index, p.routes[0].Index, true
	a.members.Lock() // as Order has it
	defer a.members.Unlock()
	_, err := a.overrides.obey(p, p.routes[1], decide.PairEvidence{}, false)
	if err == nil || !strings.Contains(err.Error(), "did not move to z: ") {
		t.Error(err)
	}
	if !p.detours[5].out { // the data plane has nothing of the pair, so that all is as it was
		t.Error("the order has moved nothing, and the connection is asked no more")
	}
}

// unchanged gives an order that is to be refused, and wants nothing to have changed.
func (b *bed) unchanged(o Order, want string) {
	b.t.Helper()
	a := b.agents["h1"]
	type state struct {
		pinned, on string
		assigned   decide.Assignment
		trial      decide.Trial
		switches   uint64
	}
	look := func() (s state) {
		s.on = a.on("a", "b")
		a.members.Lock()
		defer a.members.Unlock()
		p := a.entries.firstNamed("a", "b")
		s.pinned, s.assigned, s.trial, s.switches = p.pinned, p.assigned, p.rows.Of[0].Trial, a.stats.switches
		return s
	}
	before, since := look(), a.journal.last().ID
	if _, err := a.Order(o); err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("%+v: got %v, want %s", o, err, want)
	}
	if after := look(); after != before {
		b.t.Errorf("%+v: %+v became %+v", o, before, after)
	}
	events, _ := a.journal.since(since)
	for _, e := range events {
		if e.By == "user" {
			b.t.Errorf("%+v: %+v", o, e)
		}
	}
}

// refusedFirst: the pods have not spoken with each other yet.
func refusedFirst(b *bed) {
	a := b.agents["h1"]
	entered := func() (out []string) {
		a.members.Lock()
		defer a.members.Unlock()
		for _, l := range a.members.pods {
			for _, p := range l.pairs {
				out = append(out, p.name)
			}
			out = append(out, l.plane.Peers()...)
		}
		return out
	}
	if known := entered(); len(known) > 0 {
		b.t.Fatalf("entered before: %v", known)
	}
	for _, tc := range []struct {
		order Order
		want  string
	}{
		{Order{Local: "a", Remote: "b", Network: "nowhere", Pin: true}, "has no path on"},
		{Order{Local: "a", Remote: "b", Pin: true}, "expected a network"},
		{Order{Local: "a", Remote: "b", Network: "vxlan"}, "--force"},
		{Order{Local: "a", Remote: "c", Network: "vxlan"}, "no such pair"},
	} {
		if _, err := a.Order(tc.order); err == nil || !strings.Contains(err.Error(), tc.want) {
			b.t.Errorf("%+v: got %v, want %s", tc.order, err, tc.want)
		}
		if known := entered(); len(known) > 0 {
			b.t.Errorf("%+v has entered %v", tc.order, known)
		}
	}
}

func refusedOrders(b *bed) {
	a := b.agents["h1"]
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	defer udp.stop()
	a.wish.set("routed-bgp")
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.unchanged(Order{Local: "a", Remote: "b", Network: "nowhere", Pin: true}, "has no path on")
	b.unchanged(Order{Local: "a", Remote: "b", Pin: true}, "expected a network")
	b.unchanged(Order{Local: "a", Remote: "b", Force: true}, "expected a network")
	b.impair("vxlan", impair.Impairment{DropIngress: true, DropEgress: true}, "a", "agent-h1")
	a.wish.set("vxlan")
	b.await("the path to have failed", func() bool {
		for _, p := range a.Paths() {
			if p.Network == "vxlan" && p.State == string(decide.Failed) {
				return true
			}
		}
		return false
	})
	a.wish.set("routed-bgp")
	b.flows("routed-bgp")
	b.unchanged(Order{Local: "a", Remote: "b", Network: "vxlan"}, `"pathwise pin" moves there once it is up, --force`)
	pinPending(b)
	keepsOff(b)
	// A data plane that does not know the peer cannot move its flows.
	a.members.Lock()
	p := a.entries.firstNamed("a", "b")
	err := p.local.plane.RemovePeer(p.remote.UID)
	a.members.Unlock()
	if err != nil {
		b.t.Fatal(err)
	}
	b.unchanged(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: true, Force: true}, "did not move to macvlan")
	// Neither can the policy, which is to know that.
	a.wish.set("macvlan")
	on := ""
	b.await("the policy to have moved them", func() bool {
		a.members.Lock()
		defer a.members.Unlock()
		on = p.on().Network
		return p.decision[0].To == "macvlan"
	})
	if on != "routed-bgp" {
		b.t.Errorf("assigned to %s, though the data plane has refused", on)
	}
	a.wish.set("routed-bgp")
	a.members.Lock()
	err = a.entries.setPeer(p, true)
	p.stale = time.Time{}
	a.members.Unlock()
	if err != nil {
		b.t.Fatal(err)
	}
	// The next one begins with agents that know of nothing.
	for _, h := range []string{"h1", "h2"} {
		b.stop(h)
		b.start(h, nil)
	}
}

// pinPending: a pin to a path that has failed is kept until it is well: it is shown, moves
// nothing, and is carried out when the path is well again.
func pinPending(b *bed) {
	a := b.agents["h1"]
	e, err := a.Order(Order{Local: "a", Remote: "b", Network: "vxlan", Pin: true})
	if err != nil || e.Kind != EventPinned || !strings.Contains(e.Reason, "pending: vxlan is failed") {
		b.t.Errorf("a pin to a failed path: %+v, %v", e, err)
	}
	for _, p := range a.Paths() {
		if p.Pending != (p.Network == "vxlan") || p.Pending && !strings.HasPrefix(p.Why, "pinned, pending: ") {
			b.t.Errorf("%+v", p)
		}
	}
	b.flows("routed-bgp")
	b.impair("vxlan", impair.Impairment{}, "a", "agent-h1")
	b.flows("vxlan")
	for _, p := range a.Paths() {
		if p.Pending || p.Pinned != (p.Network == "vxlan") {
			b.t.Errorf("%+v", p)
		}
	}
	if _, err := a.Order(Order{Local: "a", Remote: "b"}); err != nil {
		b.t.Error(err)
	}
	b.flows("routed-bgp") // as the policy wants
}

// keepsOff: a connection that does not get through on a path keeps its bucket off it. An order
// there would have moved the others, and is refused before that.
func keepsOff(b *bed) {
	a := b.agents["h1"]
	a.members.Lock()
	p := a.entries.firstNamed("a", "b")
	to, _ := p.routes.byNetwork("macvlan")
	d := p.detours.of(7)
	d.from, d.to, d.out = to.Index, p.on().Index, true
	d.bar.Raise(a.pairs.params, a.cfg.Now())
	a.members.Unlock()
	b.unchanged(Order{Local: "a", Remote: "b", Network: "macvlan"}, "keep off macvlan")
	b.unchanged(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: true}, "keep off macvlan")
	a.members.Lock()
	defer a.members.Unlock()
	delete(p.detours, 7)
}

// silentPair: confirmations are renewed while there is traffic, and end without.
func silentPair(b *bed) {
	a := b.agents["h1"]
	a.wish.set("vxlan")
	talk := func() *load {
		return b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	}
	udp := talk()
	b.await("flows to move", func() bool { return a.on("a", "b") == "vxlan" })
	b.flows("vxlan") // the pair may move for what was before, while the client still begins
	if got := udp.stop().Counts.Datagrams; got.Received == 0 {
		b.t.Errorf("%+v", got)
	}
	a.members.Lock()
	stats := *a.stats
	a.members.Unlock()
	since := a.journal.last().ID
	time.Sleep(21 * time.Second)
	udp = talk()
	b.await("the flows to be on the path again", func() bool { return a.on("a", "b") == "vxlan" && a.opened("a", "b") })
	b.flows("vxlan")
	if got := udp.stop().Counts.Datagrams; got.Received == 0 || got.Foreign > 0 {
		b.t.Errorf("%+v", got)
	}
	events, _ := a.journal.since(since)
	homes := 0
	for _, e := range events {
		switch e.Kind {
		case string(decide.Failover), string(decide.Fallback), EventSuspect:
			b.t.Errorf("a pair that was silent: %+v", e)
		case string(decide.Home):
			homes++
			if e.Pair != "a>b" || e.From != "vxlan" || e.To != "routed-bgp" || !strings.Contains(e.Reason, "no traffic for 1") {
				b.t.Errorf("event: %+v", e)
			}
		}
	}
	a.members.Lock()
	now := *a.stats
	a.members.Unlock()
	if homes != 1 || now.homes != stats.homes+1 || now.failovers != stats.failovers || now.switches > stats.switches+1 {
		b.t.Errorf("%d events; %+v became %+v", homes, stats, now)
	}
}

func dryOrders(b *bed) {
	b.stop("h1")
	a := b.start("h1", func(c *Config) { c.DryRun = true; c.Policy.(*wish).set("routed-bgp") })
	for _, force := range []bool{false, true} {
		for _, pin := range []bool{false, true} {
			b.unchanged(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: pin, Force: force}, "--dry-run")
		}
	}
	for _, p := range a.Paths() {
		if p.Pinned {
			b.t.Errorf("pinned: %+v", p)
		}
	}
}
