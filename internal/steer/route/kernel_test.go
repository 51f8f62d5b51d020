package route

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// ground is a namespace with a default network, eth0, on which peers are by a gateway
// or on the link, and a path, net1.
func ground(t *testing.T) (ns string, run func(args ...string) string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	ns = fmt.Sprintf("pw-t-route-%d", os.Getpid())
	if err := netns.Create(ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(ns); err != nil {
			t.Error(err)
		}
	})
	run = func(args ...string) string {
		t.Helper()
		var out strings.Builder
		cmd := exec.Command("ip", args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := netns.Start(ns, cmd)
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out.String())
		}
		return strings.TrimSpace(out.String())
	}
	for dev, addr := range map[string]string{"eth0": "10.1.0.2/24", "net1": "10.2.0.2/24"} {
		run("link", "add", dev, "type", "veth", "peer", "name", dev+"-far")
		run("addr", "add", addr, "dev", dev)
		run("link", "set", dev, "up")
		run("link", "set", dev+"-far", "up")
	}
	run("addr", "add", "fd01::2/64", "dev", "eth0", "nodad")
	run("route", "add", "default", "via", "10.1.0.1")
	return ns, run
}

// TestShape: a route is like the one that there would be without it, but formed; a
// direct one leads to the path and back again, with the same source.
func TestShape(t *testing.T) {
	ns, run := ground(t)
	for _, peer := range []struct{ addr, way string }{{"10.1.0.9", "dev eth0"}, {"10.7.0.9", "via 10.1.0.1 dev eth0"}} {
		for _, c := range []struct {
			form Form
			want string
		}{
			{Form{MTU: 1400}, peer.way + " src 10.1.0.2 mtu 1400"},
			{Form{RTOMin: 20 * time.Millisecond}, peer.way + " src 10.1.0.2 rto_min lock 20ms"},
			{Form{MTU: 1400, Direct: "net1"}, "via 169.254.80.87 dev net1 src 10.1.0.2 mtu 1400 onlink"},
			{Form{MTU: 1300, Direct: "net1"}, "via 169.254.80.87 dev net1 src 10.1.0.2 mtu 1300 onlink"},
			{Form{MTU: 1400}, peer.way + " src 10.1.0.2 mtu 1400"},
			{Form{MTU: 1400, Direct: "net1"}, "via 169.254.80.87 dev net1 src 10.1.0.2 mtu 1400 onlink"},
			{Form{}, ""},
			{Form{}, ""},
		} {
			if err := Shape(ns, netip.MustParseAddr(peer.addr), c.form); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(strings.Fields(run("route", "show", "proto", "80", "root", peer.addr)), " ")
			want := strings.TrimSpace(peer.addr + " " + c.want)
			if c.want == "" {
				want = ""
			}
			if got = strings.ReplaceAll(got, "scope link ", ""); sorted(got) != sorted(want) {
				t.Errorf("%s, %+v: got %q, want %q", peer.addr, c.form, got, want)
			}
		}
	}
	if err := Shape(ns, netip.MustParseAddr("fd01::9"), Form{MTU: 1400, Direct: "net1"}); err == nil ||
		!strings.Contains(err.Error(), "IPv4") {
		t.Errorf("a direct route of IPv6: %v", err)
	}
	if err := Shape(ns, netip.MustParseAddr("10.1.0.9"), Form{Direct: "net7"}); err == nil {
		t.Error("a direct route to an interface that is not there")
	}
}

// TestShapeLeavesOthers: a route to the peer alone that somebody else has made stays as it is.
func TestShapeLeavesOthers(t *testing.T) {
	ns, run := ground(t)
	for addr, args := range map[string][]string{
		"10.7.0.9": {"via", "10.2.0.1", "dev", "net1"}, "fd01::9": {"dev", "eth0"},
	} {
		run(append([]string{"route", "add", addr}, args...)...)
		before := run("route", "show", addr)
		for _, f := range []Form{{MTU: 1400}, {MTU: 1300}, {}} {
			err := Shape(ns, netip.MustParseAddr(addr), f)
			if (err != nil) != (f != Form{}) || err != nil && !strings.Contains(err.Error(), addr) {
				t.Errorf("%s, %+v: %v", addr, f, err)
			}
		}
		if after := run("route", "show", addr); after != before {
			t.Errorf("%q became %q", before, after)
		}
	}
}

// sorted has the words in order: iproute2 prints them in one of its own.
func sorted(s string) string {
	f := strings.Fields(s)
	slices.Sort(f)
	return strings.Join(f, " ")
}

