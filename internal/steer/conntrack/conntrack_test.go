package conntrack

import (
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
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ns := fmt.Sprintf("pw-t-ct-%d", os.Getpid())
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
	for _, rule := range []string{"add table ip t", "add chain ip t out { type nat hook output priority -100; }",
		"add chain ip t in { type filter hook input priority 0; }", "add rule ip t out tcp dport 7003 dnat to 127.0.0.1:7001",
		"add rule ip t in tcp dport 7004 drop"} {
		run(t, ns, "nft", rule)
	}
	for _, to := range []string{"127.0.0.1:7001", "127.0.0.1:7002", "[::1]:7001"} {
		listen(t, ns, to)
	}
	for _, to := range []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"} {
		if err := dial(t, ns, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := dial(t, ns, "127.0.0.1:7004"); err == nil {
		t.Fatal("what is dropped has opened")
	}
	named := func(c Connection) bool {
		return c.To.Addr() == netip.MustParseAddr("127.0.0.1") && c.To.Port() != 7002
	}
	if n, err := Forget(ns, false, named); n != 1 || err != nil {
		t.Errorf("%d forgotten, %v: expected the one to port 7001", n, err)
	}
	if got, want := tracked(t, ns), []uint16{7002, 7003, 7004}; !slices.Equal(got, want) {
		t.Errorf("tracked after that: %v, expected %v", got, want)
	}
	if n, err := Forget(ns, false, named); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if n, err := Forget(ns, true, func(Connection) bool { return true }); n != 0 || err != nil {
		t.Errorf("of IPv6: %d, %v", n, err)
	}
	if _, err := Forget("pw-t-no-such", false, named); err == nil {
		t.Error("a namespace that is not there has no error")
	}
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

func listen(t *testing.T, ns, on string) {
	t.Helper()
	if err := netns.Do(ns, func() error {
		l, err := net.Listen("tcp", on)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, ns, to string) error {
	return netns.Do(ns, func() error {
		c, err := net.DialTimeout("tcp", to, 300*time.Millisecond)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	})
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
