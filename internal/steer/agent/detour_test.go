package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// TestFaultsOfSomePackets: a rule in a pod drops some packets of a network, while probes,
// echoes and other traffic of the pair pass. The connections that it hits leave, those that
// it does not hit stay, and both are where they were once it is gone.
func TestFaultsOfSomePackets(t *testing.T) {
	b := newBed(t, "t-detour", "routed-bgp", "vxlan", "macvlan")
	b.barFirst = time.Second // else most of the time would pass with waiting
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	hit := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Size: 4000, Think: 2 * time.Millisecond,
		Requests: stream.Sizes{Min: 4000, Max: 4000}})
	for _, tt := range []struct {
		name string
		on   string // where the flows are
		pod  string // where the rule is
		rule string // DEV and PORT are the network's interface there, and the connection's server
		all  bool   // the rule hits all connections
	}{
		{name: "one port of the default network", on: "routed-bgp", pod: "b", rule: "iifname DEV tcp dport PORT drop"},
		{name: "one port", on: "vxlan", pod: "b", rule: "iifname DEV tcp dport PORT drop"},
		{name: "its answers", on: "vxlan", pod: "a", rule: "iifname DEV tcp sport PORT drop"},
		{name: "large packets", on: "macvlan", pod: "b", rule: "iifname DEV meta length > 1000 drop"},
		{name: "large packets back", on: "macvlan", pod: "a", rule: "iifname DEV meta length > 1000 drop"},
		{name: "TCP of the default network", on: "routed-bgp", pod: "b", rule: "iifname DEV meta l4proto tcp drop",
			all: true},
		{name: "TCP", on: "vxlan", pod: "a", rule: "iifname DEV meta l4proto tcp drop", all: true},
	} {
		if !t.Run(tt.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			b.reset() // with no memory of the case before
			b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
			b.move(tt.on)
			b.carried(tt.on) // datagrams: those of before the reset may be b's
			b.drops(tt.pod, tt.on, tt.rule, hit.port)
			b.refuses(tt.on, hit.port, tt.all)
			b.runIn(b.pod(tt.pod).Netns, "nft", "delete table inet pw-t")
			b.await("all flows to be back", func() bool { return b.agents["h1"].on("a", "b") == tt.on })
			b.flows(tt.on)
		}) {
			b.runIn(b.pod(tt.pod).Netns, "sh", "-c", "nft delete table inet pw-t 2>/dev/null; true")
		}
	}
	// Nothing is sent any more while a connection is elsewhere, and the fault lasts.
	b.reset()
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
	b.move("routed-bgp")
	b.carried("routed-bgp")
	b.drops("b", "routed-bgp", "iifname DEV tcp dport PORT drop", hit.port)
	b.refuses("routed-bgp", hit.port, false)
	checkConnections(t, rr.stop())
	checkConnections(t, hit.stop())
	// Those of b, of which there are none, may have left with a's before, and nothing has them return.
	b.await("the flows of a to be home, at both ends", func() bool {
		return b.agents["h1"].on("a", "b") == "routed-bgp" && b.agents["h2"].follows("b", "a") == "routed-bgp"
	})
	b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
}

// drops has a pod drop what the rule says of a network.
func (b *bed) drops(pod, network, rule string, port uint16) {
	b.t.Helper()
	p := b.pod(pod)
	dev := ""
	for _, at := range p.Attachments {
		if at.Network == network {
			dev = at.Dev
		}
	}
	rule = strings.NewReplacer("DEV", dev, "PORT", fmt.Sprint(port)).Replace(rule)
	b.filter(p.Netns, "input", rule)
}

// filter adds a rule to what passes a hook in a namespace, in a table of its own.
func (b *bed) filter(ns, hook, rule string) {
	b.t.Helper()
	b.runIn(ns, "nft", fmt.Sprintf("table inet pw-t { chain c { type filter hook %s priority 0\n%s\n}\n}", hook, rule))
}