// TestClear: what Undirect and Clear remove, and that they leave others' routes.
func TestClear(t *testing.T) {
	ns, run := ground(t)
	a, b := netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("10.7.0.2")
	run("route", "add", "10.7.0.3", "via", "10.2.0.1", "dev", "net1")
	for peer, f := range map[netip.Addr]Form{a: {MTU: 1400}, b: {MTU: 1400, Direct: "net1"}} {
		if err := Shape(ns, peer, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what string
		do   func(string) error
		left string
	}{{"Undirect", Undirect, "10.7.0.1 10.7.0.3"}, {"Undirect again", Undirect, "10.7.0.1 10.7.0.3"},
		{"Clear", Clear, "10.7.0.3"}, {"Clear again", Clear, "10.7.0.3"}} {
		if err := step.do(ns); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		var left []string
		for _, line := range strings.Split(run("route", "show", "root", "10.7.0.0/24"), "\n") {
			left = append(left, strings.Fields(line)[0])
		}
		if got := strings.Join(left, " "); got != step.left {
			t.Errorf("%s leaves %s, want %s", step.what, got, step.left)
		}
	}
}

// TestHoldNeighbour: the peer's hardware address on the default network is held there,
// also while a direct route leads elsewhere.
func TestHoldNeighbour(t *testing.T) {
	ns, run := ground(t)
	peer := netip.MustParseAddr("10.1.0.9")
	if err := Shape(ns, peer, Form{MTU: 1400, Direct: "net1"}); err != nil {
		t.Fatal(err)
	}
	for _, hold := range []bool{true, false} {
		onLink, err := HoldNeighbour(ns, "eth0", peer, "02:00:00:00:00:09", hold)
		if err != nil || !onLink {
			t.Errorf("hold %v: on link %v, %v", hold, onLink, err)
		}
		if got := run("neigh", "show", "10.1.0.9", "dev", "eth0"); strings.Contains(got, "PERMANENT") != hold {
			t.Errorf("hold %v: %s", hold, got)
		}
	}
	if onLink, err := HoldNeighbour(ns, "eth0", netip.MustParseAddr("10.7.0.9"), "02:00:00:00:00:09", true); err != nil ||
		onLink {
		t.Errorf("a peer behind a gateway: on link %v, %v", onLink, err)
	}
}

// TestLeave: nothing that was made towards peers is left, and what others have made is.
func TestLeave(t *testing.T) {
	ns, run := ground(t)
	peer := netip.MustParseAddr("10.1.0.9")
	isPeer := func(a netip.Addr) bool { return a == peer }
	if err := Shape(ns, peer, Form{MTU: 1400, Direct: "net1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := HoldNeighbour(ns, "eth0", peer, "02:00:00:00:00:09", true); err != nil {
		t.Fatal(err)
	}
	run("neigh", "add", "10.1.0.8", "lladdr", "02:00:00:00:00:08", "dev", "eth0", "nud", "permanent")
	for range 2 { // what is done already is no error
		if err := Leave(ns, "eth0", isPeer); err != nil {
			t.Fatal(err)
		}
	}
	got := run("neigh", "show", "nud", "permanent")
	if strings.Count(got, "PERMANENT") != 1 || !strings.Contains(got, "10.1.0.8") {
		t.Errorf("neighbours: %s", got)
	}
	if got := run("route", "show", "10.1.0.9"); got != "" {
		t.Errorf("routes: %s", got)
	}
	if err := Leave(ns, "gone", isPeer); err != nil {
		t.Errorf("an interface that is gone: %v", err)
	}
}

// TestReleaseNeighbours: what was held for peers is released, and nobody else's.
func TestReleaseNeighbours(t *testing.T) {
	ns, run := ground(t)
	peer := netip.MustParseAddr("10.1.0.9")
	if _, err := HoldNeighbour(ns, "eth0", peer, "02:00:00:00:00:09", true); err != nil {
		t.Fatal(err)
	}
	run("neigh", "add", "10.1.0.8", "lladdr", "02:00:00:00:00:08", "dev", "eth0", "nud", "permanent")
	if err := ReleaseNeighbours(ns, "eth0", func(a netip.Addr) bool { return a == peer }); err != nil {
		t.Fatal(err)
	}
	for addr, held := range map[string]bool{"10.1.0.9": false, "10.1.0.8": true} {
		if got := run("neigh", "show", addr, "dev", "eth0"); strings.Contains(got, "PERMANENT") != held {
			t.Errorf("%s: %s", addr, got)
		}
	}
}
