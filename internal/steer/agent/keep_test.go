package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/cni"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// device is what is needed to make a pod's interface again.
type device struct {
	dev, addr, mac, parent string
	mtu                    int
}

// device looks at a pod's interface, whose parent is one of the pod's host.
func (b *bed) device(p topo.Pod, dev string) (d device) {
	b.t.Helper()
	find := func(ns string, see func(*netlink.Handle) error) {
		b.t.Helper()
		h, err := netns.Netlink(ns)
		if err != nil {
			b.t.Fatal(err)
		}
		defer h.Close()
		if err := see(h); err != nil {
			b.t.Fatal(err)
		}
	}
	parent := 0
	find(p.Netns, func(h *netlink.Handle) error {
		l, err := h.LinkByName(dev)
		if err != nil {
			return err
		}
		addrs, err := h.AddrList(l, netlink.FAMILY_V4)
		if err != nil || len(addrs) != 1 {
			return fmt.Errorf("%d addresses of %s: %w", len(addrs), dev, err)
		}
		d = device{dev: dev, addr: addrs[0].IPNet.String(), mac: l.Attrs().HardwareAddr.String(), mtu: l.Attrs().MTU}
		parent = l.Attrs().ParentIndex
		return nil
	})
	find(b.state.Hosts[p.Host-1].Netns, func(h *netlink.Handle) error {
		l, err := h.LinkByIndex(parent)
		if err != nil {
			return err
		}
		d.parent = l.Attrs().Name
		return nil
	})
	return d
}

// remake makes a pod's macvlan interface again, as anyone who attached the pod would.
func (b *bed) remake(p topo.Pod, d device) {
	b.t.Helper()
	host := b.state.Hosts[p.Host-1].Netns
	b.runIn(host, "ip", "link", "add", "link", d.parent, "name", "pw-again", "address", d.mac, "mtu", fmt.Sprint(d.mtu),
		"type", "macvlan", "mode", "bridge")
	b.runIn(host, "ip", "link", "set", "pw-again", "netns", p.Netns, "name", d.dev)
	b.run(p, "ip", "addr", "add", d.addr, "dev", d.dev)
	b.run(p, "ip", "link", "set", d.dev, "up")
}

// TestInterfacesComeBack: a pod's interface goes and comes back in one of many ways, and
// its path is used again. Nobody but the agent brings back what went with it: on a network
// with gateways, nothing passes without.
func TestInterfacesComeBack(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-back", "vxlan", "routed-bgp", "macvlan")
	b.start("h1", nil)
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
	for _, step := range []struct {
		name, network, pod string
		// away and back are what happens to the interface; both are shell commands of the
		// pod, with the interface's name and address for DEV and ADDR.
		away, back string
		remade     bool
	}{
		{"link", "routed-bgp", "a", "ip link set DEV down", "ip link set DEV up", false},
		{"link of a macvlan", "macvlan", "a", "ip link set DEV down", "ip link set DEV up", false},
		{"link of the peer", "routed-bgp", "b", "ip link set DEV down", "ip link set DEV up", false},
		{"address", "routed-bgp", "a", "ip addr del ADDR dev DEV", "ip addr add ADDR dev DEV", false},
		{"routes", "routed-bgp", "a", "ip route flush dev DEV; ip route flush table all dev DEV proto boot", "true", false},
		{"link of the default network", "routed-bgp", "a", "ip link set eth0 down", "ip link set eth0 up", false},
		{"interface", "macvlan", "a", "ip link del DEV", "", true},
		{"interface of the peer", "macvlan", "b", "ip link del DEV", "", true},
	} {
		t.Run(step.name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			b.move(step.network)
			p := b.pod(step.pod)
			at, _ := p.On(step.network)
			d := b.device(p, at.Dev)
			sh := func(text string) {
				t.Helper()
				b.run(p, "sh", "-c", strings.NewReplacer("DEV", d.dev, "ADDR", d.addr).Replace(text))
			}
			sh(step.away)
			time.Sleep(300 * time.Millisecond) // the path is left meanwhile
			if step.remade {
				b.remake(p, d)
			} else {
				sh(step.back)
			}
			b.flows(step.network)
		})
	}
	checkLived(t, rr.stop(), udp.stop())
}

// TestFitAgain: what the agent had made in the pod for a pair is there again after its
// interfaces were down: the route of its own, and what that leads by.
func TestFitAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-fit", "routed-bgp", "vxlan")
	a := b.start("h1", nil)
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.move("vxlan")
	p, peer := b.pod("a"), b.pod("b").Addr().String()
	own := func() string { return b.run(p, "ip", "route", "show", "proto", "80", "root", peer) }
	b.await("the route to lead straight", func() bool { return strings.Contains(own(), "169.254.80.87") })
	at, _ := p.On("vxlan")
	for _, dev := range []string{at.Dev, "eth0"} {
		since := a.journal.last().ID
		b.run(p, "sh", "-c", fmt.Sprintf("ip link set %s down; ip link set %s up", dev, dev))
		a.event(b, since, dev+" to be whole again", func(e Event) bool {
			return e.Kind == EventPod && strings.Contains(e.Reason, "pod a: "+dev+" is whole again")
		})
		b.await("the pair's own route", func() bool { return strings.Contains(own(), "rto_min") })
		b.flows("vxlan")
	}
	b.await("the route to lead straight", func() bool { return strings.Contains(own(), "169.254.80.87") })
	if r := udp.stop(); r.Counts.Datagrams.Received == 0 {
		t.Errorf("%+v", r.Counts.Datagrams)
	}
}