// refuses waits until the connection with the server's port is found not to get through on
// the network, and goes elsewhere. The others stay, unless all are hit.
func (b *bed) refuses(network string, port uint16, all bool) {
	b.t.Helper()
	a, z := b.agents["h1"], b.agents["h2"]
	noted := func(r *running, since int) (found bool) {
		events, _ := r.journal.since(since)
		for _, e := range events {
			found = found || e.Kind == EventSuspect && e.To == network && (all || strings.Contains(e.Reason, fmt.Sprint(port)))
		}
		return found
	}
	first, second := a.journal.last().ID, z.journal.last().ID
	b.await("the connection to leave", func() bool { return noted(a, first) || noted(z, second) })
	elsewhere := func() (n uint64) {
		for _, other := range b.state.Spec.Networks {
			if other != network {
				sent, received := a.tallies("a", "b", other)
				n += min(sent, received)
			}
		}
		return n
	}
	was := elsewhere()
	b.await("it to go elsewhere", func() bool { return elsewhere() > was+50 })
	if all {
		return
	}
	sent, received := a.tallies("a", "b", network)
	b.await("the others to stay", func() bool {
		s, r := a.tallies("a", "b", network)
		return s > sent+50 && r > received+50
	})
}

// TestNothingGetsThrough: a pod takes nothing on any network, while the hosts' probes pass.
// No path is to blame: the pair does not move to and fro, its connections bar no path, and
// flows are where they were once the fault is over.
func TestNothingGetsThrough(t *testing.T) {
	b := newBed(t, "t-nothing", "routed-bgp", "vxlan", "macvlan")
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 4, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	for name, rule := range map[string]string{"nothing": "drop", "echoes alone": "meta l4proto != icmp drop"} {
		if !t.Run(name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			b.reset()
			b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
			b.move("vxlan")
			b.carried("vxlan") // datagrams: those of before the reset may be b's
			since := b.agents["h1"].journal.last().ID
			b.drops("b", "vxlan", rule, 0)
			time.Sleep(2 * time.Second) // as long as the fault lasts
			b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
			b.await("traffic again", func() bool {
				s, r := b.agents["h1"].tallies("a", "b", "vxlan")
				time.Sleep(100 * time.Millisecond)
				s2, r2 := b.agents["h1"].tallies("a", "b", "vxlan")
				return s2 > s+10 && r2 > r+10
			})
			moves := 0
			events, _ := b.agents["h1"].journal.since(since)
			for _, e := range events {
				switch e.Kind {
				case string(decide.Failover), string(decide.Fallback), string(decide.Switch):
					moves++
				case EventSuspect: // echoes may tell a path that answers first from one that does later
					if strings.Contains(e.Reason, "does not get through") {
						t.Errorf("blamed: %s", e.Reason)
					}
				}
			}
			if moves > 2 {
				t.Errorf("%d moves", moves)
			}
			b.flows("vxlan")
		}) {
			b.runIn(b.pod("b").Netns, "sh", "-c", "nft delete table inet pw-t 2>/dev/null; true")
		}
	}
	checkConnections(t, rr.stop())
}

