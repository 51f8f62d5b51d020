package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestLook finds a pod on a veth pair and a macvlan interface among the namespaces of the
// machine, made as plugins make them.
func TestLook(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	node, pod := fmt.Sprintf("pw-t-sbn-%d", os.Getpid()), fmt.Sprintf("pw-t-sbp-%d", os.Getpid())
	for _, ns := range []string{node, pod} {
		if err := errors.Join(netns.Prepare(), netns.Create(ns)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(netns.Delete(ns), netns.Release()); err != nil {
				t.Error(err)
			}
		})
	}
	h, err := netns.Netlink(node)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	file, err := os.Open(netns.Path(pod))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0", MTU: 1450}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(file.Fd()), PeerMTU: 1450}
	parent := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wire0", MTU: 9000}, PeerName: "wire1", PeerMTU: 9000}
	if err := errors.Join(h.LinkAdd(veth), h.LinkAdd(parent)); err != nil {
		t.Fatal(err)
	}
	wire, err := h.LinkByName("wire0")
	if err != nil {
		t.Fatal(err)
	}
	macvlan := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "net1", MTU: 8900,
		ParentIndex: wire.Attrs().Index, Namespace: netlink.NsFd(file.Fd())}, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := h.LinkAdd(macvlan); err != nil {
		t.Fatal(err)
	}
	address(t, pod, map[string]string{"eth0": "198.51.100.4/24", "net1": "203.0.113.4/24"})

	all, _, err := Look()
	if err != nil {
		t.Fatal(err)
	}
	mine := slices.IndexFunc(all, func(s Sandbox) bool { return s.Netns == pod })
	if mine < 0 {
		t.Fatalf("%s is not among %d namespaces", pod, len(all))
	}
	var net1 Interface
	for _, in := range all[mine].Interfaces {
		if in.Name == "net1" {
			net1 = in
		}
	}
	p := Pod{Name: "shop/a", Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.4")}, Attachments: []Statement{
		{Network: "shop/fast", Dev: "net1", Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.4")}, MAC: net1.MAC}}}
	got, err := Find(p, all)
	if err != nil || got.Netns != pod || len(got.Attachments) != 2 || got.Attachments[0].MTU != 1450 ||
		got.Attachments[1].MTU != 8900 {
		t.Errorf("%+v, %v", got, err)
	}
	if inode, err := netns.Inode(pod); err != nil || inode != got.Inode {
		t.Errorf("inode %d, want %d (%v)", got.Inode, inode, err)
	}
}

// address gives interfaces in a namespace their addresses.
func address(t *testing.T, ns string, to map[string]string) {
	t.Helper()
	h, err := netns.Netlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for dev, cidr := range to {
		l, err := h.LinkByName(dev)
		if err != nil {
			t.Fatal(err)
		}
		a, err := netlink.ParseAddr(cidr)
		if err == nil {
			err = errors.Join(h.AddrAdd(l, a), h.LinkSetUp(l))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLookAsNamespacesGo: a namespace that goes between the list and the look into it is left out, and is
// no fault.
func TestLookAsNamespacesGo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Release(); err != nil {
			t.Error(err)
		}
	}()
	prefix := fmt.Sprintf("pw-t-sbg-%d-", os.Getpid())
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			name := fmt.Sprint(prefix, n%3)
			if err := errors.Join(netns.Create(name), netns.Delete(name)); err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	for range 100 {
		all, faults, err := Look()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if strings.Contains(f.Error(), prefix) && !strings.Contains(f.Error(), "was made again as it was read") {
				t.Errorf("a fault: %v", f)
			}
		}
		for _, s := range all {
			if strings.HasPrefix(s.Netns, prefix) && s.Inode == 0 {
				t.Errorf("found without an identity: %+v", s)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
