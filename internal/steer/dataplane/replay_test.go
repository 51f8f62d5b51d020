package dataplane

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// tap takes the IPv4 packets that come to a pod's interface from an address.
func (b *bed) tap(pod int, dev, from string) func() [][]byte {
	b.t.Helper()
	fd := -1
	if err := netns.Do(b.pods[pod], func() (err error) {
		// ETH_P_ALL, in network order: before our programs
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0x0300)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: b.index(pod, dev)}); err != nil {
		b.t.Fatal(err)
	}
	src := netip.MustParseAddr(from).As4()
	return func() (out [][]byte) {
		buf := make([]byte, 65536)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil {
				return out
			}
			if n >= 28 && [4]byte(buf[12:]) == src {
				out = append(out, append([]byte{}, buf[:n]...))
			}
		}
	}
}

// TestReplays: genuine packets of a TCP and a UDP flow, captured on a path and played by a
// neighbour on another network, as they are and with that network's addresses, are refused;
// played where they were captured they move nothing. Fails if keys are not bound to the
// network.
func TestReplays(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.strangers()
	b.open(1)
	b.open(2)
	stream, streamBack := b.duplex("tcp", 7001)
	conn, back := b.duplex("udp", 7002)
	b.move(1, 2)
	tap := b.tap(2, "net2", "10.92.1.2")
	all := func() error {
		return errors.Join(say(stream, streamBack), say(streamBack, stream), say(conn, back), say(back, conn))
	}
	if err := all(); err != nil {
		t.Fatal(err)
	}
	captured := tap()
	if len(captured) < 2 {
		t.Fatalf("%d packets captured", len(captured))
	}
	// Meanwhile the flows have gone on, and elsewhere.
	b.move(1, 1)
	if err := all(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // acknowledgments that were delayed
	one, two, taken := b.standing(1), b.standing(2), b.taken(2)
	there, same := b.gun(neighbour, "net1", neighbour, 2, false), b.gun(neighbour, "net2", 1, 2, true)
	for range 100 {
		for _, p := range captured {
			sport, dport := binary.BigEndian.Uint16(p[20:]), binary.BigEndian.Uint16(p[22:])
			there.fire(t, p)
			// no accident
			if id := binary.BigEndian.Uint16(p[4:]); id-uint16(tagOf(keyOf(1), sport, dport, p[9], sayData, true)) >= 128 {
				there.fire(t, ip4("10.91.0.1", "10.91.0.2", p[1], id, 0x4000, p[9], p[20:]))
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	if now := b.taken(2); now != taken {
		t.Errorf("played on another network, the stack took %d packets", now-taken)
	}
	for range 100 {
		for _, p := range captured {
			same.fire(t, p)
		}
	}
	time.Sleep(50 * time.Millisecond)
	b.unmoved("replays", 1, one)
	b.unmoved("replays", 2, two)
	if e := b.planes[2].Events(); e.Strangers == 0 || e.Forged == 0 {
		t.Errorf("%+v", e)
	}
	if err := say(stream, streamBack); err != nil {
		t.Errorf("TCP after the replays: %v", err)
	}
	for range 100 * len(captured) { // the copies of datagrams that were played on the same network
		if _, err := receive(back, 20*time.Millisecond); err != nil {
			break
		}
	}
	if err := all(); err != nil {
		t.Errorf("after the replays: %v", err)
	}
}

// TestReplayOfAForgottenFlow: packets of flows that have ended are answered by notes to the
// peer, as many as are allowed and no more, which change nothing. Fails without NOTES.
func TestReplayOfAForgottenFlow(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	two := b.open(2)
	conn, back := b.duplex("udp", 7002)
	b.move(1, 2)
	tap := b.tap(2, "net2", "10.92.1.2")
	if err := errors.Join(say(conn, back), say(back, conn)); err != nil {
		t.Fatal(err)
	}
	captured := tap()
	near, far := ports(conn)
	b.forget(1, near, far, 17)
	b.forget(2, far, near, 17)
	if len(captured) == 0 {
		t.Fatal("nothing was captured")
	}
	notes := b.tap(1, "eth0", "10.90.2.2")
	one, before, taken := b.standing(1), b.standing(2), b.taken(1)+b.taken(2)
	g := b.gun(neighbour, "net2", 1, 2, true)
	for range 5000 {
		g.fire(t, captured[0])
	}
	time.Sleep(50 * time.Millisecond)
	if n := len(notes()); n == 0 || n > 3*256 { // some four seconds at a time
		t.Errorf("%d notes for 5000 packets", n)
	}
	b.unmoved("replays", 1, one)
	b.unmoved("replays", 2, before)
	if now := b.taken(1) + b.taken(2); now != taken {
		t.Errorf("%d packets were delivered", now-taken)
	}
	if e := two.Events(); e.Unadmitted < 4000 {
		t.Errorf("%+v", e)
	}
}

// TestReplayOfABeginning: the packet by which a connection began on a path, while both ends let connections begin
// there, is played by a neighbour. On another network it is refused. Where it was captured it opens no connection, as
// the pod that is answered knows of none, and others go on beginning; once none may begin there, it gets nowhere.
func TestReplayOfABeginning(t *testing.T) {
	b := newBed(t)
	b.strangers()
	b.open(1)
	two := b.open(2)
	b.move(1, 2)
	b.carry(false)
	b.begin(1, Elsewhere)
	b.begin(2, Elsewhere)
	tap := b.tap(2, "net2", "10.92.1.2")
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "begun elsewhere"); err != nil {
		t.Fatal(err)
	}
	const syn, ack, flags = 0x02, 0x10, 20 + 13
	var begins []byte
	for _, p := range tap() {
		if p[9] == 6 && p[flags]&(syn|ack) == syn {
			begins = p
		}
	}
	if begins == nil {
		t.Fatal("no packet that begins a connection was captured")
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // the rest of the connection
	opened := func() uint64 { return b.snmp(2)["Tcp:PassiveOpens"] }
	before, taken := opened(), b.taken(2)
	there, same := b.gun(neighbour, "net1", neighbour, 2, false), b.gun(neighbour, "net2", 1, 2, true)
	play := func(g *gun, p []byte) {
		for range 100 {
			g.fire(t, p)
		}
		time.Sleep(100 * time.Millisecond)
	}
	id := binary.BigEndian.Uint16(begins[4:])
	play(there, begins)
	play(there, ip4("10.91.0.1", "10.91.0.2", begins[1], id, 0x4000, begins[9], begins[20:]))
	if now := b.taken(2); now != taken {
		t.Errorf("played on another network, the stack took %d packets", now-taken)
	}
	play(same, begins)
	t.Logf("played where it was captured, the stack took %d packets", b.taken(2)-taken)
	if now := opened(); now != before {
		t.Errorf("%d connections have begun that nobody has opened", now-before)
	}
	again, err := b.dial(1, "tcp", "10.90.2.2:7001")
	if err == nil {
		err = exchange(again, "begun after the replays")
	}
	if err != nil || opened() != before+1 {
		t.Errorf("another connection: %v, %d have begun", err, opened()-before)
	}
	b.begin(1, AtHome)
	b.begin(2, AtHome)
	taken, refused := b.taken(2), two.Events()
	play(same, begins)
	if now := b.taken(2); now != taken {
		t.Errorf("where none may begin, the stack took %d packets", now-taken)
	}
	if now := two.Events(); now == refused {
		t.Errorf("what is refused is not counted: %+v", now)
	}
}
