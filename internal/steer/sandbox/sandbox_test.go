package sandbox

import (
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

func mac(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, last} }

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// two is a pod on two networks, and the namespace that bears it out.
func two() (Pod, Sandbox) {
	return Pod{Name: "shop/a", Addrs: addrs("10.244.1.4", "fd00:1::4"), Attachments: []Statement{
			{Network: Default, Dev: "eth0", Addrs: addrs("10.244.1.4"), MAC: mac(1), Default: true},
			{Network: "shop/fast", Dev: "net1", Addrs: addrs("10.1.1.4"), MAC: mac(2)}}},
		Sandbox{Netns: "cni-1", Inode: 7, Interfaces: []Interface{
			{Name: "eth0", MAC: mac(1), MTU: 1450, Addrs: addrs("10.244.1.4", "fd00:1::4")},
			{Name: "net1", MAC: mac(2), MTU: 9000, Addrs: addrs("10.1.1.4", "10.1.1.9")}}}
}

func TestFind(t *testing.T) {
	p, s := two()
	other := Sandbox{Netns: "cni-0", Interfaces: []Interface{{Name: "eth0", Addrs: addrs("10.244.1.5")}, {Name: "net1",
		Addrs: addrs("10.244.1.4")}}}
	got, err := Find(p, []Sandbox{{Netns: "empty"}, other, s})
	want := []topo.Attachment{
		{Network: Default, Dev: "eth0", Addr: p.Addrs[0], Addr6: p.Addrs[1], MTU: 1450, MAC: "02:00:00:00:00:01"},
		{Network: "shop/fast", Dev: "net1", Addr: addrs("10.1.1.4")[0], MTU: 9000, MAC: "02:00:00:00:00:02"}}
	if err != nil || got.Netns != "cni-1" || got.Inode != 7 || !reflect.DeepEqual(got.Attachments, want) {
		t.Errorf("%+v, %v", got, err)
	}
	p.Attachments = append(p.Attachments[:1], Statement{Network: "shop/fast", Addrs: addrs("10.1.1.9")},
		Statement{Network: "shop/layer2", Dev: "net7"})
	if got, err = Find(p, []Sandbox{s}); err != nil || len(got.Attachments) != 2 || got.Attachments[1].Dev != "net1" {
		t.Errorf("by the address alone: %+v, %v", got, err)
	}
	p.Attachments = nil
	if got, err = Find(p, []Sandbox{s}); err != nil || len(got.Attachments) != 1 {
		t.Errorf("without the annotation: %+v, %v", got, err)
	}
}

// TestFindRefuses: what the namespace does not bear out refuses the pod as a whole.
func TestFindRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Pod, *Sandbox)
		want   string
	}{
		"no address":         {func(p *Pod, _ *Sandbox) { p.Addrs = nil }, "no address yet"},
		"no namespace":       {func(p *Pod, _ *Sandbox) { p.Addrs = addrs("10.244.1.77") }, "no namespace has"},
		"half of the podIPs": {func(p *Pod, _ *Sandbox) { p.Addrs = addrs("10.244.1.4", "fd00::9") }, "no namespace has"},
		"another's address": {func(p *Pod, _ *Sandbox) { p.Attachments[1].Addrs = addrs("10.1.1.66") },
			"says [10.1.1.66] of shop/fast"},
		"another's MAC": {func(p *Pod, _ *Sandbox) { p.Attachments[1].MAC = mac(9) },
			"hardware address 02:00:00:00:00:02"},
		"the default's MAC": {func(p *Pod, _ *Sandbox) { p.Attachments[0].MAC = mac(9) },
			"hardware address 02:00:00:00:00:01"},
		"the default's device": {func(p *Pod, _ *Sandbox) { p.Attachments[0].Dev = "net1" }, "has default on net1"},
		"the default's address": {func(p *Pod, _ *Sandbox) { p.Attachments[0].Addrs = addrs("10.244.1.5") },
			"says [10.244.1.5] of default"},
		"no such interface": {func(p *Pod, _ *Sandbox) { p.Attachments[1].Dev = "net2" }, "no interface net2"},
		"a network on eth0": {func(p *Pod, _ *Sandbox) {
			p.Attachments[1] = Statement{Network: "shop/fast", Addrs: addrs("10.244.1.4")}
		}, "eth0 is on both default and shop/fast"},
		"one interface twice": {func(p *Pod, _ *Sandbox) {
			p.Attachments = append(p.Attachments, Statement{Network: "shop/bulk", Addrs: addrs("10.1.1.9")})
		}, "net1 is on both shop/fast and shop/bulk"},
	} {
		p, s := two()
		tc.change(&p, &s)
		if got, err := Find(p, []Sandbox{s}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, tc.want)
		}
	}
	p, s := two()
	again := s
	again.Netns = "cni-2"
	if _, err := Find(p, []Sandbox{s, again}); err == nil || !strings.Contains(err.Error(), "both cni-1 and cni-2") {
		t.Errorf("two namespaces: %v", err)
	}
	again.Interfaces = again.Interfaces[:1]
	if got, err := Find(p, []Sandbox{again, s}); err != nil || got.Netns != "cni-1" {
		t.Errorf("one of two bears it out: %v, %v", got.Netns, err)
	}
}
