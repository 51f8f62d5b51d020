package agent

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// TestLargeCluster: 20,000 pods elsewhere cost their addresses. Peers are entered when
// there is traffic with them. Fails if every pod is entered as a peer.
func TestLargeCluster(t *testing.T) {
	b := newBed(t, "t-agt-large", "vxlan", "macvlan")
	for _, h := range b.state.Hosts {
		b.tell(h.Name, func(c *Cluster) {
			for i := range 20000 {
				at := func(net byte) netip.Addr { return netip.AddrFrom4([4]byte{10, net, byte(i >> 8), byte(i)}) }
				c.Pods = append(c.Pods, topo.Pod{Name: fmt.Sprint("far-", i), UID: fmt.Sprint("far-", i), Host: 3 + i%500,
					Netns: "none", Attachments: []topo.Attachment{
						{Network: "vxlan", Dev: "eth0", Addr: at(200), MTU: 1450},
						{Network: "macvlan", Dev: "net1", Addr: at(201), MTU: 1500}}})
			}
		})
	}
	before := resident(t)
	begin := time.Now()
	one := b.start("h1", nil)
	t.Logf("started after %v", time.Since(begin).Round(time.Millisecond))
	b.start("h2", nil)
	var was, is unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &was); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &is); err != nil {
		t.Fatal(err)
	}
	t.Logf("two idle agents: %.1f %% of a CPU, %d KiB more than before", 50*(cpu(is)-cpu(was)).Seconds(),
		resident(t)-before)
	if n := one.Health().Pairs; n != 0 {
		t.Errorf("%d pairs without traffic", n)
	}
	begin = time.Now()
	// Of TCP each end knows who has opened it; of datagrams that began before it was entered, who sends first then.
	asks := stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond}
	first := b.traffic("a", "b", asks)
	b.await("the pair to be entered", func() bool { return one.Health().Pairs > 0 })
	entered := time.Since(begin)
	b.await("the pair to open", func() bool { return one.opened("a", "b") })
	t.Logf("entered %v, confirmed %v after the first packet", entered.Round(time.Millisecond),
		time.Since(begin).Round(time.Millisecond))
	if n := one.Health().Pairs; n != 1 {
		t.Errorf("%d pairs, one has traffic", n)
	}
	b.move("macvlan")
	first.stop()
	// Its traffic has ended: as if a minute had passed.
	one.members.Lock()
	p := one.entries.firstNamed("a", "b")
	long := one.cfg.Now().Add(-2 * leaveAfter)
	one.members.Unlock()
	b.agents["h1"].wish.set("vxlan")
	b.await("the pair to leave", func() bool {
		one.members.Lock()
		defer one.members.Unlock()
		p.active, p.joined = long, long
		if !p.opened.IsZero() {
			p.opened = long
		}
		return len(p.local.pairs) == 0
	})
	again := b.traffic("a", "b", asks)
	b.await("the pair to come again", func() bool { return one.Health().Pairs > 0 })
	b.move("macvlan")
	again.stop()
}

func cpu(r unix.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// resident is the process's memory in KiB.
func resident(t *testing.T) (kib int) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}
