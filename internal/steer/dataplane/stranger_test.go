package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStrangersMoveNothing: a neighbour, and a namespace on the segment that is no pod,
// take the peer's path address (and its MAC address, where there is a segment), know the
// ports of a TCP and of a UDP flow, and send all 65,536 identifications: segments, resets,
// datagrams, echo requests in all buckets, and ICMP errors about both flows. No bucket and no flow
// moves, TCP goes on, errors are not believed, the MTU stays. Of the datagrams 128 in 65,536
// are delivered: those that segmentation could have counted up to. Fails for the moves if
// packets move flows, for the errors if guesses are not bounded (icmp.h).
func TestStrangersMoveNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		actor   int
		dev     string
		network int
		as      int // whose MAC address it takes; a bridge believes it until the owner sends
		bypass  bool
	}{{"segment", segment, "net1", 1, 1, true}, {"neighbour", neighbour, "net1", 1, neighbour, false},
		{"routed", neighbour, "net2", 2, 1, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBedMTU(t, [3]int{1400, 1450, 1440})
			b.strangers()
			b.open(1)
			b.open(2)
			tcpConn, tcpBack := b.duplex("tcp", 7001)
			udpConn, udpBack := b.duplex("udp", 7002)
			b.move(1, c.network)
			b.move(2, c.network)
			if err := errors.Join(say(tcpConn, tcpBack), say(tcpBack, tcpConn), say(udpConn, udpBack),
				say(udpBack, udpConn)); err != nil {
				t.Fatal(err)
			}
			one, two := b.standing(1), b.standing(2)
			g := &spoofer{t: t, b: b, network: c.network, to2: b.gun(c.actor, c.dev, c.as, 2, c.bypass),
				to1: b.gun(c.actor, c.dev, c.actor, 1, c.bypass)}
			got := make(chan int)
			go func() { got <- forgeries(udpBack) }()
			g.datagrams(udpConn.LocalAddr().String(), udpConn.RemoteAddr().String())
			if n := <-got; n > 128 || n < 64 {
				t.Errorf("%d datagrams of 65,536 were delivered, expected 128 or, where a queue was full, some less", n)
			} else {
				t.Logf("%d datagrams of 65,536 were delivered", n)
			}
			near, far := ports(tcpConn)
			g.segments(near, far)
			g.everyBucket()
			if err := say(tcpConn, tcpBack); err != nil { // the bridge knows again where pod 1 is
				t.Errorf("TCP does not go on: %v", err)
			}
			g.errors(near, far, unix.IPPROTO_TCP)
			near, far = ports(udpConn)
			g.errors(near, far, unix.IPPROTO_UDP)
			b.unmoved("spoofed packets", 1, one)
			b.unmoved("spoofed packets", 2, two)
			if route := b.run(1, "ip", "route", "get", "10.90.2.2"); strings.Contains(route, "mtu") {
				t.Errorf("the MTU to the peer is %s", route)
			}
			if e := b.planes[1].Events(); e.ICMP != 0 || e.Forged < 100000 {
				t.Errorf("errors believed: %+v", e)
			}
			was := b.steered(1)
			if err := errors.Join(say(tcpConn, tcpBack), say(tcpBack, tcpConn), say(udpConn, udpBack),
				say(udpBack, udpConn)); err != nil || b.steered(1) == was {
				t.Errorf("after all that: %v, %d packets steered", err, b.steered(1)-was)
			}
		})
	}
}

// forgeries counts what a socket is given until half a second passes without.
func forgeries(c interface {
	Read([]byte) (int, error)
	SetReadDeadline(time.Time) error
}) (n int) {
	buf := make([]byte, 100)
	for patience := 5 * time.Second; ; patience = time.Second {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return n
		}
		if _, err := c.Read(buf); err != nil {
			return n
		}
		n++
	}
}

// spoofer sends what looks like packets of the pair on a network.
type spoofer struct {
	t        *testing.T
	b        *bed
	network  int
	to1, to2 *gun
}

// all sends a packet to pod 2 with every identification.
func (s *spoofer) all(proto byte, body []byte) {
	src, dst := pathAddr(1, s.network, false), pathAddr(2, s.network, false)
	for id := range 1 << 16 {
		s.to2.fire(s.t, ip4(src, dst, markTOS, uint16(id), 0x4000, proto, body))
	}
}

func (s *spoofer) datagrams(near, far string) {
	var from, to uint16
	_, _ = fmt.Sscan(near[strings.LastIndex(near, ":")+1:], &from)
	_, _ = fmt.Sscan(far[strings.LastIndex(far, ":")+1:], &to)
	s.all(17, l4(17, pathAddr(1, s.network, false), pathAddr(2, s.network, false), from, to, 0, "forged"))
}

func (s *spoofer) segments(near, far uint16) {
	for _, flags := range []byte{0x04, 0x14, 0x11, 0x18} { // RST, with ACK, FIN, data
		s.all(6, l4(6, pathAddr(1, s.network, false), pathAddr(2, s.network, false), near, far, flags,
			strings.Repeat("x", int(flags>>3&1))))
	}
}

// everyBucket sends of flows that are not there, a thousand identifications each, and
// echo requests.
func (s *spoofer) everyBucket() {
	src, dst := pathAddr(1, s.network, false), pathAddr(2, s.network, false)
	for port := range 128 {
		for _, proto := range []byte{6, 17, 1} {
			body := l4(proto, src, dst, uint16(20000+port), 7001, 0x10, "x")
			for id := range 512 {
				s.to2.fire(s.t, ip4(src, dst, markTOS|byte(id%8)<<5, uint16(id*128+port), 0x4000, proto, body))
			}
		}
	}
}

