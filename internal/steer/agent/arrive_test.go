package agent

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// greet sends a datagram from a pod to each of the addresses.
func (b *bed) greet(p topo.Pod, to []netip.Addr) {
	b.t.Helper()
	if err := netns.Do(p.Netns, func() error {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: p.Addr().AsSlice(), Port: 4711})
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, a := range to {
			_, _ = conn.WriteToUDPAddrPort([]byte("hello"), netip.AddrPortFrom(a, 9)) // nobody is there
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

// peers is how many peers of a pod are entered.
func (r *running) peers(local string) (n int) {
	r.members.Lock()
	defer r.members.Unlock()
	for _, l := range r.members.pods {
		if l.Name == local {
			n = len(l.plane.Peers())
		}
	}
	return n
}

// TestManyPeers: a pod may speak with hundreds of others; room for them is made while
// its flows are steered, and nothing waits for it. They leave when they have fallen
// silent, and come again.
func TestManyPeers(t *testing.T) {
	b := newBed(t, "t-peers", "routed-bgp", "vxlan")
	const many = 1500
	var to []netip.Addr
	for _, h := range []string{"h1", "h2"} {
		b.tell(h, func(c *Cluster) {
			for i, on := 0, b.pod("b").Host; len(c.Pods) < len(b.state.Pods)+many; i++ {
				if p := far(b.pod("a"), i, on, false); p.Addr().Is4() {
					c.Pods = append(c.Pods, p)
					to = append(to, p.Addr())
				}
			}
		})
	}
	slices.SortFunc(to, netip.Addr.Compare)
	to = slices.Compact(to)
	a := b.start("h1", func(c *Config) { c.leave = 3 * time.Second })
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.move("vxlan")
	held := a.held(t.Context())
	for _, n := range []int{300, many} {
		held()
		begin := time.Now()
		b.await("peers to be entered", func() bool {
			b.greet(b.pod("a"), to[:n])
			time.Sleep(50 * time.Millisecond)
			return a.peers("a") > n
		})
		// On an idle machine for less than 100 ms, where loading programs takes 300.
		t.Logf("%d peers were entered in %v: lock %v", n, time.Since(begin).Round(time.Millisecond), held())
		b.flows("vxlan")
	}
	held()
	begin := time.Now()
	b.await("silent peers to leave", func() bool { return a.peers("a") == 1 })
	t.Logf("they left in %v: lock %v", time.Since(begin).Round(time.Millisecond), held())
	b.flows("vxlan")
	b.await("peers to come again", func() bool {
		b.greet(b.pod("a"), to[:100])
		time.Sleep(50 * time.Millisecond)
		return a.peers("a") > 100
	})
	r := udp.stop()
	if n := r.Counts.Datagrams; n.Received < 100 || n.Lost > 0 {
		t.Errorf("%+v", n)
	}
}

// TestPeersMost: of more pods than there is room for, further ones are native, and that
// is said once.
func TestPeersMost(t *testing.T) {
	b := newBed(t, "t-most", "routed-bgp", "vxlan")
	var to []netip.Addr
	b.tell("h1", func(c *Cluster) {
		for i, on := 0, b.pod("b").Host; len(to) < 40; i++ {
			if p := far(b.pod("a"), i, on, false); p.Addr().Is4() {
				c.Pods = append(c.Pods, p)
				to = append(to, p.Addr())
			}
		}
	})
	a := b.start("h1", func(c *Config) { c.peers = 16 })
	for range 30 {
		b.greet(b.pod("a"), to)
		time.Sleep(50 * time.Millisecond)
	}
	if n := a.peers("a"); n != 16 {
		t.Errorf("%d peers, expected 16", n)
	}
	events, _ := a.journal.since(0)
	n := 0
	for _, e := range events {
		if e.Kind == EventWarning {
			n++
			t.Log(e.Reason)
		}
	}
	if n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// TestLatePod: a pod that comes while the agent runs is steered, and taking it in holds
// nobody.
func TestLatePod(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-late", "routed-bgp", "vxlan")
	late := b.pod("a")
	b.tell("h1", func(c *Cluster) {
		c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.UID == late.UID })
	})
	a := b.start("h1", nil)
	b.start("h2", nil)
	held := a.held(t.Context())
	least := wait{lock: time.Hour}
	for range 3 {
		held()
		b.tell("h1", func(c *Cluster) { c.Pods = slices.Clone(b.state.Pods) })
		b.await("the pod to be taken in", func() bool { return a.Health().Pods == 1 })
		if w := held(); w.lock < least.lock {
			least = w
		}
		b.tell("h1", func(c *Cluster) {
			c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.UID == late.UID })
		})
		b.await("the pod to go", func() bool { return a.Health().Pods == 0 })
	}
	t.Logf("taking a pod in: lock %v", least)
	b.tell("h1", func(c *Cluster) { c.Pods = slices.Clone(b.state.Pods) })
	b.await("the pod to be taken in", func() bool { return a.Health().Pods == 1 })
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.move("vxlan")
	udp.stop()
}
