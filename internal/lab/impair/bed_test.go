package impair

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// bed is a host with two pods, pod and near, and somebody who is far.
type bed struct {
	m              Impairer
	eth0           Port
	pod, near, far end
}

// end is where datagrams are sent and counted.
type end struct{ ns, addr string }

const (
	hostNS = "pw-t-imp-h"
	podNS  = "pw-t-imp-p"
	nearNS = "pw-t-imp-b"
	farNS  = "pw-t-imp-f"
)

// newBed makes pods attached by veth, where the host itself is the far end, or
// by macvlan on the host's uplink.
func newBed(t testing.TB, kind string) *bed {
	t.Helper()
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	names := []string{hostNS, podNS, nearNS, farNS}
	t.Cleanup(func() {
		var errs []error
		for _, n := range names {
			errs = append(errs, netns.Delete(n))
		}
		// they end by themselves
		for limit := time.Now().Add(20 * time.Second); len(lines(t)) > 0 && time.Now().Before(limit); {
			time.Sleep(10 * time.Millisecond)
		}
		if err := errors.Join(append(errs, netns.Release())...); err != nil {
			t.Error(err)
		}
	})
	for _, n := range names {
		if err := netns.Create(n); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{m: Impairer{Pins: mountPins(t), Line: []string{self(t), LineArgument}}, eth0: Port{podNS, "eth0", hostNS},
		pod: end{podNS, "10.92.0.1"}, near: end{nearNS, "10.92.0.2"}, far: end{hostNS, "10.92.0.100"}}
	if kind == "macvlan" {
		b.far.ns = farNS
		pair(t, hostNS, "uplink", farNS, "eth0")
		address(t, farNS, "eth0", b.far.addr)
		for _, e := range []end{b.pod, b.near} {
			child(t, e)
		}
		return b
	}
	b.plug(t, "eth0", "v0")
	pair(t, nearNS, "eth0", hostNS, "v2")
	address(t, nearNS, "eth0", b.near.addr)
	ends(t, nearNS, "eth0", hostNS, "v2", b.near.addr, b.far.addr)
	return b
}

// plug gives the pod an interface dev, whose end in the host is peer. All ends
// in the host have one MAC address and one address, so that it takes a packet
// whichever way it comes.
func (b *bed) plug(t testing.TB, dev, peer string) {
	t.Helper()
	pair(t, podNS, dev, hostNS, peer)
	if dev == "eth0" {
		address(t, podNS, dev, b.pod.addr)
		ends(t, podNS, dev, hostNS, peer, b.pod.addr, b.far.addr)
	}
}

// ends makes the host's end of a wire the pod's neighbour, and the other way round.
func ends(t testing.TB, ns, dev, hostns, peer, addr, far string) {
	t.Helper()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0x64}
	var own net.HardwareAddr
	in(t, ns, func(nl *netlink.Handle) error {
		l := find(t, nl, dev)
		own = l.Attrs().HardwareAddr
		return nl.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(far),
			HardwareAddr: mac})
	})
	in(t, hostns, func(nl *netlink.Handle) error {
		l, lo := find(t, nl, peer), find(t, nl, "lo")
		ip := net.ParseIP(addr).To4()
		return errors.Join(
			nl.AddrReplace(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(far).To4(), Mask: net.CIDRMask(32, 32)}}),
			nl.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)},
				Scope: netlink.SCOPE_LINK}),
			nl.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: own}))
	})
}

// pair joins two namespaces by a veth pair; the second end has the host's MAC
// address, and takes packets that belong to another of its interfaces.
func pair(t testing.TB, ns, dev, peerns, peer string) {
	t.Helper()
	fd, err := netns.LinkFd(peerns)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	in(t, ns, func(nl *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = dev
		v := &netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerNamespace: netlink.NsFd(fd.Fd()),
			PeerHardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x64}}
		return errors.Join(nl.LinkAdd(v), nl.LinkSetUp(v))
	})
	in(t, peerns, func(nl *netlink.Handle) error { return nl.LinkSetUp(find(t, nl, peer)) })
	for _, n := range []string{ns, peerns} {
		if err := netns.Do(n, looseReversePath); err != nil {
			t.Fatal(err)
		}
	}
}

// child makes a pod's macvlan on the host's uplink.
func child(t testing.TB, e end) {
	t.Helper()
	fd, err := netns.LinkFd(e.ns)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	in(t, hostNS, func(nl *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex, attrs.Namespace = "eth0", find(t, nl, "uplink").Attrs().Index, netlink.NsFd(fd.Fd())
		return nl.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE})
	})
	address(t, e.ns, "eth0", e.addr)
}

func address(t testing.TB, ns, dev, addr string) {
	t.Helper()
	in(t, ns, func(nl *netlink.Handle) error {
		l := find(t, nl, dev)
		return errors.Join(
			nl.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(addr).To4(), Mask: net.CIDRMask(24, 32)}}),
			nl.LinkSetUp(l))
	})
}

// in runs fn with a netlink handle of the namespace.
func in(t testing.TB, ns string, fn func(*netlink.Handle) error) {
	t.Helper()
	nl, err := netns.Netlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	if err := fn(nl); err != nil {
		t.Fatalf("in %s: %v", ns, err)
	}
}

func find(t testing.TB, nl *netlink.Handle, dev string) netlink.Link {
	t.Helper()
	l, err := nl.LinkByName(dev)
	if err != nil {
		t.Fatalf("find %s: %v", dev, err)
	}
	return l
}

// looseReversePath lets packets in by whichever interface.
func looseReversePath() error {
	return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0o644)
}

func mountPins(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bpf")
	if err := errors.Join(unix.Mkdir(dir, 0o700), unix.Mount("bpf", dir, "bpf", 0, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// count sends datagrams, at most a few at a time so that no buffer overflows,
// until a thousand are sent, and returns how many arrive.
func (b *bed) count(t *testing.T, from, to end) int {
	t.Helper()
	var rx, tx *net.UDPConn
	err := netns.Do(to.ns, func() (err error) {
		rx, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(to.addr)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	err = netns.Do(from.ns, func() (err error) {
		tx, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from.addr)}, rx.LocalAddr().(*net.UDPAddr))
		if err != nil {
			return err
		}
		raw, err := tx.SyscallConn()
		if err != nil {
			return err
		}
		// The kernel then tells the sender of every drop that it knows of.
		var set error
		err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) })
		return errors.Join(err, set)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	got, buf := 0, make([]byte, 512)
	for range 20 {
		for range 50 {
			if _, err := tx.Write(buf); err != nil {
				t.Fatal(err)
			}
		}
		got += drain(t, rx, buf, 50, 2*time.Millisecond)
	}
	return got + drain(t, rx, buf, 1000-got, 200*time.Millisecond)
}

// drain reads until all have come, or nothing for that long.
func drain(t testing.TB, rx *net.UDPConn, buf []byte, all int, quiet time.Duration) int {
	t.Helper()
	for n := 0; ; n++ {
		if n == all {
			return n
		}
		if err := rx.SetReadDeadline(time.Now().Add(quiet)); err != nil {
			t.Fatal(err)
		}
		if _, err := rx.Read(buf); err != nil {
			return n
		}
	}
}