// TestInquiriesAreBounded: thousands of timers fire when a path fails, and only some of their
// connections are asked, each once at a time.
func TestInquiriesAreBounded(t *testing.T) {
	now := time.Now()
	a := newAgent(Config{Now: func() time.Time { return now }})
	var pairs []*pair
	for i := range 10 {
		l := &pod{Pod: topo.Pod{UID: fmt.Sprint(i)}, pairs: map[string]*pair{}}
		p := &pair{local: l, routes: make([]route.Route, 2), accord: accord{opened: now}}
		a.members.pods[l.UID], l.pairs[""] = l, p
		pairs = append(pairs, p)
		for port := range uint16(1000) {
			e := telemetry.Event{Kind: telemetry.Timeout, LocalPort: port, RemotePort: 80}
			a.inquirer.inquiries.ask(p, e, now, nil)
			a.inquirer.inquiries.ask(p, e, now, nil)
		}
		if n := len(p.inquiries); n > a.pairs.params.DetoursMost {
			t.Errorf("%d of a pair", n)
		}
	}
	if n := len(a.inquirer.inquiries.open); n != inquiriesMost {
		t.Errorf("%d open, want %d", n, inquiriesMost)
	}
	// One has gone, one is settled, and one is not to be asked again for a while.
	delete(a.members.pods, "0")
	settled, nowhere := a.inquirer.inquiries.open[20], a.inquirer.inquiries.open[21]
	for _, q := range []*inquiry{settled, nowhere} {
		q.begun, q.Detour = true, detect.NewDetour(a.pairs.params, 0, detect.Progress{}, now)
	}
	settled.Abandon(now)
	nowhere.Look(detect.Progress{Open: true, Waiting: true}, 1, nil, now.Add(time.Second))
	a.inquirer.inquiries.settle(a.members.knows, now)
	if len(pairs[0].inquiries) > 0 || settled.pair.inquiries[settled.ports] != nil ||
		nowhere.pair.inquiries[nowhere.ports] == nil {
		t.Errorf("%d of a pair that has gone, %v, %v", len(pairs[0].inquiries), settled.State(), nowhere.State())
	}
	if now = now.Add(3 * time.Second); len(a.inquirer.inquiries.open) > 0 {
		a.inquirer.inquiries.settle(a.members.knows, now)
	}
	if nowhere.pair.inquiries[nowhere.ports] != nil {
		t.Error("it is not asked again")
	}
	questions, open := a.inquirer.inquiries.questions()
	if n := len(questions[""]); !open || n == 0 || n > inquiriesMost {
		t.Errorf("%d are asked", n)
	}
}

// TestInsist: a user who insists has all flows try a path at once, also those that keep off it as they
// did not get through there; where that cannot be done, all is as it was.
func TestInsist(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	p.opened, p.assigned = now, decide.Assignment{Active: "z"}
	m, z := p.routes[0].Index, p.routes[1].Index
	if p.routes[1].Network != "z" {
		t.Fatalf("%+v", p.routes)
	}
	off := func(bucket uint8, from, to int) {
		d := p.detours.of(bucket)
		d.from, d.to, d.out = from, to, true
		d.bar.Raise(a.pairs.params, now)
	}
	off(5, z, m)
	off(6, m, z)
	p.lines[1].bar.Raise(a.pairs.params, now)
	check := func(what string, path, refused int, barred bool) {
		t.Helper()
		if got := p.wanted(p.assignments())[5]; got != path {
			t.Errorf("%s: bucket 5 is wanted on %d, want %d", what, got, path)
		}
		if n := p.detours.refused(z, now); n != refused || (p.lines[1].bar.Left(now) > 0) != barred {
			t.Errorf("%s: %d buckets keep off it, barred for %v", what, n, p.lines[1].bar.Left(now))
		}
		if !p.detours[6].out || p.detours.refused(m, now) != 1 {
			t.Errorf("%s: those that keep off another path are forgotten", what)
		}
	}
	check("before", m, 1, true)
	restore := p.recall(z, true, now)
	check("insisted", z, 0, false)
	restore()
	check("restored", m, 1, true)
	p.recall(z, false, now)
	check("without force", m, 1, true)
	p.detours[5].bar.Lift(now) // as of a connection that is being asked about
	p.recall(z, false, now)
	check("of what is not proven", z, 0, true)
	p.trial = &trial{}
	if restore = p.recall(0, true, now); p.trial != nil {
		t.Error("requests go on trying elsewhere what is ordered home")
	}
	if restore(); p.trial == nil {
		t.Error("the trial is forgotten though the order was refused")
	}
}