// errors tells pod 1 that its flow's packets do not arrive, as a router would and as the
// peer would.
func (s *spoofer) errors(near, far uint16, proto byte) {
	own, peer := pathAddr(1, s.network, false), pathAddr(2, s.network, false)
	for _, kind := range [][8]byte{{3, 3}, {3, 1}, {3, 4, 0, 0, 0, 0, 2, 0x40}} { // port, host unreachable; MTU 576
		for id := range 1 << 16 {
			quote := ip4(own, peer, markTOS, uint16(id), 0x4000, proto, l4(proto, own, peer, near, far, 0x10, ""))
			body := append(kind[:], quote...)
			body[2], body[3] = 0, 0
			binary.BigEndian.PutUint16(body[2:], ^sum16(body))
			s.to1.fire(s.t, ip4(peer, own, byte(id%2)*markTOS, 1, 0x4000, 1, body))
		}
	}
}

// TestStrangersKeepNothingAlive: what can be guessed with 127 of 65,536 identifications
// counts as packets, but is no sign of life: a path that is a black hole does not look
// well. Fails if came takes the time of what is not exact.
func TestStrangersKeepNothingAlive(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp", 7002)
	b.move(1, 2)
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname "p1n2" drop`)
	near, far := ports(conn)
	_, before, err := b.planes[2].Tallies("pod-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	g := b.gun(neighbour, "net2", 1, 2, true)
	right := uint16(tagOf(keyOf(2), near, far, 17, sayData, true))
	for id := range 1 << 16 {
		if uint16(id) != right {
			g.fire(t, ip4("10.92.1.2", "10.92.2.2", markTOS, uint16(id), 0x4000, 17,
				l4(17, "10.92.1.2", "10.92.2.2", near, far, 0, "forged")))
		}
	}
	time.Sleep(50 * time.Millisecond)
	_, after, err := b.planes[2].Tallies("pod-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	if after.Last != before.Last || after.Packets < before.Packets+64 || after.Packets > before.Packets+127 {
		t.Errorf("it received %d packets, the last %v later", after.Packets-before.Packets, after.Last-before.Last)
	}
}

// TestStrangersWords: who can send with the peer's stable address on the default network,
// which its own filters are to prevent, invents what data planes say there, on packets of
// flows in each state and of none. But for the tags that are right, nothing is believed.
// Fails if a mark alone is.
func TestStrangersWords(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, _ := b.duplex("udp", 7001)
	stream, _ := b.duplex("tcp", 7002)
	mine := b.echoFrom(2, "udp", "10.90.1.2:7003", "10.90.1.2:7003")
	if err := exchange(mine, "hello"); err != nil {
		t.Fatal(err)
	}
	b.receiver(1, "10.90.1.2:7004")
	silent, err := b.dial(2, "udp", "10.90.1.2:7004")
	if err == nil {
		err = send(silent, "nobody answers")
	}
	if err != nil {
		t.Fatal(err)
	}
	before := b.standing(2)
	g := b.gun(neighbour, "eth0", 1, 2, true)
	udpNear, udpFar := ports(conn)
	tcpNear, tcpFar := ports(stream)
	mineNear, _ := ports(mine)
	silentNear, _ := ports(silent)
	for _, c := range []struct {
		proto        byte
		sport, dport uint16
	}{{17, udpNear, udpFar}, {6, tcpNear, tcpFar}, {17, 7003, mineNear}, {17, 7004, silentNear}, {17, 5000, 5001},
		{6, 5000, 5001}, {1, 3, 3}} {
		body := l4(c.proto, "10.90.1.2", "10.90.2.2", c.sport, c.dport, 0x10, "forged")
		if c.proto == 1 {
			body[0] = 0 // a reply: to a request the pod would answer
			body[2], body[3] = 0, 0
			binary.BigEndian.PutUint16(body[2:], ^sum16(body))
		}
		right := map[uint16]bool{} // with the mark of a DSCP that the tag tells, some of these alone
		for say := uint8(sayOpen); say <= sayForgotten; say++ {
			for dscp := range uint8(64) {
				if dscp == 0 || isOther(dscp) {
					right[uint16(tagOf(keyOf(0), c.sport, c.dport, c.proto, say, true))+uint16(dscp)<<10] = true
				}
			}
		}
		for i := range 1 << 14 {
			if id := uint16(i * 4); !right[id] {
				g.fire(t, ip4("10.90.1.2", "10.90.2.2", markTOS|byte(i%8)<<5, id, 0x4000, c.proto, body))
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	b.unmoved("forged words", 2, before)
}

// TestStrangersOpening: a SYN with the peer's stable address, which the default network lets
// pass, and with the ports of a connection that is steered, does not end it: it is learnt
// again and steered again. Fails without SAY_FORGOTTEN.
func TestStrangersOpening(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	conn, back := b.duplex("tcp", 7001)
	b.move(1, 2)
	g := b.gun(neighbour, "eth0", 1, 2, false)
	near, far := ports(conn)
	for range 3 {
		if err := errors.Join(say(conn, back), say(back, conn)); err != nil {
			t.Fatal(err)
		}
		g.fire(t, ip4("10.90.1.2", "10.90.2.2", 0, 1, 0x4000, 6, l4(6, "10.90.1.2", "10.90.2.2", near, far, 0x02, "")))
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		if err := say(conn, back); err != nil || time.Since(began) > 450*time.Millisecond {
			t.Errorf("after a SYN: %v after %v", err, time.Since(began))
		}
	}
	b.settle(conn, back)
	one, two := b.steered(1), b.steered(2)
	if err := errors.Join(say(conn, back), say(back, conn)); err != nil || b.steered(1) == one || b.steered(2) == two {
		t.Errorf("it is steered no more: %v; roles %d and %d", err, b.role(1, near, far, 6), b.role(2, far, near, 6))
	}
}
