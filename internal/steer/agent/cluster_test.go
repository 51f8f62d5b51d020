package agent

import (
	"net/netip"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// testPod is a pod on networks in this order, eth0 first, with the addresses
// 10.N.HOST.LAST, N counting the attachments.
func testPod(name string, host, last int, networks ...string) topo.Pod {
	p := topo.Pod{Name: name, UID: "uid-" + name, Host: host, Netns: "pw-t-" + name}
	devs := []string{"eth0", "net1", "net2", "net3", "net4", "net5", "net6", "net7", "net8", "net9"}
	for i, n := range networks {
		p.Attachments = append(p.Attachments, topo.Attachment{Network: n, Dev: devs[i], MTU: 1500 - 50*i,
			Addr: netip.AddrFrom4([4]byte{10, byte(i), byte(host), byte(last)})})
	}
	return p
}

// TestEligible: a network whose policy is not known to equal the default's is
// no path, whatever else is said of it.
func TestEligible(t *testing.T) {
	rs := route.Between(testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b"))
	for _, tc := range []struct {
		equal []string
		want  []string
	}{
		{nil, []string{"z"}},
		{[]string{}, []string{"z"}},
		{[]string{"z"}, []string{"z"}},
		{[]string{"m"}, []string{"z", "m"}},
		{[]string{"b", "m", "other"}, []string{"z", "b", "m"}},
		{[]string{""}, []string{"z"}},
		{[]string{"M"}, []string{"z"}},
	} {
		var got []string
		for _, r := range (Cluster{Equal: tc.equal}).eligible(rs) {
			got = append(got, r.Network)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("equal %v: got %v, want %v", tc.equal, got, tc.want)
		}
	}
	for _, r := range (Cluster{Equal: []string{"b", "m"}, Encapsulated: []string{"z", "m"}}).eligible(rs) {
		if r.Encap != (r.Network == "m") { // the default network carries packets as they are
			t.Errorf("%s encapsulated: %v", r.Network, r.Encap)
		}
	}
	if len(rs) != 3 || rs[1].Network != "b" {
		t.Errorf("eligible changed what it was given: %v", rs)
	}
	if got := (Cluster{}).eligible(nil); len(got) != 0 {
		t.Errorf("no route: got %v", got)
	}
}

func TestCluster(t *testing.T) {
	own := testPod("agent-h1", 1, 9, "z", "m")
	own.Agent = true
	nameless := testPod("old", 1, 8, "z", "m")
	nameless.UID = ""
	c := Cluster{Hosts: []topo.Host{{Index: 1, Name: "h1"}, {Index: 2, Name: "h2"}},
		Pods: []topo.Pod{testPod("p", 1, 1, "z", "m"), testPod("single", 1, 2, "z"), nameless, own,
			testPod("q", 2, 1, "z", "b")}}
	if h, ok := c.host("h2"); !ok || h.Index != 2 {
		t.Errorf("host h2: got %v, %v", h, ok)
	}
	if _, ok := c.host("h3"); ok {
		t.Error("found a host that is not there")
	}
	if p, ok := c.agentPod(1); !ok || p.Name != "agent-h1" {
		t.Errorf("agent pod of host 1: got %v, %v", p.Name, ok)
	}
	if _, ok := c.agentPod(2); ok {
		t.Error("host 2 has no agent pod")
	}
	var names []string
	for _, p := range c.steerable(1) {
		names = append(names, p.Name)
	}
	// Not the agent's own, nor one with one network, nor one without identity.
	if !slices.Equal(names, []string{"p"}) {
		t.Errorf("steerable: got %v, want p alone", names)
	}
	if got := c.names(); !slices.Equal(got, []string{"b", "m", "z"}) {
		t.Errorf("names: got %v", got)
	}
	if slices.Index(c.names(), "m") != 1 || slices.Index(c.names(), "x") != -1 {
		t.Error("indexOf")
	}
}

// TestDialect: agents that number the networks differently, or encapsulate on others,
// notice.
func TestDialect(t *testing.T) {
	type said struct{ names, encapsulated []string }
	seen := map[uint32]said{}
	for _, is := range []said{{}, {names: []string{"a"}}, {names: []string{"b"}}, {names: []string{"a", "b"}},
		{names: []string{"ab"}},
		{names: []string{"a", "", "b"}}, {names: []string{"a", "b", ""}}, {names: []string{"b", "a"}},
		{[]string{"a", "b"}, []string{"a"}}, {[]string{"a", "b"}, []string{"b"}}, {[]string{"a", "b"}, []string{"b", "a"}}} {
		h := dialect(is.names, is.encapsulated)
		if other, ok := seen[h]; ok {
			t.Errorf("%q and %q are one dialect", is, other)
		}
		seen[h] = is
	}
	names := []string{"a", "b"}
	if one, again := dialect(names, nil), dialect(slices.Clone(names), []string{"elsewhere"}); one != again {
		t.Error("the same names are two dialects")
	}
	if one, again := dialect(names, []string{"a", "b"}), dialect(names, []string{"b", "a"}); one != again {
		t.Error("the same encapsulated in another order is another dialect")
	}
}

func TestIdentity(t *testing.T) {
	p, again := testPod("p", 1, 1, "z"), testPod("p", 1, 1, "z")
	again.UID = "another"
	if idOf(p) == idOf(again) {
		t.Error("a pod made again has the identity of the old one")
	}
	if idOf(p) != idOf(testPod("p", 2, 7, "m")) {
		t.Error("identity depends on more than the UID")
	}
}
