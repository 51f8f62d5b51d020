package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// with returns the pod with attachment number i at the address.
func with(p topo.Pod, i int, addr string) topo.Pod {
	p.Attachments = slices.Clone(p.Attachments)
	p.Attachments[i].Addr = netip.MustParseAddr(addr)
	return p
}

// anyAddr: any address may be several pods'.
func anyAddr(netip.Addr) bool { return true }

// TestDistinct: who has an address of another pod's is native, and so is that one.
func TestDistinct(t *testing.T) {
	p, q, r := testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "z", "m"), testPod("r", 2, 2, "z", "m", "b")
	agent := testPod("agent-h1", 1, 9, "z", "m")
	agent.Agent = true
	single := testPod("single", 2, 3, "z")
	for _, tc := range []struct {
		name   string
		pods   []topo.Pod
		native []string // of those with several networks
		addrs  []string
	}{
		{"nothing is shared", []topo.Pod{p, q, r, agent, single}, nil, nil},
		{"a path address", []topo.Pod{p, with(q, 1, "10.1.1.1"), r}, []string{"p", "q"}, []string{"10.1.1.1"}},
		{"a path address, the other way about", []topo.Pod{with(q, 1, "10.1.1.1"), r, p}, []string{"q", "p"},
			[]string{"10.1.1.1"}},
		{"a path address on different networks", []topo.Pod{p, q, with(r, 2, "10.1.1.1")}, []string{"p", "r"},
			[]string{"10.1.1.1"}},
		{"a path address, by three", []topo.Pod{p, with(q, 1, "10.1.1.1"), with(r, 1, "10.1.1.1")}, []string{"p", "q", "r"},
			[]string{"10.1.1.1"}},
		{"a path address that is another's stable one", []topo.Pod{p, with(q, 1, "10.0.1.1"), r}, []string{"p", "q"},
			[]string{"10.0.1.1"}},
		{"a path address that is the stable one of a pod with one network", []topo.Pod{p, with(q, 1, "10.0.2.3"), single},
			[]string{"q"}, []string{"10.0.2.3"}},
		{"a stable address", []topo.Pod{p, with(q, 0, "10.0.1.1"), r}, []string{"p", "q"}, []string{"10.0.1.1"}},
		{"a stable address, and a pod with one network", []topo.Pod{p, with(single, 0, "10.0.1.1"), r}, []string{"p"},
			[]string{"10.0.1.1"}},
		{"the host's address, by pods with one network",
			[]topo.Pod{p, single, with(testPod("other", 2, 4, "z"), 0, "10.0.2.3")}, nil, nil},
		{"a path address of the agent's", []topo.Pod{with(p, 1, "10.1.1.9"), q, agent}, []string{"p"}, []string{"10.1.1.9"}},
		{"one pod, twice", []topo.Pod{with(p, 1, "10.0.1.1"), q}, []string{"p"}, []string{"10.0.1.1"}},
		{"in the notation of IPv6", []topo.Pod{p, with(q, 1, "::ffff:10.1.1.1")}, []string{"p", "q"}, []string{"10.1.1.1"}},
		{"IPv6", []topo.Pod{with(p, 1, "fd00::1"), with(q, 1, "fd00::1"), r}, []string{"p", "q"}, []string{"fd00::1"}},
		{"two addresses", []topo.Pod{p, with(with(q, 1, "10.1.1.1"), 0, "10.0.2.2"), r}, []string{"p", "q", "r"},
			[]string{"10.0.2.2", "10.1.1.1"}},
	} {
		before := slices.Clone(tc.pods)
		got, found := Cluster{Pods: tc.pods}.distinct(anyAddr)
		var native, addrs []string
		for i, p := range got.Pods {
			if was := tc.pods[i]; len(p.Attachments) < len(was.Attachments) {
				native = append(native, p.Name)
				if len(p.Attachments) != 1 || p.Attachments[0] != was.Attachments[0] {
					t.Errorf("%s: %s is left with %v", tc.name, p.Name, p.Attachments)
				}
			}
		}
		for _, x := range found {
			addrs = append(addrs, x.addr.String())
			for _, cl := range x.claims {
				if text := x.describe(tc.pods); !strings.Contains(text, "pod "+tc.pods[cl.pod].Name+" (") ||
					!strings.Contains(text, x.addr.String()) {
					t.Errorf("%s: %q does not name %s", tc.name, text, tc.pods[cl.pod].Name)
				}
			}
		}
		if !slices.Equal(native, tc.native) || !slices.Equal(addrs, tc.addrs) {
			t.Errorf("%s: native %v for %v, want %v for %v", tc.name, native, addrs, tc.native, tc.addrs)
		}
		for i := range before {
			if len(before[i].Attachments) != len(tc.pods[i].Attachments) {
				t.Errorf("%s: changed what it was given", tc.name)
			}
		}
	}
}

