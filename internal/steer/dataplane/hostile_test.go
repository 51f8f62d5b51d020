package dataplane

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// segment adds a namespace that is no pod to network 1's bridge, with all capabilities
// there, and returns its number. Its address is 10.91.0.3.
func (b *bed) segment() int {
	b.t.Helper()
	ns := b.prefix + "-s"
	if err := netns.Create(ns); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := netns.Delete(ns); err != nil {
			b.t.Error(err)
		}
	})
	b.pods = append(b.pods, ns)
	n := len(b.pods) - 1
	b.run(n, "ip", "link", "add", "net1", "type", "veth", "peer", "name", "p3n1", "netns", b.pods[0])
	b.run(0, "ip", "link", "set", "p3n1", "master", "br1", "up")
	b.run(n, "ip", "link", "set", "net1", "up")
	b.run(n, "ip", "addr", "add", "10.91.0.3/24", "dev", "net1")
	b.run(n, "ping", "-q", "-c1", "-W2", "10.91.0.2")
	return n
}

// raw returns a function that sends IPv4 packets of any kind from a namespace.
func (b *bed) raw(pod int) func(ip []byte) {
	b.t.Helper()
	var fd int
	if err := netns.Do(b.pods[pod], func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = unix.Close(fd) })
	return func(ip []byte) {
		for {
			err := unix.Sendto(fd, ip, 0, &unix.SockaddrInet4{Addr: [4]byte(ip[16:20])})
			if err == nil {
				return
			} else if err != unix.ENOBUFS && err != unix.EAGAIN {
				b.t.Fatalf("send: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// datagram is a UDP datagram over IPv4 with the mark and an identification.
func datagram(from, to netip.AddrPort, id uint16, payload string) []byte {
	p := make([]byte, 28+len(payload))
	p[0], p[1], p[6], p[8], p[9] = 0x45, markTOS, 0x40, 64, 17
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	binary.BigEndian.PutUint16(p[4:], id)
	copy(p[12:], from.Addr().AsSlice())
	copy(p[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(p[20:], from.Port())
	binary.BigEndian.PutUint16(p[22:], to.Port())
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload)))
	copy(p[28:], payload)
	return p // without a checksum of its own, which IPv4 allows
}

// flagged is a TCP segment over IPv4, likewise.
func flagged(from, to netip.AddrPort, id uint16, flags byte) []byte {
	p := make([]byte, 40)
	p[0], p[1], p[6], p[8], p[9] = 0x45, markTOS, 0x40, 64, 6
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	binary.BigEndian.PutUint16(p[4:], id)
	copy(p[12:], from.Addr().AsSlice())
	copy(p[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(p[20:], from.Port())
	binary.BigEndian.PutUint16(p[22:], to.Port())
	binary.BigEndian.PutUint32(p[24:], 1<<30)
	p[32], p[33] = 5<<4, flags
	binary.BigEndian.PutUint16(p[34:], 65535)
	sum := make([]byte, 12, 32)
	copy(sum, p[12:20])
	sum[9], sum[11] = 6, 20
	binary.BigEndian.PutUint16(p[36:], ^sum16(append(sum, p[20:]...)))
	return p
}

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// TestHostileHandshakes: a pod that may send raw packets, and is a party of the pair,
// opens nothing over a path: whole or in fragments, with the tag of the flow or without.
// Fails if pw_path_ingress delivers what no entry admits, or fragments.
func TestHostileHandshakes(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }",
		`add rule inet t f iifname "p1n0" th dport 7001 drop`)
	b.serve(2, "tcp", "10.90.2.2:7001")
	wild := b.receiver(2, "0.0.0.0:7001")
	b.move(1, 1)
	send := b.raw(1)
	b.run(1, "ping", "-q", "-c1", "-W2", "10.91.0.2") // packets that wait for a neighbour are few
	from, to := at("10.91.0.1:7005"), at("10.91.0.2:7001")
	right := uint16(tagOf(keyOf(1), 7005, 7001, 6, sayData, true))
	for _, id := range []uint16{right, right + 1, 0, 1} {
		for _, flags := range []byte{0x02, 0x12, 0x10, 0x18, 0x01, 0x04, 0x03, 0x42, 0xc2} {
			send(flagged(from, to, id, flags))
			whole := flagged(from, to, id, flags)
			for _, cut := range []int{8, 16} { // of the TCP header
				first, rest := append([]byte{}, whole[:20+cut]...), append(append([]byte{}, whole[:20]...), whole[20+cut:]...)
				for _, part := range [][]byte{first, rest} {
					binary.BigEndian.PutUint16(part[2:], uint16(len(part)))
				}
				binary.BigEndian.PutUint16(first[6:], 0x2000)
				binary.BigEndian.PutUint16(rest[6:], uint16(cut/8))
				send(first)
				send(rest)
			}
		}
		tag := uint16(tagOf(keyOf(1), 7005, 7001, 17, sayData, true)) - right + id
		send(datagram(from, to, tag, "not admitted"))
		half := datagram(from, to, tag, strings.Repeat("x", 32))
		second := append(append([]byte{}, half[:20]...), half[36:]...)
		half = half[:36]
		binary.BigEndian.PutUint16(half[2:], uint16(len(half)))
		binary.BigEndian.PutUint16(half[6:], 0x2000)
		binary.BigEndian.PutUint16(second[2:], uint16(len(second)))
		binary.BigEndian.PutUint16(second[6:], 2)
		send(half)
		send(second)
	}
	if msg, err := receive(wild, 300*time.Millisecond); err == nil {
		t.Errorf("a datagram that the default network had not admitted was delivered: %q", msg)
	}
	if sockets := b.run(2, "ss", "-Htn", "sport", "=", ":7001"); sockets != "" {
		t.Errorf("a connection was opened: %s", sockets)
	}
	if e := two.Events(); e.Strangers == 0 || e.Unadmitted == 0 || e.Forged == 0 {
		t.Errorf("not everything was counted: %+v", e)
	}
}

// TestHostileOwnAddress: an unprivileged process of the pair's own pod uses the pod's
// address on a path, with every traffic class: what it sends is its own, or dropped, and
// never the stable address's, also where its ports are those of a steered flow. So with a
// plain socket on the port of encapsulated packets. Fails without the tag.
func TestHostileOwnAddress(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.encap = true
	b.open(1)
	two := b.open(2)
	server := b.receiver(2, "10.90.2.2:7001")
	conn, err := b.dial(1, "udp", "10.90.2.2:7001", from(&net.UDPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7003}))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // steered now
		if err := send(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		_, peer, err := server.ReadFrom(buf)
		if err == nil {
			_, err = server.WriteTo([]byte("well"), peer)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receive(conn, time.Second); err != nil {
			t.Fatal(err)
		}
		b.move(1, 1)
	}
	for _, port := range []int{7003, 7004} {
		evil, err := b.dial(1, "udp", "10.91.0.2:7001", from(&net.UDPAddr{IP: net.IPv4(10, 91, 0, 1), Port: port}))
		if err != nil {
			t.Fatal(err)
		}
		for class := range 256 {
			setOption(t, evil, tos(false, 0), class)
			_ = send(evil, "evil") // the kernel may tell that nobody listens there
		}
		evil.Close()
	}
	tunnel, err := b.dial(1, "udp", "10.92.2.2:52170", from(&net.UDPAddr{IP: net.IPv4(10, 92, 1, 2), Port: 52170}))
	if err != nil {
		t.Fatal(err)
	}
	for _, ports := range [][2]uint16{{7003, 7001}, {7004, 7001}} {
		inner := datagram(netip.AddrPortFrom(stable(1).Local, ports[0]), netip.AddrPortFrom(stable(1).Remote, ports[1]),
			0, "evil")
		for n := range 64 {
			shim := []byte{0x50, 0x77, 2, 0, byte(n), 0, 0, 0, 0, 0, 0, 0}
			if err := send(tunnel, string(shim)+string(inner)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if msg, err := receive(server, 300*time.Millisecond); err == nil {
		t.Errorf("delivered to the stable address: %q", msg)
	}
	if e := two.Events(); e.Forged < 64 {
		t.Errorf("not everything was counted: %+v", e)
	}
}

// TestHostileSegment: a namespace on a path's segment that is no pod, with all
// capabilities, knows the ports of a steered TCP and a steered UDP flow and the pair's
// addresses, but not what passes between them. It tries all identifications. Nothing
// moves, no connection ends, the path's silence is not hidden; of the datagrams as many
// get through as there are identifications of one packet's segments. Fails if the tag is
// not looked at, or marks move flows.
func TestHostileSegment(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	s := b.segment()
	tcp := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001", from(&net.TCPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7003}))
	udp := b.echo("udp", "10.90.2.2:7002", "10.90.2.2:7002", from(&net.UDPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7004}))
	both := func(what string) {
		t.Helper()
		for _, c := range []net.Conn{tcp, udp} {
			if err := exchange(c, what); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	for range 3 {
		both("hello")
		b.move(1, 2)
	}
	own, followed := b.rows()
	_, before, err := two.Tallies("pod-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	parts := two.flows(t)
	raw := b.raw(s)
	for id := range 1 << 16 {
		raw(datagram(at("10.91.0.1:7004"), at("10.91.0.2:7002"), uint16(id), "evil"))
		raw(flagged(at("10.91.0.1:7003"), at("10.91.0.2:7001"), uint16(id), 0x04)) // RST
	}
	for port := range uint16(2000) { // all buckets
		raw(datagram(netip.AddrPortFrom(netip.MustParseAddr("10.91.0.1"), 20000+port), at("10.91.0.2:7002"), uint16(port*31),
			"evil"))
	}
	if own2, followed2 := b.rows(); own2 != own || followed2 != followed {
		t.Errorf("flows have moved: %v %v", own2[0], followed2[0])
	}
	for k, v := range two.flows(t) {
		if was, ok := parts[k]; !ok || was.Role != v.Role {
			t.Errorf("flow %+v is %+v, was %+v", k, v, was)
		}
	}
	_, after, err := two.Tallies("pod-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	// Of UDP and TCP 128 each may be taken for segments of one packet.
	if n := after.Packets - before.Packets; n > 256 {
		t.Errorf("%d of 131,072 guesses got through, expected 256 at most", n)
	}
	t.Logf("of 131,072 guesses %d got through; %+v", after.Packets-before.Packets, two.Events())
	drain(udp)
	both("still here")
	if s, _ := b.crossed(1, 2); s == 0 {
		t.Error("the flows are not on their path")
	}
}

// drain reads what waits: the answers to what got through.
func drain(c net.Conn) {
	for {
		if _, err := receive(c, 100*time.Millisecond); err != nil {
			return
		}
	}
}

// rows is where pod 1's flows are, at both ends.
func (b *bed) rows() (own, followed [Buckets]Choice) {
	b.t.Helper()
	own, err := b.planes[1].Choices("pod-2")
	if err != nil {
		b.t.Fatal(err)
	}
	if followed, err = b.planes[2].Followed("pod-1"); err != nil {
		b.t.Fatal(err)
	}
	return own, followed
}

// TestHostileErrors: ICMP errors about a steered flow are translated only if they quote
// a packet that was sent: who guesses neither ends it nor shrinks the path. Fails if the
// quote's tag is not looked at.
func TestHostileErrors(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	s := b.segment()
	conn := b.echo("udp", "10.90.2.2:7002", "10.90.2.2:7002", from(&net.UDPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7004}))
	for range 3 {
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		b.move(1, 1)
	}
	raw := b.raw(s)
	b.run(s, "ping", "-q", "-c1", "-W2", "10.91.0.1")
	right := uint16(tagOf(keyOf(1), 7004, 7002, 17, sayData, true))
	for id := range uint16(4000) {
		quote := datagram(at("10.91.0.1:7004"), at("10.91.0.2:7002"), right-1-id, "hello")
		for _, kind := range [][2]byte{{3, 3}, {3, 4}, {3, 1}} {
			icmp := append([]byte{kind[0], kind[1], 0, 0, 0, 0, 2, 88}, quote...)
			binary.BigEndian.PutUint16(icmp[2:], ^sum16(icmp[:len(icmp)&^1]))
			ip := datagram(at("10.91.0.2:0"), at("10.91.0.1:0"), 0, "")[:20]
			ip[1], ip[9] = 0, 1
			binary.BigEndian.PutUint16(ip[2:], uint16(20+len(icmp)))
			raw(append(ip, icmp...))
		}
	}
	for range 3 {
		if err := exchange(conn, "still here"); err != nil {
			t.Fatalf("a forged error reached the socket: %v", err)
		}
	}
	if route := b.run(1, "ip", "route", "get", "10.90.2.2"); strings.Contains(route, "mtu") {
		t.Errorf("a forged error has shrunk the path: %s", route)
	}
	if e := b.planes[1].Events(); e.ICMP != 0 || e.Forged == 0 {
		t.Errorf("%+v", e)
	}
}

// TestHostileReplay: what was captured on one network is nothing on another, and what is
// said on the default network without the tag changes no flow's part.
func TestHostileReplay(t *testing.T) {
	b := newBed(t)
	b.open(1)
	two := b.open(2)
	s := b.segment()
	conn := b.echo("udp", "10.90.2.2:7002", "10.90.2.2:7002", from(&net.UDPAddr{IP: net.IPv4(10, 90, 1, 2), Port: 7004}))
	for range 3 {
		if err := exchange(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		b.move(1, 2)
	}
	raw := b.raw(s)
	before := two.Events().Forged
	for _, network := range []int{0, 2} {
		for say := range uint8(5) {
			raw(datagram(at("10.91.0.1:7004"), at("10.91.0.2:7002"), uint16(tagOf(keyOf(network), 7004, 7002, 17, say, true)),
				"evil"))
			raw(datagram(at("10.91.0.1:7004"), at("10.91.0.2:7002"), uint16(tagOf(keyOf(1), 7004, 7002, 17, sayData, false)),
				"evil"))
		}
	}
	if n := two.Events().Forged - before; n != 20 {
		t.Errorf("%d of 20 were refused", n)
	}
	parts, router := two.flows(t), b.raw(0)
	for id := range uint16(2000) {
		for _, port := range []uint16{7004, 7005} {
			router(datagram(netip.AddrPortFrom(stable(1).Local, port), at("10.90.2.2:7009"), id*7, "evil"))
		}
		router(flagged(at("10.90.1.2:7004"), at("10.90.2.2:7009"), id*7, 0x02))
	}
	for k, v := range two.flows(t) {
		// The pod's stack may have answered: that is a flow of its own.
		if was := parts[k]; was.Role != v.Role && (v.Role != roleOwnerNew || k.Local != 7009) {
			t.Errorf("flow %+v is %+v, was %+v", k, v, was)
		}
	}
	if err := exchange(conn, "still here"); err != nil {
		t.Error(err)
	}
}

// TestFlowsOutlive: a steered flow outlives any number of others, whose peer takes no more
// than half of the room; they end, and there is room again. Fails with a table that drives
// out the oldest.
func TestFlowsOutlive(t *testing.T) {
	b := newBed(t)
	b.flowsOf = 8192
	b.open(1)
	b.open(2)
	tcp, udp := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001"), b.echo("udp", "10.90.2.2:7002", "10.90.2.2:7002")
	both := func(what string) {
		t.Helper()
		for _, c := range []net.Conn{tcp, udp} {
			if err := exchange(c, what); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	for range 3 {
		both("hello")
		b.move(1, 2)
	}
	b.receiver(2, "10.90.2.2:7003")
	raw := b.raw(1)
	for n := range 20000 {
		p := datagram(netip.AddrPortFrom(stable(1).Local, uint16(10000+n)), at("10.90.2.2:7003"), 0, "x")
		p[1] = 0
		raw(p)
	}
	for pod := 1; pod <= 2; pod++ {
		census := b.sweep(pod)
		t.Logf("pod %d: %+v, %d without room", pod, census, b.planes[pod].Events().Full)
		if full := b.planes[pod].Events().Full; census.Flows > 8192/2+2 || pod == 1 && full == 0 {
			t.Errorf("pod %d holds %d flows, expected half of the room at most", pod, census.Flows)
		}
	}
	before, _ := b.crossed(1, 2)
	both("still steered")
	if after, _ := b.crossed(1, 2); after < before+2 {
		t.Errorf("%d packets were steered, expected 2 or more", after-before)
	}
	// They end: as if half a minute had passed.
	b.age(1, keepOpening+time.Second)
	if census := b.sweep(1); census.Flows > 2 || census.Steerable != 1 { // UDP's ends after two minutes, TCP's lives
		t.Logf("after half a minute: %+v", census)
	}
	both("after the sweep")
}

// sweep is what an agent does every second.
func (b *bed) sweep(pod int) Census {
	b.t.Helper()
	f, err := b.planes[pod].Flows()
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	c, err := f.Sweep()
	if err != nil {
		b.t.Fatal(err)
	}
	b.planes[pod].SetFlowCounts(c)
	return c
}

// TestLearntAgain: a flow that one end has forgotten, or both, goes on and is steered
// again. Fails if role_out takes up only what begins.
func TestLearntAgain(t *testing.T) {
	t.Parallel()
	for _, forgets := range [][]int{{1}, {2}, {1, 2}} {
		t.Run(fmt.Sprint(forgets), func(t *testing.T) { learnAgain(t, forgets) })
	}
}

func learnAgain(t *testing.T, forgets []int) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for i, c := range []net.Conn{b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001"),
		b.echo("udp", "10.90.2.2:7002", "10.90.2.2:7002"),
		b.echo("tcp6", "[fd90:2::2]:7001", "[fd90:2::2]:7001")} {
		for range 3 {
			b.move(1, 0)
			if err := exchange(c, "hello"); err != nil {
				t.Fatal(err)
			}
		}
		for _, pod := range forgets {
			table := b.planes[pod].tableOf(t)
			for k := range b.planes[pod].flows(t) {
				if err := table.Delete(k); err != nil {
					t.Fatal(err)
				}
			}
			table.Close()
		}
		time.Sleep(20 * time.Millisecond) // a tick, in which the part is remembered
		for n := range 4 {
			if err := exchange(c, "after it was forgotten"); err != nil {
				t.Fatalf("flow %d, exchange %d: %v", i, n, err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		b.move(1, 2)
		before, got := b.crossed(1, 2)
		for range 3 {
			if err := exchange(c, "steered again"); err != nil {
				t.Fatal(err)
			}
		}
		if s, r := b.crossed(1, 2); s < before+3 || r < got+3 {
			t.Errorf("flow %d: %d packets were sent over the path and %d came, expected 3 or more", i, s-before, r-got)
		}
	}
}
