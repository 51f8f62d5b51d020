package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// TestSteeringIPv6 is TestSteering of pods that have IPv6 alone, as far as that makes a
// difference.
func TestSteeringIPv6(t *testing.T) {
	b := newBedOf(t, lab.Spec{Name: "t-six", Agents: true, Family: topo.IPv6,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}, "routed-bgp", "vxlan", "macvlan")
	b.narrow()
	steers(t, b, []step{
		{"pairs open by handshake", "", pairsOpen},
		{"a switch by hand", "routed-bgp", switchByHand},
		{"a black hole of hosts", "vxlan", blackHole},
		{"a black hole of the default network", "routed-bgp", defaultBlackHole},
		{"restart", "vxlan", restart},
		{"a black hole of pods", "macvlan", podBlackHole(impair.Impairment{DropIngress: true, DropEgress: true})},
		{"agents gone", "vxlan", agentsGone},
	})
}

// TestSteeringDual: pods of both families are two pairs. An order is about both; a path that
// fails in one family is left by that alone.
func TestSteeringDual(t *testing.T) {
	b := newBedOf(t, lab.Spec{Name: "t-dual", Agents: true, Family: topo.IPv6,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}, "routed-bgp", "vxlan", "macvlan")
	for _, at := range b.pod("a").Attachments {
		if !at.Addr.Is4() || !at.Addr6.Is6() {
			t.Fatalf("attachment: %+v", at)
		}
	}
	a, z := b.start("h1", nil), b.start("h2", nil)
	a.wish.set("vxlan")
	var rrs, udps [2]*load
	for i, family := range []int{topo.IPv4, topo.IPv6} {
		udps[i] = b.trafficIn(family, "a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
		rrs[i] = b.trafficIn(family, "a", "b", stream.Client{Kind: stream.RR, Connections: 2,
			Requests: stream.Sizes{Min: 64, Max: 600}, Think: 2 * time.Millisecond})
	}
	both := func(r *running, local, remote, v4, v6 string) {
		t.Helper()
		b.await("IPv4 on "+v4+" and IPv6 on "+v6, func() bool { return r.where(local, remote) == [2]string{v4, v6} })
	}
	both(a, "a", "b", "vxlan", "vxlan")
	names := map[string]bool{}
	for _, p := range a.Paths() {
		names[p.Pair] = true
	}
	if len(names) != 2 || !names["a>b"] || !names["a>b (IPv6)"] {
		t.Errorf("paths of %v", names)
	}
	a.wish.set("")
	if e, err := a.Order(Order{Local: "a", Remote: "b", Network: "macvlan", Pin: true}); err != nil {
		t.Errorf("order: %+v, %v", e, err)
	}
	both(a, "a", "b", "macvlan", "macvlan")
	b.await("both pairs' packets to go there", func() bool {
		from, to := a.received("macvlan"), z.received("macvlan")
		time.Sleep(60 * time.Millisecond)
		now, then := a.received("macvlan"), z.received("macvlan")
		return now[0] > from[0]+3 && now[1] > from[1]+3 && then[0] > to[0]+3 && then[1] > to[1]+3
	})
	at, _ := b.pod("b").On("macvlan")
	for _, rule := range []string{"add table netdev t",
		"add chain netdev t in { type filter hook ingress device " + at.Dev + " priority 0; }",
		"add rule netdev t in meta protocol ip6 drop"} {
		b.run(b.pod("b"), "nft", rule)
	}
	b.await("IPv6 to leave", func() bool {
		w := a.where("a", "b")
		return w[0] == "macvlan" && w[1] != "macvlan" && w[1] != ""
	})
	b.run(b.pod("b"), "nft", "delete table netdev t")
	for i := range rrs {
		checkLived(t, rrs[i].stop(), udps[i].stop())
	}
}

// where is the network that all of a pair's own flows are on, by family; "" where there is none.
func (r *running) where(local, remote string) (out [2]string) {
	r.members.Lock()
	defer r.members.Unlock()
	for i, p := range r.entries.named(local, remote) {
		choices, err := p.local.plane.Choices(p.remote.UID)
		if j := p.routes.at(choices[0].Path); err == nil && j >= 0 && i < len(out) {
			out[i] = p.routes[j].Network
		}
		for _, c := range choices {
			if c.Path != choices[0].Path {
				out[i] = ""
			}
		}
	}
	return out
}

// received counts what has come over a network, by family.
func (r *running) received(network string) (out [2]uint64) {
	r.members.Lock()
	defer r.members.Unlock()
	for p := range r.members.pairs() {
		way, _ := p.routes.byNetwork(network)
		v6 := 0
		if p.v6() {
			v6 = 1
		}
		if _, in, err := p.local.plane.Tallies(p.remote.UID, way.Index); err == nil {
			out[v6] = in.Packets
		}
	}
	return out
}

// TestFamilies: what pairs there are between pods of one family or two, by which paths.
func TestFamilies(t *testing.T) {
	at := func(network, v4, v6 string) topo.Attachment {
		out := topo.Attachment{Network: network, Dev: "d-" + network, MTU: 1500}
		var addrs []netip.Addr
		for _, s := range []string{v4, v6} {
			if s != "" {
				addrs = append(addrs, netip.MustParseAddr(s))
			}
		}
		out.SetAddrs(addrs)
		return out
	}
	pod := func(name string, ats ...topo.Attachment) topo.Pod {
		return topo.Pod{Name: name, UID: "u-" + name, Host: 2, Attachments: ats}
	}
	local := pod("l", at("m", "10.0.0.1", "fd00::1"), at("x", "10.1.0.1", "fd01::1"), at("y", "10.2.0.1", "fd02::1"),
		at("z", "", "fd03::1"))
	c := Cluster{Equal: []string{"x", "y", "z"}, Encapsulated: []string{"y"}}
	for name, tc := range map[string]struct {
		remote topo.Pod
		want   []string // a pair and its paths
		not    []string // its networks without IPv6
	}{
		"both": {pod("r", at("m", "10.0.0.2", "fd00::2"), at("x", "10.1.0.2", "fd01::2"), at("y", "10.2.0.2", "fd02::2"),
			at("z", "", "fd03::2")), []string{"l>r: m 10.0.0.2, x 10.1.0.2, y 10.2.0.2",
			"l>r (IPv6): m fd00::2, x fd01::2, z fd03::2"}, []string{"y"}},
		"IPv4 alone": {pod("r", at("m", "10.0.0.2", ""), at("x", "10.1.0.2", "fd01::2")),
			[]string{"l>r: m 10.0.0.2, x 10.1.0.2"}, nil},
		"IPv6 alone": {pod("r", at("m", "", "fd00::2"), at("x", "10.1.0.2", "fd01::2")),
			[]string{"l>r: m fd00::2, x fd01::2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, got, not := newElsewhere([]topo.Pod{tc.remote}, 1), []string(nil), []string(nil)
			for _, r := range families(tc.remote) {
				rs := c.eligible(route.Between(local, r))
				text := pairName(local, r) + ": "
				for _, way := range rs {
					text += way.Network + " " + way.Remote.Addr.String() + ", "
				}
				got, not = append(got, strings.TrimSuffix(text, ", ")), append(not, c.notIn6(local, r, rs)...)
				found, ok := e.addressed(r.Addr())
				if same, _ := e.identified(idOf(r)); !ok || found.UID != r.UID || same.Addr() != r.Addr() {
					t.Errorf("%s is found as %+v", r.Addr(), found)
				}
			}
			if !slices.Equal(got, tc.want) || !slices.Equal(not, tc.not) {
				t.Errorf("got  %q, not %q\nwant %q, not %q", got, not, tc.want, tc.not)
			}
		})
	}
}