// TestDescribeMany: an address of thousands of pods makes no line of thousands.
func TestDescribeMany(t *testing.T) {
	var pods []topo.Pod
	for i := range 2000 {
		pods = append(pods, with(testPod("p"+string(rune('a'+i%26)), 1+i%9, 1, "z", "m"), 1, "10.1.1.1"))
	}
	_, found := Cluster{Pods: pods}.distinct(anyAddr)
	i := slices.IndexFunc(found, func(x conflict) bool { return x.addr == netip.MustParseAddr("10.1.1.1") })
	if i < 0 {
		t.Fatal("not found")
	}
	if text := found[i].describe(pods); len(text) > 400 || !strings.Contains(text, "1996 more") {
		t.Error(text)
	}
}

// TestVetTellsOnce: a conflict is told when it begins and when it ends, not twice a
// second meanwhile.
func TestVetTellsOnce(t *testing.T) {
	a := &describer{journal: newJournal(Config{}.clocked())}
	p, q := testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "z", "m")
	shared := []topo.Pod{p, with(q, 1, "10.1.1.1")}
	for i, step := range []struct {
		pods   []topo.Pod
		events int
		native bool
	}{{[]topo.Pod{p, q}, 0, false}, {shared, 1, true}, {shared, 1, true}, {slices.Clone(shared), 1, true},
		{[]topo.Pod{p, q}, 2, false},
		{shared, 3, true}, {nil, 4, false}} {
		c, err := a.vet(Cluster{Pods: step.pods})
		if err != nil {
			t.Fatal(err)
		}
		if native := len(c.Pods) > 0 && len(c.Pods[0].Attachments) == 1; native != step.native {
			t.Errorf("step %d: native %v", i, native)
		}
		if evs, _ := a.journal.since(0); len(evs) != step.events {
			t.Errorf("step %d: events %+v", i, evs)
		}
	}
	evs, _ := a.journal.since(0)
	if evs[0].Kind != EventConflict || evs[1].Kind != EventCleared || !strings.Contains(evs[1].Reason, "10.1.1.1") {
		t.Errorf("%+v", evs)
	}
}

// TestSharedAddress: agents that are told that two pods have one path address leave
// both alone, also while they steer one of them, and take them up again.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-conf", "routed-bgp", "vxlan")
	b.start("h1", nil)
	b.start("h2", nil)
	a := b.agents["h1"]
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.move("vxlan")
	share := func(c *Cluster) {
		again := b.pod("b")
		again.Name, again.UID, again.Netns = "c", "another", "pw-t-conf-none"
		again = with(again, 0, "10.99.0.1")
		c.Pods = append(c.Pods, again)
	}
	since := a.journal.last().ID
	for _, h := range []string{"h1", "h2"} {
		b.tell(h, share)
	}
	e := a.event(b, since, "the conflict to be told", func(e Event) bool { return e.Kind == EventConflict })
	addr := b.pod("b").Attachments[1].Addr.String()
	if !strings.Contains(e.Reason, "pod b (") || !strings.Contains(e.Reason, "pod c (") ||
		!strings.Contains(e.Reason, addr) {
		b.t.Errorf("event: %+v", e)
	}
	b.await("the pairs to go", func() bool {
		return a.pair("a", "b") == nil && a.pair("a", "c") == nil && b.agents["h2"].pair("b", "a") == nil
	})
	dev := b.pod("a").Attachments[1].Dev
	before := b.transmitted(b.pod("a"), dev)
	time.Sleep(10 * epoch)
	// The flow sends a datagram each 5 ms; the stack's own keeping of neighbours and groups is a few.
	if now, flow := b.transmitted(b.pod("a"), dev), uint64(10*epoch/(5*time.Millisecond)); now > before+flow/10 {
		t.Errorf("%d packets left over the path of a pod whose address is another's too", now-before)
	}
	for _, h := range []string{"h1", "h2"} {
		b.tell(h, func(c *Cluster) { c.Pods = b.state.Pods })
	}
	a.event(b, since, "the conflict's end",
		func(e Event) bool { return e.Kind == EventCleared && strings.Contains(e.Reason, addr) })
	b.flows("vxlan")
	if got := udp.stop().Counts.Datagrams; got.Received == 0 || got.Foreign > 0 {
		t.Errorf("%+v", got)
	}
}
