package dataplane

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// straight makes direct routes between the pods, as package route does; until back.
// They are for IPv4 alone.
func (b *bed) straight(dev string) (back func()) {
	b.t.Helper()
	const gateway = "169.254.80.87"
	for pod, p := range b.planes {
		if err := p.Direct(dev, true); err != nil {
			b.t.Fatal(err)
		}
		b.run(pod, "ip", "neigh", "replace", gateway, "lladdr", "02:50:57:00:00:01", "dev", dev, "nud", "permanent")
		b.run(pod, "ip", "route", "replace", stable(pod).Remote.String(), "via", gateway, "dev", dev, "onlink",
			"src", stable(pod).Local.String(), "mtu", fmt.Sprint(min(b.mtu[0], b.mtu[1])))
	}
	return func() {
		b.t.Helper()
		for pod, p := range b.planes {
			b.run(pod, "ip", "route", "del", stable(pod).Remote.String())
			if err := p.Direct(dev, false); err != nil {
				b.t.Error(err)
			}
		}
	}
}

// TestDirect: a direct route makes the way shorter and changes nothing else. What is
// on its path passes eth0 no more; handshakes, and what is on another path or the
// default network, pass as ever, and are counted once.
func TestDirect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.lease = DefaultLease
	b.open(1)
	b.open(2)
	back := b.straight("net1")
	eth0 := b.counter(1, "eth0", ebpf.AttachTCXEgress, link.Head())
	b.move(1, 1)
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	s, c := b.sent(1, 0), eth0()
	if err := exchange(conn, "begins on the default network"); err != nil {
		t.Fatal(err)
	}
	if s, c := b.sent(1, 0)-s, eth0()-c; s != 1 || c < 1 {
		t.Errorf("the first packet: %d on the default network, %d by eth0", s, c)
	}
	for _, path := range []int{1, 2, 0, 1} {
		for pod := 1; pod <= 2; pod++ {
			b.planes[pod].RenewLease()
		}
		b.move(1, path)
		s, c := b.sent(1, path), eth0()
		for range 20 {
			if err := exchange(conn, "where it is chosen to be"); err != nil {
				t.Fatal(err)
			}
		}
		s, c = b.sent(1, path)-s, eth0()-c
		if s != 20 {
			t.Errorf("%d packets counted on path %d, expected 20", s, path)
		}
		if path != 0 && c >= 20 || path == 0 && c < 20 {
			t.Errorf("%d packets passed eth0 while 20 went over path %d", c, path)
		}
	}
	// Without an agent they go home, by whatever route.
	time.Sleep(DefaultLease + 100*time.Millisecond)
	s = b.sent(1, 0)
	if err := exchange(conn, "nobody steers"); err != nil || b.sent(1, 0) != s+1 {
		t.Errorf("after the lease: %v, %d packets on the default network", err, b.sent(1, 0)-s)
	}
	b.planes[1].RenewLease()
	b.planes[2].RenewLease()
	back()
	// The lease's end and its renewal are epochs of their own, and with two switches more
	// a new flow in the old one's bucket, which is quiet, would be at the fourth (dataplane.h).
	time.Sleep(time.Second)
	b.planes[1].RenewLease()
	b.planes[2].RenewLease()
	b.everywhere(7100)
	if pins, err := os.ReadDir(b.config(1).PinDir); err != nil {
		t.Error(err)
	} else {
		for _, p := range pins {
			if p.Name() == "link-net1-out" {
				t.Error("a program stays behind")
			}
		}
	}
}

// TestDirectAnnounces: what a direct route leads past eth0 and is for the default network all the same is announced
// there, so that each end knows at once who decides. Each packet passes two programs, and the first fills what the
// second goes by for the rest of a tick.
func TestDirectAnnounces(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(1)
	b.open(2)
	defer b.straight("net1")()
	for port := uint16(7001); port < 7031; port++ {
		to := fmt.Sprintf("10.90.2.2:%d", port)
		conn := b.echo("tcp", to, to)
		if err := exchange(conn, "begins and stays on the default network"); err != nil {
			t.Fatal(err)
		}
		for pod, want := range map[int]Side{1: Ours, 2: Theirs} {
			local, remote := ports(conn)
			if pod == 2 {
				local, remote = remote, local
			}
			uid := fmt.Sprintf("pod-%d", 3-pod)
			if side, _, err := b.planes[pod].Side(uid, unix.IPPROTO_TCP, local, remote); side != want || err != nil {
				t.Errorf("port %d: pod %d says side %v (%v), expected %v", port, pod, side, err, want)
			}
		}
	}
}

// sent is how many packets pod's plane sent over a path.
func (b *bed) sent(pod, path int) uint64 {
	n, _ := b.crossed(pod, path)
	return n
}

// TestDirectAfterRestart: the next plane puts its program into the link that the last
// one's direct routes have.
func TestDirectAfterRestart(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	back := b.straight("net1")
	before := b.links(1)
	b.open(1)
	if after := b.links(1); len(after) != 5 || [5]link.ID(after) != [5]link.ID(before) {
		t.Errorf("the links were %v and are %v", before, after)
	}
	back()
}

// TestMayDirect: not where others are to see what leaves by eth0, nor where answers
// would be dropped.
func TestMayDirect(t *testing.T) {
	b := newBed(t)
	asked := func(what string, want bool) {
		t.Helper()
		if ok, err := b.open(1).MayDirect(); err != nil || ok != want {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	asked("a bare pod", true)
	b.run(1, "sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=1")
	asked("strict reverse paths on eth0", false)
	b.run(1, "sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=0")
	asked("no more", true)
	b.counter(1, "eth0", ebpf.AttachTCXEgress, link.Head())
	asked("another program on eth0", false)
	if err := b.planes[1].Direct("eth0", true); err == nil {
		t.Error("eth0 is no path")
	}
}