// TestPinsLast: a pin outlives that a pod is taken up again.
func TestPinsLast(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-pins", "routed-bgp", "macvlan")
	a := b.start("h1", nil)
	b.start("h2", nil)
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	if _, err := a.Order(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: true}); err != nil {
		t.Fatal(err)
	}
	p := b.pod("a")
	at, _ := p.On("macvlan")
	d := b.device(p, at.Dev)
	b.run(p, "ip", "link", "del", d.dev)
	b.remake(p, d)
	b.flows("macvlan")
	if !slices.ContainsFunc(a.Paths(), func(s PathStatus) bool { return s.Network == "macvlan" && s.Pinned }) {
		t.Errorf("%+v", a.Paths())
	}
}

// sandbox makes a pod's namespace again, under a name, with other addresses, and has that
// told to all agents.
func (b *bed) sandbox(name, netnsName string) {
	b.t.Helper()
	p := b.pod(name)
	var devices []device
	for _, at := range p.Attachments {
		devices = append(devices, b.device(p, at.Dev))
	}
	if err := netns.Delete(p.Netns); err != nil {
		b.t.Fatal(err)
	}
	if err := netns.Create(netnsName); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := netns.Delete(netnsName); err != nil {
			b.t.Error(err)
		}
	})
	p.Netns, p.Attachments = netnsName, slices.Clone(p.Attachments)
	b.run(p, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce")
	for i := range p.Attachments {
		at, d := &p.Attachments[i], devices[i]
		v4, mac := at.Addr.As4(), []byte(d.mac)
		v4[3] += 50
		at.Addr = netip.AddrFrom4(v4)
		const digits = "0123456789abcdef0"
		mac[len(mac)-1] = digits[strings.IndexByte(digits, mac[len(mac)-1])+1] // as the old one is still there
		_, prefix, _ := strings.Cut(d.addr, "/")
		d.addr, d.mac, at.MAC = at.Addr.String()+"/"+prefix, string(mac), string(mac)
		b.remake(p, d)
	}
	h, err := netns.Netlink(p.Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	for i, at := range p.Attachments[1:] {
		if err := cni.Separate(h, at.Dev, i+1); err != nil {
			b.t.Fatal(err)
		}
	}
	b.state.Pods = slices.Clone(b.state.Pods)
	b.state.Pods[slices.IndexFunc(b.state.Pods, func(q topo.Pod) bool { return q.Name == name })] = p
	for _, host := range b.state.Hosts {
		b.tell(host.Name, func(c *Cluster) { c.Pods = b.state.Pods })
	}
}

// TestSandboxMadeAgain: a pod keeps its UID and has another namespace and other addresses,
// as after its sandbox was lost: it is steered again, and that is told.
func TestSandboxMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-sandbox", "macvlan", "macvlan-private")
	a, z := b.start("h1", nil), b.start("h2", nil)
	before := b.pod("a")
	for _, name := range []string{"", before.Netns, before.Netns + "-2"} {
		since := a.journal.last().ID
		if name != "" {
			b.sandbox("a", name)
			a.event(b, since, "the pod to be taken up again", func(e Event) bool {
				return e.Kind == EventPod && strings.Contains(e.Reason, "pod a: its sandbox was made again")
			})
		}
		// Of a flow that begins before, the data plane may see an answer first, and then
		// leaves it alone.
		b.await("both agents to know the pod as it is", func() bool {
			at, now := b.pod("a").Addr(), [2]*pair{a.pair("a", "b"), z.pair("b", "a")} // which enters it
			return now[0] != nil && now[1] != nil && now[0].routes[0].Local.Addr == at && now[1].routes[0].Remote.Addr == at
		})
		udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
		b.move("macvlan-private")
		if r := udp.stop(); r.Counts.Datagrams.Received == 0 {
			t.Errorf("%+v", r.Counts.Datagrams)
		}
	}
	for _, s := range a.Paths() {
		if s.State != "up" {
			t.Errorf("%+v", s)
		}
	}
}

// TestFurtherNetwork: pods are attached to a further network, and taken from it, without
// a restart of theirs or of an agent; no connection is lost.
func TestFurtherNetwork(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-further", "routed-bgp", "macvlan", "vxlan")
	everywhere := func(change func(*Cluster)) {
		for _, h := range b.state.Hosts {
			b.tell(h.Name, change)
		}
	}
	without := func(c *Cluster) {
		for i := range c.Pods {
			if p := &c.Pods[i]; !p.Agent {
				p.Attachments = slices.DeleteFunc(slices.Clone(p.Attachments),
					func(at topo.Attachment) bool { return at.Network == "macvlan" })
			}
		}
	}
	everywhere(without)
	a := b.start("h1", nil)
	b.start("h2", nil)
	udp := b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	rr := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 2, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * time.Millisecond})
	b.await("the pair to open", func() bool { return a.opened("a", "b") })
	b.move("vxlan")
	networks := func() int { return len(a.Paths()) }
	if n := networks(); n != 2 {
		t.Errorf("%d paths, expected 2", n)
	}
	for range 2 {
		everywhere(func(c *Cluster) { c.Pods = b.state.Pods })
		b.await("the further path", func() bool { return networks() == 3 })
		b.move("macvlan")
		b.move("vxlan")
		everywhere(without)
		b.await("the further path to go", func() bool { return networks() == 2 })
		b.flows("vxlan")
	}
	checkLived(t, rr.stop(), udp.stop())
}
