package agent

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// directRoutes: both pods' routes to each other follow the traffic, no matter which end opened
// the flows, unless something else on eth0 is to see it.
func directRoutes(b *bed) {
	follow := func(network string) {
		b.t.Helper()
		for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
			at, _ := b.pod(way[0]).On(network)
			b.await(way[0]+"'s route to lead to "+network, func() bool { return b.leads(way[0], way[1]) == at.Dev })
		}
	}
	for _, network := range []string{"vxlan", "macvlan", "routed-bgp", "vxlan"} {
		b.move(network)
		follow(network)
		b.flows(network)
	}
	gone := b.watch("a")
	b.await("a's route to lead to eth0, where a program is to see what leaves",
		func() bool { return b.leads("a", "b") == "eth0" })
	gone()
	follow("vxlan")
}

// watch attaches a program to the way out of the pod's eth0, until gone.
func (b *bed) watch(pod string) (gone func()) {
	b.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}}) // TCX_NEXT
	if err != nil {
		b.t.Fatal(err)
	}
	defer prog.Close()
	var l link.Link
	err = netns.Do(b.pod(pod).Netns, func() error {
		dev, err := net.InterfaceByName("eth0")
		if err == nil {
			l, err = link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: ebpf.AttachTCXEgress,
				Anchor: link.Head()})
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return func() { l.Close() }
}

// leads is the interface by which a pod's packets to another leave.
func (b *bed) leads(from, to string) string {
	b.t.Helper()
	h, err := netns.Netlink(b.pod(from).Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByIndex(b.routeTo(from, to).LinkIndex)
	if err != nil {
		b.t.Fatal(err)
	}
	return l.Attrs().Name
}

// routeTo is a pod's route to another's stable address.
func (b *bed) routeTo(from, to string) netlink.Route {
	b.t.Helper()
	h, err := netns.Netlink(b.pod(from).Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	rs, err := h.RouteGet(b.pod(to).Addr().AsSlice())
	if err != nil || len(rs) == 0 {
		b.t.Fatalf("no route from %s to %s: %v", from, to, err)
	}
	return rs[0]
}

// TestRemove: an agent that ends leaves no direct route, and Remove nothing at all; the
// connection lives through both.
func TestRemove(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agr", "routed-bgp", "vxlan")
	b.start("h1", nil)
	b.start("h2", nil)
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.move("vxlan")
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		b.await(way[0]+"'s route to lead to the path", func() bool { return b.leads(way[0], way[1]) != "eth0" })
	}
	var cfgs []Config
	for _, host := range []string{"h1", "h2"} {
		cfgs = append(cfgs, b.agents[host].cfg)
		b.stop(host)
	}
	if a, z := b.leads("a", "b"), b.leads("b", "a"); a != "eth0" || z != "eth0" {
		t.Errorf("after the agents a's route leads to %s, b's to %s", a, z)
	}
	for _, cfg := range cfgs {
		for range 2 {
			if err := Remove(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(cfg.PinDir); !os.IsNotExist(err) {
			t.Errorf("pins of %s: %v", cfg.Host, err)
		}
	}
	for _, pod := range []string{"a", "b"} {
		if n := b.programs(pod); n != 0 {
			t.Errorf("%d programs stay on %s's eth0", n, pod)
		}
		for _, n := range b.neighbours(pod) {
			if n.State&netlink.NUD_PERMANENT != 0 && n.HardwareAddr != nil {
				t.Errorf("a neighbour stays in %s: %v", pod, n)
			}
		}
	}
	time.Sleep(200 * time.Millisecond)
	if c := rr.stop().Counts; c.Connections.Lost > 0 || c.Corrupt > 0 || c.Operations == 0 {
		t.Errorf("%+v", c)
	}
}

// neighbours are those of a pod on all interfaces.
func (b *bed) neighbours(pod string) []netlink.Neigh {
	b.t.Helper()
	h, err := netns.Netlink(b.pod(pod).Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	all, err := netns.Whole(func() ([]netlink.Neigh, error) { return h.NeighList(0, netlink.FAMILY_V4) })
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// programs counts those on the way out of a pod's eth0.
func (b *bed) programs(pod string) (n int) {
	b.t.Helper()
	err := netns.Do(b.pod(pod).Netns, func() error {
		dev, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		on, err := link.QueryPrograms(link.QueryOptions{Target: dev.Index, Attach: ebpf.AttachTCXEgress})
		if err == nil {
			n = len(on.Programs)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}
