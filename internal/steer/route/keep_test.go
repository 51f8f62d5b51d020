package route

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/cni"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/topo"
)

// kept is a ground whose path is apart, as a pod's is, and has a network behind a gateway.
func kept(t *testing.T) (k *Keeper, run func(args ...string) string) {
	t.Helper()
	ns, run := ground(t)
	run("route", "add", "10.7.0.0/16", "via", "10.2.0.1", "dev", "net1")
	separate(t, ns)
	k, mended, err := Keep(ns, []topo.Attachment{{Dev: "eth0", Addr: netip.MustParseAddr("10.1.0.2")},
		{Dev: "net1", Addr: netip.MustParseAddr("10.2.0.2")}})
	if err != nil || len(mended) > 0 {
		t.Fatalf("of a pod that lacks nothing: %+v, %v", mended, err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return k, run
}

func separate(t *testing.T, ns string) {
	t.Helper()
	h, err := netns.Netlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := cni.Separate(h, "net1", 1); err != nil {
		t.Fatal(err)
	}
}

// ways are all routes and rules, in order.
func ways(run func(args ...string) string) string {
	lines := strings.Split(run("-4", "route", "show", "table", "all")+"\n"+run("rule", "show"), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(strings.ReplaceAll(lines[i], "linkdown", "")), " ")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestKeeper: what goes with a link or an address, and what is taken from a path's own
// table, is back after a look.
func TestKeeper(t *testing.T) {
	for _, c := range []struct {
		name string
		dev  string
		do   func(run func(args ...string) string)
	}{
		{"link down and up", "net1", func(run func(...string) string) {
			run("link", "set", "net1", "down")
			run("link", "set", "net1", "up")
		}},
		{"default network down and up", "eth0", func(run func(...string) string) {
			run("link", "set", "eth0", "down")
			run("link", "set", "eth0", "up")
		}},
		{"address removed and added", "net1", func(run func(...string) string) {
			run("addr", "del", "10.2.0.2/24", "dev", "net1")
			run("addr", "add", "10.2.0.2/24", "dev", "net1")
		}},
		{"own table flushed", "net1", func(run func(...string) string) { run("route", "flush", "table", "7701") }},
		{"rule removed", "net1", func(run func(...string) string) { run("rule", "del", "priority", "7701") }},
		{"all at once", "net1", func(run func(...string) string) {
			run("rule", "del", "priority", "7701")
			run("route", "flush", "table", "7701")
			run("link", "set", "net1", "down")
			run("addr", "flush", "dev", "net1")
			run("addr", "add", "10.2.0.2/24", "dev", "net1")
			run("link", "set", "net1", "up")
		}},
		{"interface made again", "net1", func(run func(...string) string) {
			run("link", "del", "net1")
			run("link", "add", "net1", "type", "veth", "peer", "name", "net1-far")
			run("addr", "add", "10.2.0.2/24", "dev", "net1")
			run("link", "set", "net1-far", "up")
			run("link", "set", "net1", "up")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, run := kept(t)
			want := ways(run)
			for range 2 {
				c.do(run)
				mended, err := k.Look()
				if err != nil || len(mended) != 1 || mended[0].Dev != c.dev {
					t.Errorf("%+v, %v", mended, err)
				}
				if got := ways(run); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			}
			for range 3 {
				if mended, err := k.Look(); err != nil || len(mended) > 0 {
					t.Errorf("of a pod that lacks nothing: %+v, %v", mended, err)
				}
			}
		})
	}
}

// TestKeeperWaits: nothing is put back before link and address are there, and what stays
// away is no fault.
func TestKeeperWaits(t *testing.T) {
	k, run := kept(t)
	want := ways(run)
	for _, step := range []string{"link set net1 down", "addr flush dev net1", "link set net1 up"} {
		run(strings.Fields(step)...)
		if mended, err := k.Look(); err != nil || len(mended) > 0 {
			t.Errorf("%s: %+v, %v", step, mended, err)
		}
	}
	run("addr", "add", "10.2.0.2/24", "dev", "net1")
	if mended, err := k.Look(); err != nil || len(mended) != 1 {
		t.Errorf("%+v, %v", mended, err)
	}
	if got := ways(run); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestKeeperLeaves: what a program of the pod's has removed stays so, also after the link
// was down, and what Shape or a routing daemon made is theirs.
func TestKeeperLeaves(t *testing.T) {
	k, run := kept(t)
	look := func() {
		t.Helper()
		if _, err := k.Look(); err != nil {
			t.Error(err)
		}
	}
	run("route", "del", "10.7.0.0/16", "dev", "net1")
	run("route", "del", "default")
	run("route", "add", "10.8.0.0/16", "via", "10.2.0.1", "dev", "net1")
	run("route", "add", "10.9.0.9", "via", "10.1.0.1", "dev", "eth0", "proto", "80")
	run("route", "add", "10.11.0.0/16", "via", "10.2.0.1", "dev", "net1", "proto", "bird")
	run("route", "add", "10.12.0.0/16", "via", "10.2.0.1", "dev", "net1", "proto", "dhcp")
	look()
	run("route", "del", "10.8.0.0/16")
	look()
	for _, dev := range []string{"eth0", "net1"} {
		run("link", "set", dev, "down")
		run("link", "set", dev, "up")
	}
	look()
	got := run("-4", "route", "show")
	for _, gone := range []string{"default", "10.7.0.0", "10.8.0.0", "10.9.0.9", "10.11.0.0"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s is there again:\n%s", gone, got)
		}
	}
	if !strings.Contains(got, "10.12.0.0") {
		t.Errorf("nobody makes what DHCP had made again:\n%s", got)
	}
	own := run("route", "show", "table", "7701")
	if !strings.Contains(own, "10.7.0.0") || !strings.Contains(own, "10.2.0.0") {
		t.Errorf("the path's own table: %s", own)
	}
}

// TestKeeperOverrun: where more happens than the kernel can tell, a path's link may have
// been down.
func TestKeeperOverrun(t *testing.T) {
	k, run := kept(t)
	want := ways(run)
	var batch strings.Builder
	for i := range 2000 {
		dst := fmt.Sprintf("10.77.%d.%d dev eth0", i/250, i%250)
		fmt.Fprintf(&batch, "route add %s\nroute del %s\n", dst, dst)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run("-batch", file)
	run("link", "set", "net1", "down")
	run("link", "set", "net1", "up")
	if _, err := k.Look(); err != nil {
		t.Error(err)
	}
	if got := ways(run); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestKeeperBegins: of a path whose table was emptied while nobody looked, the main
// table's routes are copied.
func TestKeeperBegins(t *testing.T) {
	ns, run := ground(t)
	separate(t, ns)
	want := ways(run)
	run("link", "set", "net1", "down")
	run("link", "set", "net1", "up")
	k, mended, err := Keep(ns, []topo.Attachment{{Dev: "eth0", Addr: netip.MustParseAddr("10.1.0.2")},
		{Dev: "net1", Addr: netip.MustParseAddr("10.2.0.2")}})
	if err != nil || len(mended) != 1 {
		t.Fatalf("%+v, %v", mended, err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if got := ways(run); !strings.Contains(got, "10.2.0.0/24 dev net1 table 7701") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if mended, err := k.Look(); err != nil || mended != nil {
		t.Errorf("a look after the end: %+v, %v", mended, err)
	}
}

// TestKeeperIsCheap tells what a look costs while nothing happens.
func TestKeeperIsCheap(t *testing.T) {
	k, _ := kept(t)
	const many = 10000
	begin := time.Now()
	for range many {
		if _, err := k.Look(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a look takes %v", time.Since(begin)/many)
}
