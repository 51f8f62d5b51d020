package steer

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestPoint2Conntrack: the networks track connections and drop what they call
// invalid. Returning to a path that the flow has used must not stall it; at a low
// rate the windows still fit and the fault hides, hence 200 Mbit/s. The router's
// entries are deleted right before; the second part shows what comes without.
func TestPoint2Conntrack(t *testing.T) {
	for name, forget := range map[string]bool{"forgotten": true, "kept": false} {
		for direction, reverse := range map[string]bool{"sent": false, "received": true} {
			t.Run(name+"/"+direction, func(t *testing.T) { conntrack(t, forget, reverse) })
		}
	}
}

func conntrack(t *testing.T, forget, reverse bool) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.nft("add table inet t", "add counter inet t invalid", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f ct state invalid counter name invalid drop`)
	s := b.bulk("10.90.2.2:7001", 25e6, reverse)
	if err := s.more(5e6); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	if err := s.more(25e6); err != nil {
		t.Fatalf("a path entered for the first time: %v; %d invalid", err, b.count("invalid"))
	}
	if !forget {
		b.move(1, 0)
		if err := s.within(5e6, 2*time.Second); err == nil {
			t.Errorf("no stall without ForgetConntrack (%d packets invalid): what is tested here?", b.count("invalid"))
		}
		return
	}
	for i, path := range []int{0, 2, 0, 2, 0} {
		pair := stable(1)
		if path == 2 {
			pair = b.peer(1).Paths[1].Pairs[0]
		}
		n, err := ForgetConntrack(b.pods[0], []Pair{pair, stable6(1)})
		if err != nil || n == 0 {
			t.Fatalf("%d entries forgotten: %v", n, err)
		}
		b.move(1, path)
		if err := s.more(20e6); err != nil {
			t.Fatalf("return %d, to path %d: %v; %d invalid", i, path, err, b.count("invalid"))
		}
	}
	if n, err := ForgetConntrack(b.pods[0], []Pair{{stable(1).Local, stable(1).Local}}); err != nil || n != 0 {
		t.Errorf("another pair: %d entries forgotten: %v", n, err)
	}
	if _, err := ForgetConntrack(b.prefix+"-none", []Pair{stable(1)}); err == nil {
		t.Error("no error for a namespace that is not there")
	}
}

// TestPoint3Ends: only the owner's data plane is told of a switch. The first
// packet that arrives tells the other end, which answers it on the new path.
// Fails if told does not write the follow map.
func TestPoint3Ends(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, conn := range []net.Conn{b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001"), b.echo("udp6", "[fd90:2::2]:7001", "[fd90:2::2]:7001")} {
		b.move(1, 0)
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		for _, path := range []int{2, 1, 2, 0, 1, 0} {
			before := [3]uint64{}
			for p := range before {
				before[p], _ = b.crossed(2, p)
			}
			b.move(1, path)
			if err := exchange(conn, "one packet"); err != nil {
				t.Fatal(err)
			}
			for p := range before {
				want := map[bool]uint64{true: 1}[p == path]
				if after, _ := b.crossed(2, p); after-before[p] != want && p != 0 || p == path && after == before[p] {
					t.Errorf("moved to path %d: the other end answered with %d packets over path %d, expected %d", path, after-before[p], p, want)
				}
			}
		}
	}
}

// TestPoint3Bulk: the end that sends is the one that learns by packets; also where
// direct routes lead to one of the paths.
func TestPoint3Bulk(t *testing.T) {
	for _, dev := range []string{"", "net1"} {
		t.Run("direct "+dev, func(t *testing.T) { switchBulk(t, dev) })
	}
}

func switchBulk(t *testing.T, direct string) {
	b := newBedMTU(t, [3]int{1450, 1450, 9000}) // nothing is too big for a path
	b.open(1)
	b.open(2)
	if direct != "" {
		b.straight(direct)
	}
	for _, to := range []string{"10.90.2.2:7001", "[fd90:2::2]:7001"} {
		b.move(1, 0)
		s := b.bulk(to, 25e6, true)
		if err := s.more(1e6); err != nil {
			t.Fatal(err)
		}
		quiet := s.longest()
		var gaps []time.Duration
		for i := range 30 {
			path := (i + 1) % 3
			gaps = append(gaps, s.longest())
			b.move(1, path)
			if err := s.more(1e6); err != nil {
				t.Fatalf("switch %d, to path %d: %v", i, path, err)
			}
			for p := range 3 {
				// Several tries: a reader that was kept waiting finds what it asks for
				// in its buffer, and nothing has crossed meanwhile.
				var sent uint64
				for range 20 {
					before, _ := b.crossed(2, p)
					if err := s.more(1e5); err != nil {
						t.Fatalf("switch %d, to path %d: %v", i, path, err)
					}
					after, _ := b.crossed(2, p)
					if sent = after - before; (sent > 0) == (p == path) {
						break
					}
				}
				if (sent > 0) != (p == path) {
					t.Errorf("switch %d, to path %d: %d packets over path %d", i, path, sent, p)
				}
			}
		}
		t.Logf("%s: longest gap %v without switches; after each %v", to, quiet, gaps)
	}
}

// bucketOf returns the one bucket of which pod 2 was told.
func (b *bed) bucketOf() (int, Choice) {
	b.t.Helper()
	followed, err := b.planes[2].Followed("pod-1")
	if err != nil {
		b.t.Fatal(err)
	}
	for i, c := range followed {
		if c.Told {
			return i, c
		}
	}
	b.t.Fatal("pod 2 follows nothing")
	return 0, Choice{}
}

// TestPoint3Epochs: packets of an older epoch that are still under way move
// nothing back, but are delivered; and an owner that has moved on by as many
// epochs as the mark can tell apart, while nothing was sent, is followed. Fails
// if told takes any epoch, or none that is three ahead.
func TestPoint3Epochs(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	local := &net.UDPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7002}
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001", from(local))
	say := func(msg string, path int) {
		t.Helper()
		if err := exchange(conn, msg); err != nil {
			t.Fatalf("%s: %v", msg, err)
		}
		if _, c := b.bucketOf(); c.Path != path {
			t.Errorf("%s: pod 2 follows to path %d, expected %d", msg, c.Path, path)
		}
	}
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 1)
	say("epoch 1", 1)
	b.move(1, 2)
	say("epoch 2", 2)
	late, err := b.dial(1, "udp", "10.91.0.2:7001", tos(false, mark(1, true)), from(&net.UDPAddr{IP: net.IPv4(10, 91, 0, 1), Port: 7002}))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := send(late, "late"); err != nil {
			t.Fatal(err)
		}
		if msg, err := receive(conn, 3*time.Second); err != nil || msg != "late" {
			t.Fatalf("a packet of an older epoch was not delivered: %q %v", msg, err)
		}
		if _, c := b.bucketOf(); c.Path != 2 || c.Epoch != 2 {
			t.Fatalf("a packet of an older epoch moved the flow: %+v", c)
		}
	}
	for _, idle := range [][]int{{0, 1, 0}, {1, 2, 0, 1}, {2, 0, 2, 1, 2}} {
		for _, path := range idle {
			b.move(1, path)
		}
		time.Sleep(lasts)
		say("after a pause", idle[len(idle)-1])
	}
	// Diverted: the owner still sends by a path on which we cannot.
	if err := two.Divert("pod-1", 2, 1); err != nil {
		t.Fatal(err)
	}
	say("diverted", 1)
	time.Sleep(lasts)
	say("diverted still", 1)
	b.move(1, 0)
	say("moved by the owner", 0)
	if err := two.Follow("pod-1", map[uint8]Choice{0: {Path: 2, Epoch: 3}}); err != nil {
		t.Fatal(err)
	}
}

// TestPoint3TooBig: all packets of the owner are too big for the new path, so
// that they stay on the default network; the other end must learn from them that
// the old path, which may be dead, is left. Fails if such packets bear no mark.
func TestPoint3TooBig(t *testing.T) {
	b := newBedMTU(t, [3]int{1500, 1500, 1300})
	b.open(1)
	b.open(2)
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	for i, path := range []int{0, 1, 2} {
		b.move(1, path)
		if err := exchange(conn, strings.Repeat("x", 1400)); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if _, c := b.bucketOf(); c.Path != path%2 {
				t.Errorf("moved to path %d: pod 2 answers over path %d, expected %d", path, c.Path, path%2)
			}
		}
	}
}

// lasts is a little longer than CHOICE_LASTS of steer.h.
const lasts = 1100 * time.Millisecond
