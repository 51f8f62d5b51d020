package dataplane

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestServiceAddress: pod 1 calls pod 2 by a Service address, which the router
// translates. The replies must go back through the router, whatever else is
// steered between the two. Fails if "in" notes such flows as owned or followed.
func TestServiceAddress(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.nft("add table inet t", "add chain inet t pre { type nat hook prerouting priority dstnat; }",
		"add rule inet t pre ip daddr 10.96.0.1 dnat ip to 10.90.2.2",
		"add rule inet t pre ip6 daddr fd96::1 dnat ip6 to fd90:2::2")
	services := map[string]net.Conn{
		"tcp":  b.echo("tcp", "10.90.2.2:7001", "10.96.0.1:7001"),
		"tcp6": b.echo("tcp6", "[fd90:2::2]:7001", "[fd96::1]:7001"),
		"udp":  b.echo("udp", "10.90.2.2:7001", "10.96.0.1:7001"),
		"udp6": b.echo("udp6", "[fd90:2::2]:7001", "[fd96::1]:7001"),
	}
	direct := b.echo("tcp", "10.90.2.2:7002", "10.90.2.2:7002")
	back := b.echoFrom(2, "tcp", "10.90.1.2:7003", "10.90.1.2:7003")
	for i, path := range []int{0, 2, 1, 0, 2} {
		b.move(1, path)
		b.move(2, 3-max(path, 1))
		for name, c := range map[string]net.Conn{"direct": direct, "back": back} {
			if err := exchange(c, "steered"); err != nil {
				t.Fatalf("round %d: %s: %v", i, name, err)
			}
		}
		before := b.steered(2)
		for name, c := range services {
			if err := exchange(c, "by the Service"); err != nil {
				t.Fatalf("round %d, %s: a Service's flow died: %v", i, name, err)
			}
		}
		if after := b.steered(2); after != before {
			t.Errorf("round %d: %d replies of Services were steered", i, after-before)
		}
	}
	if s, r := b.crossed(1, 2); s == 0 || r == 0 {
		t.Errorf("nothing else was steered: sent %d, received %d", s, r)
	}
}

// steered returns the packets that the pod has sent over other paths.
func (b *bed) steered(pod int) (n uint64) {
	b.t.Helper()
	for path := 1; path < 3; path++ {
		s, _ := b.crossed(pod, path)
		n += s
	}
	return n
}

