package dataplane

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pathAddr is a pod's address on a network.
func pathAddr(pod, network int, v6 bool) string {
	switch {
	case v6 && network == 1:
		return fmt.Sprintf("fd91::%d", pod)
	case v6:
		return fmt.Sprintf("fd9%d:%d::2", network, pod)
	case network == 1:
		return fmt.Sprintf("10.91.0.%d", pod)
	}
	return fmt.Sprintf("10.9%d.%d.2", network, pod)
}

// cut is an IPv4 packet in fragments: of those many octets of payload, then the rest;
// again says with how many octets they overlap.
func cut(p []byte, at, again int) [][]byte {
	piece := func(from, to int, more uint16) []byte {
		src, dst := netip.AddrFrom4([4]byte(p[12:])).String(), netip.AddrFrom4([4]byte(p[16:])).String()
		return ip4(src, dst, p[1], binary.BigEndian.Uint16(p[4:]), more|uint16(from/8), p[9], p[20+from:20+to])
	}
	return [][]byte{piece(0, at, 0x2000), piece(at-again, len(p)-20, 0)}
}

// cut6 is an IPv6 packet in fragments.
func cut6(p []byte, at int) (out [][]byte) {
	src, dst := netip.AddrFrom16([16]byte(p[8:])).String(), netip.AddrFrom16([16]byte(p[24:])).String()
	class, body := byte(binary.BigEndian.Uint32(p)>>20), p[40:]
	for _, f := range []struct{ from, to, more int }{{0, at, 1}, {at, len(body), 0}} {
		head := []byte{p[6], 0, byte(f.from >> 8), byte(f.from&^7 | f.more), 0, 0, 0, 99}
		out = append(out,
			ip6(src, dst, class, binary.BigEndian.Uint32(p)&0xfffff, 44, slices.Concat(head, body[f.from:f.to])))
	}
	// atomic (RFC 6946)
	return append(out, ip6(src, dst, class, 0, 44, slices.Concat([]byte{p[6], 0, 0, 0, 0, 0, 0, 98}, body)))
}

