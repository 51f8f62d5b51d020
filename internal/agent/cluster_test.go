package agent

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/path/steer"
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

func TestRoutes(t *testing.T) {
	many := []string{"z", "a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for _, tc := range []struct {
		name          string
		local, remote topo.Pod
		want          string // network/index/device, in order
	}{
		{"the default first, then by name", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b"), "z/0/eth0 b/1/net2 m/2/net1"},
		{"the order of the remote pod does not matter", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "b", "m"), "z/0/eth0 b/1/net2 m/2/net1"},
		{"a network has one number for all peers", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m"), "z/0/eth0 m/2/net1"},
		{"nothing in common but the default", testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "z", "b"), "z/0/eth0"},
		{"other default networks", testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "m", "z"), ""},
		{"no network", testPod("p", 1, 1), testPod("q", 2, 1, "z"), ""},
		{"more than the data plane has room for", testPod("p", 1, 1, many...), testPod("q", 2, 1, many...),
			"z/0/eth0 a/1/net1 b/2/net2 c/3/net3 d/4/net4 e/5/net5 f/6/net6 g/7/net7"},
	} {
		var got []string
		for _, r := range routes(tc.local, tc.remote) {
			got = append(got, r.network+"/"+string('0'+rune(r.index))+"/"+r.local.Dev)
			if r.local.Network != r.network || r.remote.Network != r.network {
				t.Errorf("%s: route %s joins %s and %s", tc.name, r.network, r.local.Network, r.remote.Network)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, strings.Join(got, " "), tc.want)
		}
	}
}

// TestEligible: a network whose policy is not known to equal the default's is
// no path, whatever else is said of it.
func TestEligible(t *testing.T) {
	rs := routes(testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b"))
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
		for _, r := range (&Agent{}).eligible(rs, Cluster{Equal: tc.equal}) {
			got = append(got, r.network)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("equal %v: got %v, want %v", tc.equal, got, tc.want)
		}
	}
	if len(rs) != 3 || rs[1].network != "b" {
		t.Errorf("eligible changed what it was given: %v", rs)
	}
	if got := (&Agent{}).eligible(nil, Cluster{}); len(got) != 0 {
		t.Errorf("no route: got %v", got)
	}
}

func TestCluster(t *testing.T) {
	own := testPod("agent-h1", 1, 9, "z", "m")
	own.Agent = true
	nameless := testPod("old", 1, 8, "z", "m")
	nameless.UID = ""
	c := Cluster{Hosts: []topo.Host{{Index: 1, Name: "h1"}, {Index: 2, Name: "h2"}},
		Pods: []topo.Pod{testPod("p", 1, 1, "z", "m"), testPod("single", 1, 2, "z"), nameless, own, testPod("q", 2, 1, "z", "b")}}
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
	if hostName(c, 2) != "h2" || hostName(c, 3) != "" {
		t.Errorf("hostName: got %q, %q", hostName(c, 2), hostName(c, 3))
	}
	if indexOf(c.names(), "m") != 1 || indexOf(c.names(), "x") != -1 {
		t.Error("indexOf")
	}
}

// TestNamesHash: agents that number the networks differently notice.
func TestNamesHash(t *testing.T) {
	seen := map[uint32][]string{}
	for _, names := range [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"a", "b", ""}, {"b", "a"}} {
		h := namesHash(names)
		if other, ok := seen[h]; ok {
			t.Errorf("%q and %q have one hash", names, other)
		}
		seen[h] = names
	}
	names := []string{"a", "b"}
	if one, again := namesHash(names), namesHash(slices.Clone(names)); one != again {
		t.Error("the same names have two hashes")
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

func TestPeerOf(t *testing.T) {
	p, q := testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b")
	rs := routes(p, q)
	closed := peerOf(q, rs, false, nil)
	if closed.UID != q.UID || len(closed.Paths) != 0 || len(closed.Pairs) != 1 || closed.Pairs[0] != (steer.Pair{Local: p.Addr(), Remote: q.Addr()}) {
		t.Errorf("a peer that has not confirmed: %+v", closed)
	}
	open := peerOf(q, rs, true, map[int]net.HardwareAddr{2: {2, 0, 0, 0, 0, 1}})
	if len(open.Paths) != 2 {
		t.Fatalf("an open peer has %d paths, want 2", len(open.Paths))
	}
	// m is the second attachment of both, with an MTU of 1450.
	m := open.Paths[1]
	if m.Index != 2 || m.Dev != "net1" || m.MTU != 1450 || m.Pairs[0].Local != p.Attachments[1].Addr || m.Pairs[0].Remote != q.Attachments[1].Addr {
		t.Errorf("path m: %+v", m)
	}
	if m.NextHop.String() != "02:00:00:00:00:01" || open.Paths[0].NextHop != nil {
		t.Errorf("next hops: %v, %v; only that of path 2 is known", open.Paths[0].NextHop, m.NextHop)
	}
	q.Attachments[1].MTU = 1280
	if got := peerOf(q, routes(p, q), true, nil).Paths[1].MTU; got != 1280 {
		t.Errorf("MTU of a path is %d, want the lesser of both ends, 1280", got)
	}
}
