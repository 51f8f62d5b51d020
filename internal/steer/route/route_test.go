package route

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
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

func TestBetween(t *testing.T) {
	barred := func(p topo.Pod, networks ...string) topo.Pod { p.Barred = networks; return p }
	many := []string{"z", "a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for _, tc := range []struct {
		name          string
		local, remote topo.Pod
		want          string // network/index/device, in order
	}{
		{"the default first, then by name", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b"),
			"z/0/eth0 b/1/net2 m/2/net1"},
		{"the order of the remote pod does not matter", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "b", "m"),
			"z/0/eth0 b/1/net2 m/2/net1"},
		{"a network has one number for all peers", testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m"),
			"z/0/eth0 m/2/net1"},
		{"nothing in common but the default", testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "z", "b"), "z/0/eth0"},
		{"other default networks", testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "m", "z"), ""},
		{"the local pod is kept from one", barred(testPod("p", 1, 1, "z", "m", "b"), "b"),
			testPod("q", 2, 1, "z", "m", "b"), "z/0/eth0 m/2/net1"},
		{"the remote pod is kept from all", testPod("p", 1, 1, "z", "m", "b"),
			barred(testPod("q", 2, 1, "z", "m", "b"), "m", "b", "z"), "z/0/eth0"},
		{"no network", testPod("p", 1, 1), testPod("q", 2, 1, "z"), ""},
		{"more than the data plane has room for", testPod("p", 1, 1, many...), testPod("q", 2, 1, many...),
			"z/0/eth0 a/1/net1 b/2/net2 c/3/net3 d/4/net4 e/5/net5 f/6/net6 g/7/net7"},
	} {
		var got []string
		for _, r := range Between(tc.local, tc.remote) {
			got = append(got, r.Network+"/"+string('0'+rune(r.Index))+"/"+r.Local.Dev)
			if r.Local.Network != r.Network || r.Remote.Network != r.Network {
				t.Errorf("%s: route %s joins %s and %s", tc.name, r.Network, r.Local.Network, r.Remote.Network)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, strings.Join(got, " "), tc.want)
		}
	}
}

func TestPeer(t *testing.T) {
	p, q := testPod("p", 1, 1, "z", "m", "b"), testPod("q", 2, 1, "z", "m", "b")
	rs := Between(p, q)
	closed := Peer(q, rs, false, nil, nil)
	if closed.UID != q.UID || len(closed.Paths) != 0 || len(closed.Pairs) != 1 ||
		closed.Pairs[0] != (dataplane.Pair{Local: p.Addr(), Remote: q.Addr()}) {
		t.Errorf("a peer that has not confirmed: %+v", closed)
	}
	open := Peer(q, rs, true, map[int]net.HardwareAddr{2: {2, 0, 0, 0, 0, 1}}, nil)
	if len(open.Paths) != 2 {
		t.Fatalf("an open peer has %d paths, want 2", len(open.Paths))
	}
	// m is the second attachment of both, with an MTU of 1450.
	m := open.Paths[1]
	if m.Index != 2 || m.Dev != "net1" || m.MTU != 1450 || m.Pairs[0].Local != p.Attachments[1].Addr ||
		m.Pairs[0].Remote != q.Attachments[1].Addr {
		t.Errorf("path m: %+v", m)
	}
	if m.NextHop.String() != "02:00:00:00:00:01" || open.Paths[0].NextHop != nil {
		t.Errorf("next hops: %v, %v; only that of path 2 is known", open.Paths[0].NextHop, m.NextHop)
	}
	q.Attachments[1].MTU = 1280
	if got := Peer(q, Between(p, q), true, nil, nil).Paths[1].MTU; got != 1280 {
		t.Errorf("MTU of a path is %d, want the lesser of both ends, 1280", got)
	}
	rs[2].Encap = true
	if got := Peer(q, rs, true, nil, nil).Paths[1]; !got.Encap || got.MTU != 1450 || rs[2].MTU() != 1410 {
		t.Errorf("encapsulated: %+v for packets of %d bytes", got, rs[2].MTU())
	}
}