// TestHostileFragments: packets in fragments that look steered, with the right tag at
// that, reach no port: neither one that the default network drops nor any other, in TCP,
// UDP and ICMP, cut anywhere, overlapping, with a mark on some fragments only. The actors
// are the peer's own pod with CAP_NET_RAW and a neighbour that takes its address.
// Fails if pw_path_ingress lets fragments pass.
func TestHostileFragments(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	b.open(2)
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname "p1n0" th dport 7001 drop`)
	for _, network := range []string{"tcp", "udp", "tcp6", "udp6"} {
		host := either(strings.HasSuffix(network, "6"), "[fd90:2::2]", "10.90.2.2")
		b.serve(2, network, host+":7001")
		b.serve(2, network, host+":7002")
	}
	flows := b.lasting(t, "udp")
	near, far := ports(flows["udp"])
	for _, n := range []struct {
		dev     string
		network int
	}{{"net1", 1}, {"net2", 2}} {
		for _, actor := range []int{1, neighbour} {
			g := b.gun(actor, n.dev, 1, 2, actor == 1)
			src, dst := pathAddr(1, n.network, false), pathAddr(2, n.network, false)
			before, was, refused := b.taken(2), b.standing(2), b.planes[2].Events()
			shots := 0
			fire := func(p []byte) { g.fire(t, p); shots++ }
			for _, c := range []struct {
				proto        byte
				sport, dport uint16
			}{{6, 5000, 7001}, {6, 5000, 7002}, {17, 5000, 7001}, {17, 5000, 7002}, {17, near, far}, {1, 77, 77}} {
				body := l4(c.proto, src, dst, c.sport, c.dport, 0x02, strings.Repeat("x", 64))
				id := uint16(tagOf(keyOf(n.network), c.sport, c.dport, c.proto, sayData, true))
				for mark := byte(7); mark < 64; mark += 8 {
					for _, at := range []int{8, 16, 24, 48} {
						for _, p := range cut(ip4(src, dst, mark<<2, id, 0, c.proto, body), at, 0) {
							fire(p)
						}
						for _, p := range cut(ip4(src, dst, mark<<2, id+1, 0, c.proto, body), at, min(at-8, 8)) {
							fire(p)
						}
						// A mark on one of them: the other is left alone, and is never complete.
						fire(cut(ip4(src, dst, 0, id+2, 0, c.proto, body), at, 0)[0])
						fire(cut(ip4(src, dst, mark<<2, id+2, 0, c.proto, body), at, 0)[1])
						fire(cut(ip4(src, dst, mark<<2, id+3, 0, c.proto, body), at, 0)[0])
						fire(cut(ip4(src, dst, 0, id+3, 0, c.proto, body), at, 0)[1])
					}
				}
				if c.proto != 1 {
					six := l4(c.proto, pathAddr(1, n.network, true), pathAddr(2, n.network, true), c.sport, c.dport, 0x02,
						strings.Repeat("x", 64))
					label := uint32(tagOf(keyOf(n.network), c.sport, c.dport, c.proto, sayData, true)) & 0xffff
					for _, p := range cut6(ip6(pathAddr(1, n.network, true), pathAddr(2, n.network, true), 7<<2, label, c.proto, six),
						16) {
						fire(p)
					}
				}
			}
			time.Sleep(50 * time.Millisecond)
			if now := b.taken(2); now != before {
				t.Errorf("%s, pod %d: of %d fragments the stack took %d packets", n.dev, actor, shots, now-before)
			}
			if e := b.planes[2].Events(); e.Strangers == refused.Strangers || e.Unadmitted != refused.Unadmitted {
				t.Errorf("%s, pod %d: %+v, before %+v", n.dev, actor, e, refused)
			}
			b.unmoved("fragments on "+n.dev, 2, was)
		}
	}
	if out, _ := b.try(2, "ss", "-Htan", "state", "syn-recv"); out != "" {
		t.Errorf("half-open connections: %s", out)
	}
	b.onPath(t, "udp", flows["udp"])
}

// TestHostileUnprivileged: a process of the peer's pod without capabilities binds its path
// address and gives its datagrams every traffic class. None is delivered as from the stable
// address, to ports of no flow; to a flow between these two pods there is one chance in 512
// for each socket, as the kernel makes the identification: it counts those of a connected socket up
// from one at random, and those of all others between two addresses together (ip_select_ident, Linux
// 6.18), so that none is right, or many in a row. Fails if pw_path_ingress takes a mark for proof.
func TestHostileUnprivileged(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	open := b.receiver(2, "10.90.2.2:7002")
	conn, back := b.duplex("udp", 7001)
	b.move(1, 2)
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	near, _ := ports(conn)
	for _, c := range []struct {
		what  string
		sport uint16
		to    string
		got   net.Conn
		most  int
	}{{"no flow", 0, "10.92.2.2:7002", open, 0}, {"a flow's port", near, "10.92.2.2:7002", open, 0},
		{"a flow", near, "10.92.2.2:7001", back, 3}} {
		for _, connected := range []bool{true, false} {
			delivered := b.spoof(two, c.sport, c.to, c.got, connected)
			if delivered > c.most && !connected {
				for range 8 { // far from there
					b.spoof(two, c.sport, c.to, c.got, false)
				}
				delivered = b.spoof(two, c.sport, c.to, c.got, false)
			}
			if delivered > c.most {
				t.Errorf("%s, connected %v: %d datagrams delivered as from the stable address", c.what, connected, delivered)
			}
		}
	}
}

// spoof sends a datagram of each traffic class from a path's address, each from a socket of its own,
// and returns how many are delivered as from the stable one. It holds that the others that are
// marked are refused.
func (b *bed) spoof(at *Plane, sport uint16, dest string, got net.Conn, connected bool) (delivered int) {
	b.t.Helper()
	before, marked := at.Events(), uint64(0)
	for class := range 256 {
		stray := b.bound(1, fmt.Sprintf("10.92.1.2:%d", sport), either(connected, dest, ""))
		setOption(b.t, stray, tos(false, 0), class)
		to, _ := net.ResolveUDPAddr("udp", dest)
		var err error
		if connected {
			err = send(stray, "forged")
		} else {
			_, err = stray.WriteTo([]byte("forged"), to)
		}
		stray.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		if class>>2&7 == 7 {
			marked++
		}
	}
	for {
		if _, err := receive(got, 30*time.Millisecond); err != nil {
			break
		}
		delivered++
	}
	e := at.Events()
	if n := e.Forged + e.Unadmitted - before.Forged - before.Unadmitted + uint64(delivered); n != marked {
		b.t.Errorf("to %s: %d marked datagrams refused or delivered, expected %d", dest, n, marked)
	}
	return delivered
}

// forge has a socket send so many datagrams of a traffic class.
func (b *bed) forge(c *net.UDPConn, class, n int) {
	b.t.Helper()
	setOption(b.t, c, tos(false, 0), class)
	for sent := 0; sent < n; {
		switch err := send(c, "forged"); {
		case err == nil:
			sent++
		case !strings.Contains(err.Error(), "refused"): // one before it, by the path's own address
			b.t.Fatal(err)
		}
	}
}

// bound is a datagram socket of a pod.
func (b *bed) bound(pod int, at, to string) *net.UDPConn {
	b.t.Helper()
	local, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		b.t.Fatal(err)
	}
	if to == "" {
		return b.receiver(pod, at)
	}
	conn, err := b.dial(pod, "udp", to, from(local))
	if err != nil {
		b.t.Fatal(err)
	}
	return conn.(*net.UDPConn)
}

// TestHostileTunnel: where packets are encapsulated, a plain UDP socket on the port has
// nothing delivered that it wraps by itself, to known flows and others, whatever tag it
// invents. Fails if sealed looks at less than the whole tag.
func TestHostileTunnel(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.encap = true
	b.strangers()
	b.open(1)
	b.open(2)
	b.serve(2, "tcp", "10.90.2.2:7001")
	b.receiver(2, "10.90.2.2:7002")
	conn, back := b.duplex("udp", 7003)
	b.move(1, 2)
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	near, far := ports(conn)
	before, was := b.taken(2), b.standing(2)
	stray := b.bound(1, "10.92.1.2:52170", "10.92.2.2:52170")
	spoof := b.gun(neighbour, "net2", 1, 2, true)
	inner := [][]byte{}
	for _, c := range []struct {
		proto        byte
		sport, dport uint16
		flags        byte
	}{{6, 1, 7001, 2}, {6, 40000, 7001, 16}, {17, 53, 7002, 0}, {17, near, far, 0}, {17, near, 7002, 0}, {1, 9, 9, 0}} {
		inner = append(inner,
			ip4("10.90.1.2", "10.90.2.2", 0, 1, 0x4000, c.proto,
				l4(c.proto, "10.90.1.2", "10.90.2.2", c.sport, c.dport, c.flags, "inside")))
	}
	for _, p := range inner {
		right := tagOf(keyOf(2), binary.BigEndian.Uint16(p[20:]), binary.BigEndian.Uint16(p[22:]), p[9], sayData, true)
		for i := range 600 {
			tag := uint64(i) * 0x9E3779B97F4A7C15 // zero first
			if i >= 64 {
				tag = right&0xffff | tag<<16 // as much as is known of translated packets
			} else if i > 0 {
				tag = right ^ 1<<i
			}
			shim := binary.LittleEndian.AppendUint64([]byte{'P', 'w', 2, 0}, tag)
			wrapped := slices.Concat(shim, p)
			if err := send(stray, string(wrapped)); err != nil {
				t.Fatal(err)
			}
			outer := l4(17, "10.92.1.2", "10.92.2.2", 52170, 52170, 0, string(wrapped))
			spoof.fire(t, ip4("10.92.1.2", "10.92.2.2", 0, 1, 0x4000, 17, outer))
			spoof.fire(t, ip4("10.92.1.2", "10.92.2.2", 0, uint16(tag), 0x4000, unix.IPPROTO_IPIP, p))
			for _, f := range cut(ip4("10.92.1.2", "10.92.2.2", 0, uint16(i), 0, 17, outer), 40, 0)[:1] {
				spoof.fire(t, f)
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	if now := b.taken(2); now != before {
		t.Errorf("the stack took %d packets", now-before)
	}
	b.unmoved("wrapped packets", 2, was)
	if e := b.planes[2].Events(); e.Forged == 0 {
		t.Errorf("%+v", e)
	}
}
