package dataplane

import (
	"fmt"
	"strings"
	"testing"
)

// everywhere moves a connection of each kind over all paths and checks that it
// lives and takes them.
func (b *bed) everywhere(port int) {
	b.t.Helper()
	for _, c := range []struct{ network, at string }{
		{"tcp", "10.90.2.2"}, {"udp", "10.90.2.2"}, {"tcp6", "[fd90:2::2]"}, {"udp6", "[fd90:2::2]"},
	} {
		at := fmt.Sprintf("%s:%d", c.at, port)
		b.move(1, 0)
		conn := b.echo(c.network, at, at)
		for _, path := range []int{0, 1, 2, 0, 2, 1} {
			b.move(1, path)
			s0, r0 := b.crossed(1, path)
			for j := range 3 {
				if err := exchange(conn, strings.Repeat(fmt.Sprint(path, j), 200)); err != nil {
					b.t.Fatalf("%s over path %d: %v; events %+v %+v", c.network, path, err, b.planes[1].Events(), b.planes[2].Events())
				}
			}
			if s, r := b.crossed(1, path); path != 0 && (s < s0+2 || r < r0+2) {
				b.t.Errorf("%s over path %d: sent %d, received %d", c.network, path, s-s0, r-r0)
			}
		}
	}
}

// TestStrictReversePathFilter: the paths' interfaces filter strictly (RFC 3704), so
// what arrives there under a stable address must be delivered by eth0. Fails if
// Open takes them as they are.
func TestStrictReversePathFilter(t *testing.T) {
	for _, where := range []string{"all", "net1", "net2"} {
		b := newBed(t)
		for pod := 1; pod <= 2; pod++ {
			b.run(pod, "sysctl", "-qw", "net.ipv4.conf."+where+".rp_filter=1")
			if p := b.open(pod); p.InPlace {
				t.Errorf("rp_filter on %s: pod %d delivers in place", where, pod)
			}
		}
		b.everywhere(7001)
	}
	// Loose and strict: the kernel takes the larger, which is loose.
	b := newBed(t)
	b.run(1, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.net1.rp_filter=1")
	if !b.open(1).InPlace {
		t.Error("loose filtering taken for strict")
	}
	b.open(2)
	b.everywhere(7001)
}

// TestPathsOfEveryMTU: bulk TCP between paths of every size, both ways, with and
// without segmentation offload. What is too big for a path stays on the default
// network and is counted. Fails if out does not compare with the path's MTU.
func TestPathsOfEveryMTU(t *testing.T) {
	t.Parallel()
	for _, mtu := range [][3]int{{9000, 1450, 1500}, {1450, 1500, 9000}, {1500, 9000, 1450}} {
		for _, offload := range []string{"on", "off"} {
			t.Run(fmt.Sprint(mtu, " offload ", offload), func(t *testing.T) { bulkBetween(t, mtu, offload) })
		}
	}
}

func bulkBetween(t *testing.T, mtu [3]int, offload string) {
	b := newBedMTU(t, mtu)
	for pod := 1; pod <= 2; pod++ {
		b.open(pod)
		for _, dev := range []string{"eth0", "net1", "net2"} {
			b.run(pod, "ethtool", "-K", dev, "tso", offload, "gso", offload, "gro", offload)
		}
	}
	for i, to := range []string{"10.90.2.2:7001", "[fd90:2::2]:7001", "10.90.2.2:7002", "[fd90:2::2]:7002"} {
		reverse := i%2 == 1
		sender := 1
		if reverse {
			sender = 2
		}
		b.move(1, 0)
		s := b.bulk(to, 25e6, reverse)
		for _, path := range []int{1, 2, 1, 0, 2, 0} {
			b.move(1, path)
			if err := s.more(1e6); err != nil {
				t.Fatalf("%s to path %d: %v; %+v", to, path, err, b.planes[sender].Events())
			}
			big, before := b.planes[sender].Events().TooBig, b.bytes(sender, path)
			if err := s.more(1e6); err != nil {
				t.Fatalf("%s on path %d: %v", to, path, err)
			}
			fits := path == 0 || mtu[path] >= mtu[0]
			counted := b.planes[sender].Events().TooBig > big
			sent := b.bytes(sender, path) - before
			// What the receiver reads next may have waited since before the move.
			for tries := 0; tries < 20 && (fits && sent <= 5e5 || !fits && !counted); tries++ {
				if err := s.more(1e6); err != nil {
					t.Fatalf("%s on path %d: %v", to, path, err)
				}
				counted = b.planes[sender].Events().TooBig > big
				sent = b.bytes(sender, path) - before
			}
			if counted == fits {
				t.Errorf("%s, path %d of %d bytes, default %d: too big: %v", to, path, mtu[path], mtu[0], counted)
			}
			if fits != (sent > 5e5) {
				t.Errorf("%s, path %d of %d bytes, default %d: %d bytes crossed it", to, path, mtu[path], mtu[0], sent)
			}
		}
	}
}

// bytes returns what the pod's plane has sent over a path.
func (b *bed) bytes(pod, path int) uint64 {
	b.t.Helper()
	s, _, err := b.planes[pod].Tallies(fmt.Sprintf("pod-%d", 3-pod), path)
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Bytes
}

// TestRouterWithSmallerMTU: a router on the path has a smaller MTU than the path
// says. Its ICMP error reaches the socket, and the stack learns the size for the
// stable address. Fails if pw_path_ingress drops or leaves such errors.
func TestRouterWithSmallerMTU(t *testing.T) {
	for _, strict := range []string{"0", "1"} {
		b := newBed(t)
		b.run(1, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter="+strict)
		b.open(1)
		b.open(2)
		for _, stable := range []string{"10.90.2.2", "fd90:2::2"} {
			to := stable + ":7001"
			if strings.Contains(stable, "::") {
				to = "[" + stable + "]:7001"
			}
			b.run(0, "ip", "link", "set", "p2n2", "mtu", "9000")
			b.move(1, 0)
			s := b.bulk(to, 25e6, false)
			b.move(1, 2)
			if err := s.more(1e6); err != nil {
				t.Fatal(err)
			}
			before := b.planes[1].Events().ICMP
			b.run(0, "ip", "link", "set", "p2n2", "mtu", "1300")
			if err := s.more(5e6); err != nil {
				t.Errorf("%s: black hole: %v; %+v", to, err, b.planes[1].Events())
			}
			if n := b.planes[1].Events().ICMP; n == before {
				t.Errorf("%s: no error was translated", to)
			}
			if route := b.run(1, "ip", "route", "get", stable); !strings.Contains(route, "mtu 1300") {
				t.Errorf("the stack has not learnt the size: %s", route)
			}
		}
	}
}
