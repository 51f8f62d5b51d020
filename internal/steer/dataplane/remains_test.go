package dataplane

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestEavesdropper: what remains to whom sees a path's packets, as on any network that
// neither encrypts nor authenticates: it reads them, and with their tag puts datagrams into
// that flow. It puts none into another, by the same tag, and moves nothing.
func TestEavesdropper(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp", 7001)
	other := b.receiver(2, "10.90.2.2:7002")
	b.move(1, 1)
	tap := b.tap(2, "net1", "10.91.0.1")
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	seen := tap()
	if len(seen) == 0 || !bytes.Contains(seen[0], []byte("a word")) {
		t.Fatalf("it has not seen the payload: %q", seen)
	}
	before := b.standing(2)
	near, far := ports(conn)
	g := b.gun(segment, "net1", segment, 2, true)
	id := uint16(seen[0][4])<<8 | uint16(seen[0][5])
	g.fire(t, ip4("10.91.0.1", "10.91.0.2", seen[0][1], id, 0x4000, 17,
		l4(17, "10.91.0.1", "10.91.0.2", near, far, 0, "put in")))
	g.fire(t, ip4("10.91.0.1", "10.91.0.2", seen[0][1], id, 0x4000, 17,
		l4(17, "10.91.0.1", "10.91.0.2", near, 7002, 0, "put in")))
	if got, err := receive(back, time.Second); got != "put in" {
		t.Errorf("it got %q: %v", got, err)
	}
	if got, err := receive(other, 100*time.Millisecond); err == nil {
		t.Errorf("another port got %q", got)
	}
	b.unmoved("what an eavesdropper sent", 2, before)
}

// TestStrangersIPv6: the tag of IPv6 is in the flow label, which segmentation leaves as it
// is: one label in 65,536 is taken, and one only.
func TestStrangersIPv6(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp6", 7001)
	b.move(1, 1)
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	before := b.standing(2)
	near, far := ports(conn)
	g := b.gun(segment, "net1", 1, 2, true)
	got := make(chan int)
	go func() { got <- forgeries(back) }()
	for label := range uint32(1 << 16) {
		g.fire(t, ip6("fd91::1", "fd91::2", markTOS, label, 17, l4(17, "fd91::1", "fd91::2", near, far, 0, "forged")))
	}
	if n := <-got; n != 1 {
		t.Errorf("%d datagrams of 65,536 were delivered, expected 1", n)
	}
	b.unmoved("flow labels", 2, before)
}

// TestPolicyLater: what remains of a change of the default network's policy: flows that it
// had admitted go on over the path, and none begins.
func TestPolicyLater(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp", 7001)
	b.move(1, 2)
	if err := errors.Join(say(conn, back), say(back, conn)); err != nil {
		t.Fatal(err)
	}
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname "p1n0" drop`)
	for range 5 {
		if err := errors.Join(say(conn, back), say(back, conn)); err != nil {
			t.Errorf("a flow that was admitted: %v", err)
		}
	}
	b.serve(2, "tcp", "10.90.2.2:7002")
	if _, err := b.dial(1, "tcp", "10.90.2.2:7002", option{value: 500 * time.Millisecond}); !timedOut(err) {
		t.Errorf("a connection that begins: %v", err)
	}
}

// TestSecondInterface: what remains of a second interface, with Pathwise and without: a
// packet without mark that comes by a path with the pod's stable address is the kernel's,
// which takes it unless reverse paths are filtered strictly.
func TestSecondInterface(t *testing.T) {
	for _, strict := range []bool{false, true} {
		b := newBed(t)
		b.strangers()
		b.run(2, "sysctl", "-qw", fmt.Sprintf("net.ipv4.conf.all.rp_filter=%d", either(strict, 1, 0)))
		server := b.receiver(2, "10.90.2.2:7001")
		g := b.gun(segment, "net1", segment, 2, false)
		for _, with := range []bool{false, true} {
			if with {
				b.open(1)
				b.open(2)
			}
			g.fire(t, ip4("10.90.1.2", "10.90.2.2", 0, 1, 0, 17,
				l4(17, "10.90.1.2", "10.90.2.2", 5000, 7001, 0, "by the side door")))
			if _, err := receive(server, 200*time.Millisecond); (err != nil) != strict {
				t.Errorf("strict %v, with a data plane %v: %v", strict, with, err)
			}
		}
	}
}

// TestHostileAdmin: with CAP_NET_ADMIN in a namespace of its own a neighbour takes the
// peer's path address, and sends marked datagrams from plain sockets: nothing moves, and
// what is delivered is a guess, one of 512. In its own namespace a pod cannot take the programs away
// with its queueing disciplines. Fails if pw_path_ingress takes an address for proof.
func TestHostileAdmin(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp", 7001)
	b.move(1, 1)
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	links := b.links(1)
	for _, dev := range []string{"eth0", "net1", "net2"} {
		_, _ = b.try(1, "tc", "qdisc", "del", "dev", dev, "clsact") // there is none
	}
	if now := b.links(1); fmt.Sprint(now) != fmt.Sprint(links) {
		t.Errorf("links were %v and are %v", links, now)
	}
	before := b.standing(2)
	b.run(neighbour, "ip", "addr", "add", "10.91.0.1/24", "dev", "net1")
	near, _ := ports(conn)
	at := fmt.Sprintf("10.91.0.1:%d", near)
	for class := range 256 { // each from a socket of its own, as one's identifications are in a row
		stray := b.bound(neighbour, at, "10.91.0.2:7001")
		b.forge(stray, class, 1)
		stray.Close()
	}
	delivered := 0
	for {
		msg, err := receive(back, 50*time.Millisecond)
		if err != nil {
			break
		}
		delivered++
		if msg != "forged" {
			t.Errorf("%q", msg)
		}
	}
	if delivered > 3 {
		t.Errorf("%d of 256 datagrams delivered as from the peer", delivered)
	}
	stray := b.bound(neighbour, at, "10.91.0.2:7001")
	got := make(chan int)
	go func() { got <- forgeries(back) }()
	b.forge(stray, markTOS, 1<<16)
	if n := <-got; n > 128 {
		t.Errorf("%d of 65,536 datagrams delivered as from the peer, of one socket, expected 128 at most", n)
	} else {
		t.Logf("%d of 65,536 delivered", n)
	}
	b.unmoved("an address taken", 2, before)
}