// TestNetworkPolicyHolds: what the default network's policy refuses is not carried by
// a path that would let it through. Fails if sending makes an owner before the
// peer has answered, or a mark over the default network a follower at once.
func TestNetworkPolicyHolds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname "p1n0" th dport 7001 drop`, `add rule inet t f iifname "p2n0" th sport 7002 drop`)
	for i, path := range []int{1, 2} {
		b.move(1, path)
		b.move(2, path)
		for _, c := range []struct{ host, port, why string }{
			{"10.90.2.2", "7001", "requests are refused"}, {"10.90.2.2", "7002", "replies are refused"},
			{"[fd90:2::2]", "7001", "requests are refused"}, {"[fd90:2::2]", "7002", "replies are refused"},
		} {
			before := b.steered(1) + b.steered(2)
			if i == 0 {
				b.serve(2, "tcp", c.host+":"+c.port)
				b.serve(2, "udp", c.host+":"+c.port)
			}
			if _, err := b.dial(1, "tcp", c.host+":"+c.port, option{value: 500 * time.Millisecond}); !timedOut(err) {
				t.Errorf("path %d, %s: TCP connection where %s: %v", path, c.host, c.why, err)
			}
			conn, err := b.dial(1, "udp", c.host+":"+c.port)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if err := send(conn, "knock"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := receive(conn, 300*time.Millisecond); !timedOut(err) {
				t.Errorf("path %d, %s: UDP where %s: %v", path, c.host, c.why, err)
			}
			if after := b.steered(1) + b.steered(2); after != before {
				t.Errorf("path %d, %s: %s, and %d packets were steered", path, c.host, c.why, after-before)
			}
		}
	}
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func send(c net.Conn, msg string) error {
	_, err := c.Write([]byte(msg))
	return err
}

func receive(c net.Conn, patience time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	buf := make([]byte, 65536)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// TestAddressOfAnotherPod: another pod has the peer's address. Nothing of the peer's
// state is the new pod's, and what is still under way to the old pod by a path
// is given to nobody. Fails if generations are not compared, or pw_path_ingress passes
// on what it does not know.
func TestAddressOfAnotherPod(t *testing.T) {
	b := newBed(t)
	one, two := b.open(1), b.open(2)
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	wild := b.receiver(2, "0.0.0.0:7002") // would get what is delivered to the path's address
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	if err := exchange(conn, "steered"); err != nil {
		t.Fatal(err)
	}
	old, next := b.peer(1), b.peer(1)
	next.UID = "pod-2-reborn"
	if err := one.SetPeer(next); err != nil {
		t.Fatal(err)
	}
	if known, err := one.Known(old); err != nil || known {
		t.Errorf("the old pod is still known: %v", err)
	}
	if _, err := one.Choices(old.UID); err == nil {
		t.Error("the old pod still has choices")
	}
	choices, err := one.Choices(next.UID)
	if err != nil || choices != [Buckets]Choice{} {
		t.Errorf("the new pod has the old one's choices: %v %v", choices[0], err)
	}
	for path := range MaxPaths {
		if s, r, err := one.Tallies(next.UID, path); err != nil || s != (Tally{}) || r != (Tally{}) {
			t.Errorf("path %d: the new pod has the old one's tallies: %v %v %v", path, s, r, err)
		}
	}
	// The flow's part in the old pair is forgotten: it must be answered over the
	// default network again before it is steered.
	if _, err := one.Switch(next.UID, All, 2); err != nil {
		t.Fatal(err)
	}
	if err := send(conn, "first"); err != nil {
		t.Fatal(err)
	}
	if s, _, err := one.Tallies(next.UID, 2); err != nil || s.Packets != 0 {
		t.Errorf("the old pod's flow was steered to the new pod: %d packets, %v", s.Packets, err)
	}
	// Pod 2 is the new pod now: it has not entered pod 1.
	if err := two.RemovePeer("pod-1"); err != nil {
		t.Fatal(err)
	}
	before := two.Events().Strangers
	local := &net.UDPAddr{IP: net.IPv4(10, 92, 1, 2), Port: 7003}
	stray, err := b.dial(1, "udp", "10.92.2.2:7002", tos(false, markTOS), from(local))
	if err != nil {
		t.Fatal(err)
	}
	if err := send(stray, "for the old pod"); err != nil {
		t.Fatal(err)
	}
	if msg, err := receive(wild, 500*time.Millisecond); err == nil {
		t.Errorf("the new pod got %q", msg)
	}
	if n := two.Events().Strangers - before; n != 1 {
		t.Errorf("%d strangers counted, expected 1", n)
	}
	// Entered again, as another pod, the flow is another too, and nobody has the tag.
	stranger := b.peer(2)
	stranger.UID = "pod-1-reborn"
	if err := two.SetPeer(stranger); err != nil {
		t.Fatal(err)
	}
	if err := send(stray, "for the stable address"); err != nil {
		t.Fatal(err)
	}
	if msg, err := receive(wild, 500*time.Millisecond); err == nil {
		t.Errorf("a packet without a tag was delivered: %q", msg)
	}
	if n := two.Events().Forged; n != 1 {
		t.Errorf("%d forged packets counted, expected 1", n)
	}
}

// TestPathAddressGivenUp: a peer's address on a path that it has left is nobody's.
func TestPathAddressGivenUp(t *testing.T) {
	b := newBed(t)
	two := b.open(2)
	rows := func() (n int) {
		var k4 uint32
		var k6 bpfAddr
		var v bpfRev
		for it := two.objs.PwRev4.Iterate(); it.Next(&k4, &v); {
			n++
		}
		for it := two.objs.PwRev6.Iterate(); it.Next(&k6, &v); {
			n++
		}
		return n
	}
	if n := rows(); n != 4 {
		t.Fatalf("%d addresses taken, expected 4", n)
	}
	peer := b.peer(2)
	left := peer.Paths[1]
	peer.Paths = peer.Paths[:1]
	if err := two.SetPeer(peer); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 2 {
		t.Errorf("%d addresses taken after the peer left a path, expected 2", n)
	}
	// On the path it has another address now.
	left.Pairs = []Pair{{left.Pairs[0].Local, netip.MustParseAddr("10.92.1.3")}}
	peer.Paths = append(peer.Paths[:1:1], left)
	for range 2 {
		if err := two.SetPeer(peer); err != nil {
			t.Fatal(err)
		}
	}
	left.Pairs = []Pair{{left.Pairs[0].Local, netip.MustParseAddr("10.92.1.4")}}
	peer.Paths[1] = left
	if err := two.SetPeer(peer); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 3 {
		t.Errorf("%d addresses taken after a new one, expected 3", n)
	}
	wild := b.receiver(2, "0.0.0.0:7002")
	stray, err := b.dial(1, "udp", "10.92.2.2:7002", tos(false, markTOS), from(&net.UDPAddr{IP: net.IPv4(10, 92, 1, 2)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := send(stray, "from who has the address now"); err != nil {
		t.Fatal(err)
	}
	if msg, err := receive(wild, 500*time.Millisecond); err == nil || two.Events().Strangers != 1 {
		t.Errorf("delivered %q; %+v", msg, two.Events())
	}
}
