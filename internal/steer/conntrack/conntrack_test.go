package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestForget: of what a kernel tracks, established connections that are named go, and no
// others: none of another port, none that is translated, none that is still opening.
func TestForget(t *testing.T) {
	ns := create(t, "ct")
	for _, rule := range []string{"add table ip t", "add chain ip t out { type nat hook output priority -100; }",
		"add chain ip t in { type filter hook input priority 0; }", "add rule ip t out tcp dport 7003 dnat to 127.0.0.1:7001",
		"add rule ip t in tcp dport 7004 drop", "add table ip6 t",
		"add chain ip6 t in { type filter hook input priority 0; }",
		"add rule ip6 t in ct state established accept"} {
		run(t, ns, "nft", rule)
	}
	for _, to := range []string{"127.0.0.1:7001", "127.0.0.1:7002", "[::1]:7001"} {
		listen(t, ns, to)
	}
	for _, to := range []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"} {
		if _, err := dial(t, ns, to, atOnce); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dial(t, ns, "127.0.0.1:7004", atOnce); err == nil {
		t.Fatal("what is dropped has opened")
	}
	named := func(c Connection) bool {
		return c.To.Addr() == netip.MustParseAddr("127.0.0.1") && c.To.Port() != 7002
	}
	local, none := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	here, six := [][2]netip.Addr{{local, local}}, [][2]netip.Addr{{netip.IPv6Loopback(), netip.IPv6Loopback()}}
	if n, _, err := Forget(ns, false, [][2]netip.Addr{{local, none}, {none, local}}, named); n != 0 || err != nil {
		t.Errorf("of other addresses: %d, %v", n, err)
	}
	if n, _, err := Forget(ns, false, here, named); n != 1 || err != nil {
		t.Errorf("%d forgotten, %v: expected the one to port 7001", n, err)
	}
	if got, want := tracked(t, ns), []uint16{7002, 7003, 7004}; !slices.Equal(got, want) {
		t.Errorf("tracked after that: %v, expected %v", got, want)
	}
	if got, want := strict(t, ns), []uint16{7003}; !slices.Equal(got, want) {
		t.Errorf("the windows of connections to ports %v are looked at, expected those to %v, which are translated", got, want)
	}
	if n, _, err := Forget(ns, false, here, named); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if n, _, err := Forget(ns, true, six, func(Connection) bool { return true }); n != 0 || err != nil {
		t.Errorf("of IPv6, of which there are none: %d, %v", n, err)
	}
	for n, between := range [][][2]netip.Addr{here, here, slices.Repeat(here, 9)} {
		if n == 1 { // from here on the kernel is asked for what is between these addresses
			if err := track(ns, 3*perLook); err != nil {
				t.Fatal(err)
			}
		}
		gone, _, err := Forget(ns, false, between, func(c Connection) bool { return c.To.Port() == 7002 })
		if gone != 1 || err != nil {
			t.Errorf("of the one to port 7002, by %d pairs of addresses: %d, %v", len(between), gone, err)
		}
		for _, to := range []string{"127.0.0.1:7002", "[::1]:7001"} {
			if _, err := dial(t, ns, to, atOnce); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, _, err := Forget(ns, true, six, func(Connection) bool { return true }); n != 3 || err != nil {
		t.Errorf("of IPv6: %d, %v", n, err)
	}
	if _, _, err := Forget("pw-t-no-such", false, here, named); err == nil {
		t.Error("a namespace that is not there has no error")
	}
}

// BenchmarkForget: what a look at one pair of addresses costs on a host that tracks very much.
func BenchmarkForget(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: network namespaces")
	}
	ns := fmt.Sprintf("pw-t-ctb-%d", os.Getpid())
	if err := errors.Join(netns.Prepare(), netns.Create(ns)); err != nil {
		b.Fatal(err)
	}
	defer netns.Delete(ns)
	if err := track(ns, 60000); err != nil {
		b.Fatal(err)
	}
	between := [][2]netip.Addr{{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}}
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Forget(ns, false, slices.Repeat(between, n), func(Connection) bool { return false }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// track has a namespace track so many connections of others.
func track(ns string, n int) error {
	return netns.Do(ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
		for i := 0; i < n && err == nil; i++ {
			from, to := net.IP{198, 18, byte(i >> 8), byte(i)}, net.IP{198, 19, 0, 1}
			err = h.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, &netlink.ConntrackFlow{
				FamilyType: unix.AF_INET, TimeOut: 3600, ProtoInfo: &netlink.ProtoInfoTCP{State: established},
				Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: from, DstIP: to, SrcPort: 1000, DstPort: 80},
				Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_TCP, SrcIP: to, DstIP: from, SrcPort: 80, DstPort: 1000}})
		}
		return err
	})
}

// create makes a namespace for the test.
func create(t *testing.T, name string) (ns string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ns = fmt.Sprintf("pw-t-%s-%d", name, os.Getpid())
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := netns.Create(ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(ns); err != nil {
			t.Error(err)
		}
	})
	return ns
}

func run(t *testing.T, ns string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if err := netns.Start(ns, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
}

func listen(t *testing.T, ns, on string) (l net.Listener) {
	t.Helper()
	if err := netns.Do(ns, func() (err error) {
		l, err = net.Listen("tcp", on)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// atOnce is how long a connection of the namespace with itself may take.
const atOnce = 300 * time.Millisecond

func dial(t *testing.T, ns, to string, patience time.Duration) (c net.Conn, err error) {
	err = netns.Do(ns, func() (err error) {
		c, err = net.DialTimeout("tcp", to, patience)
		return err
	})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// strict are the ports to which connections are tracked by their windows.
func strict(t *testing.T, ns string) (ports []uint16) {
	t.Helper()
	if err := netns.Do(ns, func() error {
		all, err := dump(unix.AF_INET, netip.Addr{}, netip.Addr{}, func(entry) bool { return true })
		for _, e := range all {
			if e.strict {
				ports = append(ports, e.orig.To.Port())
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ports
}

// tracked are the ports to which connections are tracked.
func tracked(t *testing.T, ns string) (ports []uint16) {
	t.Helper()
	if err := netns.Do(ns, func() error {
		all, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		for _, f := range all {
			ports = append(ports, f.Forward.DstPort)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	return ports
}
