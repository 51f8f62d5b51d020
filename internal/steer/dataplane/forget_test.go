package dataplane

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// forget deletes a flow from a pod's table.
func (b *bed) forget(pod int, local, remote uint16, proto uint8) {
	b.t.Helper()
	p := b.planes[pod]
	uid := fmt.Sprintf("pod-%d", 3-pod)
	table := p.tableOf(b.t)
	defer table.Close()
	key := bpfFlow{Peer: p.ids[uid], Generation: generation(uid), Local: local, Remote: remote, Proto: proto}
	if err := table.Delete(key); err != nil {
		b.t.Fatalf("pod %d, flow %+v: %v", pod, key, err)
	}
}

// role is the part that a pod's table has of a flow.
func (b *bed) role(pod int, local, remote uint16, proto uint8) uint8 {
	b.t.Helper()
	p := b.planes[pod]
	uid := fmt.Sprintf("pod-%d", 3-pod)
	return p.flows(b.t)[bpfFlow{Peer: p.ids[uid], Generation: generation(uid), Local: local, Remote: remote,
		Proto: proto}].Role
}

// ports are those of a connection of pod 1: its own and pod 2's.
func ports(c net.Conn) (near, far uint16) {
	p := func(a net.Addr) uint16 {
		_, port, _ := net.SplitHostPort(a.String())
		var n uint16
		_, _ = fmt.Sscan(port, &n) // an address of ours
		return n
	}
	return p(c.LocalAddr()), p(c.RemoteAddr())
}

// lasting are flows that pod 1 has opened to pod 2, steered over path 2 in both directions.
func (b *bed) lasting(t testing.TB, networks ...string) map[string]net.Conn {
	t.Helper()
	out := map[string]net.Conn{}
	for i, network := range networks {
		at := fmt.Sprintf("10.90.2.2:%d", 7101+i)
		if strings.HasSuffix(network, "6") {
			at = fmt.Sprintf("[fd90:2::2]:%d", 7101+i)
		}
		out[network] = b.echo(network, at, at)
		for range 3 {
			if err := exchange(out[network], "hello"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.move(1, 2)
	for name, c := range out {
		b.onPath(t, name, c)
	}
	return out
}

// onPath is whether both directions of a flow are on path 2, as far as others are silent.
func (b *bed) onPath(t testing.TB, name string, c net.Conn) {
	t.Helper()
	one, _ := b.crossed(1, 2)
	two, _ := b.crossed(2, 2)
	if err := exchange(c, "on the path?"); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	after, _ := b.crossed(1, 2)
	back, _ := b.crossed(2, 2)
	if after == one || back == two {
		t.Errorf("%s: %d packets there and %d back by path 2, expected some", name, after-one, back-two)
	}
}

// TestForgottenFlows: a flow that one end has forgotten, or the other, or both, is learnt
// again and steered again; TCP does not wait for more than a retransmission, of UDP and
// ICMP some packets are lost. Fails without SAY_FORGOTTEN where the end that is spoken to
// has forgotten.
func TestForgottenFlows(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"translated", "encapsulated", "directly routed"} {
		t.Run(how, func(t *testing.T) {
			b := newBedMTU(t, [3]int{1400, 1450, 1440})
			b.encap = how == "encapsulated"
			b.open(1)
			b.open(2)
			networks := []string{"tcp", "udp", "tcp6", "udp6"}
			if b.encap {
				networks = networks[:2]
			}
			if how == "directly routed" {
				defer b.straight("net2")()
			}
			for _, ends := range [][]int{{1}, {2}, {1, 2}} {
				for _, first := range []int{1, 2} {
					b.forgotten(t, ends, first, networks)
				}
			}
			for pod := 1; pod <= 2; pod++ {
				if e := b.planes[pod].Events(); e.Errors != 0 || e.Strangers != 0 || e.Forged != 0 {
					t.Errorf("pod %d: %+v", pod, e)
				}
			}
		})
	}
}

// forgotten has those ends forget, and then the first speak first.
func (b *bed) forgotten(t *testing.T, ends []int, first int, networks []string) {
	b.move(1, 0)
	b.move(2, 2)
	for i, network := range networks {
		what := fmt.Sprintf("%s, forgotten by %v, pod %d speaks first", network, ends, first)
		b.move(1, 0)
		conn, back := b.duplex(network, 7201+i+10*first+100*ends[0]+1000*len(ends))
		b.move(1, 2)
		if err := say(conn, back); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		b.recalled(t, what, conn, back, ends, first)
		conn.Close()
		back.Close()
	}
}

// recalled has those ends forget a flow that is steered both ways, and then the first speak first.
func (b *bed) recalled(t *testing.T, what string, conn, back net.Conn, ends []int, first int) {
	near, far := ports(conn)
	proto := protoOf(conn.LocalAddr().Network())
	for _, pod := range ends {
		b.forget(pod, map[int]uint16{1: near, 2: far}[pod], map[int]uint16{1: far, 2: near}[pod], proto)
	}
	time.Sleep(20 * time.Millisecond) // the tick ends in which TCP's part is remembered
	from, to := conn, back
	if first == 2 {
		from, to = back, conn
	}
	began := time.Now()
	var err error
	for lost := 0; lost < 5; lost++ { // datagrams
		if err = say(from, to); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	t.Logf("%s: answered after %v", what, time.Since(began))
	for range 3 {
		err = errors.Join(err, say(to, from), say(from, to))
	}
	was := b.steered(1)*1000000 + b.steered(2)
	err = errors.Join(err, say(to, from), say(from, to))
	if now := b.steered(1)*1000000 + b.steered(2); err != nil || now/1000000 == was/1000000 ||
		now%1000000 == was%1000000 {
		t.Errorf("%s: it is steered no more: %v; roles %d and %d", what, err, b.role(1, near, far, proto),
			b.role(2, far, near, proto))
	}
}

// TestWordsAlike: a flow for which two words of one end have the same hash is steered, and again
// once that end has forgotten it. Fails if tags are the hashes: the peer takes FORGOTTEN for another
// word, and sends into nothing for as long as the flow lasts.
func TestWordsAlike(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(1)
	b.open(2)
	port := 7401
	for late := uint8(sayAnswer); late <= sayForgotten; late++ {
		for early := uint8(sayOpen); early < late; early++ {
			for speaker := 1; speaker <= 2; speaker++ {
				for _, network := range []string{"tcp", "udp"} {
					near, far := alikePorts(network, port+1, speaker, early, late, 0)
					port = far
					b.move(1, 0)
					conn, back := b.duplex(network, far, near)
					b.move(1, 2)
					b.move(2, 2)
					what := fmt.Sprintf("%s from %v, %d said by pod %d is like %d", network, conn.LocalAddr(), late, speaker, early)
					b.recalled(t, what, conn, back, []int{speaker}, 3-speaker)
					conn.Close()
					back.Close()
				}
			}
		}
	}
}

// TestSegmentsSayNothing: where the network cuts packets and a segment's identification is that of
// another word, no segment says it. Fails if such packets are tagged: of each that is one segment is dropped, and its
// flow forgotten.
func TestSegmentsSayNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.run(1, "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
	b.run(2, "ethtool", "-K", "eth0", "gro", "off")
	b.nft("add table inet t", "add chain inet t f { type filter hook forward priority 0; }")
	for _, say := range []uint8{sayOpen, saySettled} {
		from, far := alikePorts("tcp", 7501, 1, say, sayForgotten, 3)
		conn, back := b.duplex("tcp", far, from)
		near, _ := ports(conn)
		counter, other := fmt.Sprintf("said%d", say), uint16(hashOf(keyOf(0), near, uint16(far), 6, sayForgotten, true))
		b.nft("add counter inet t "+counter,
			fmt.Sprintf("add rule inet t f ip dscp 7 ip id %d counter name %s", other, counter))
		read := make(chan error, 1)
		go func() {
			_ = back.SetReadDeadline(time.Time{}) // say has set one
			_, err := io.Copy(io.Discard, back)
			read <- err
		}()
		for range 100 {
			if _, err := conn.Write(make([]byte, 32<<10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := b.count(counter); n != 0 {
			t.Errorf("said %d: %d segments say another word", say, n)
		}
		conn.Close()
		if err := <-read; err != nil {
			t.Error(err)
		}
		back.Close()
	}
}

// protoOf is the protocol of a network as package net names it.
func protoOf(network string) uint8 {
	if strings.HasPrefix(network, "tcp") {
		return 6
	}
	return 17
}

// alikePorts are a port of pod 1's and one of pod 2's, at least that, between which a flow has two words
// of the speaker's whose hashes are as far apart as that.
func alikePorts(network string, least, speaker int, early, late uint8, apart uint16) (near option, far int) {
	proto := protoOf(network)
	for far = least; ; far++ { // four of ten have none
		for port := uint16(10000); port < 65000; port++ {
			source, destination := port, uint16(far)
			if speaker == 2 {
				source, destination = destination, source
			}
			if uint16(hashOf(keyOf(0), source, destination, proto, early, speaker == 1))+apart !=
				uint16(hashOf(keyOf(0), source, destination, proto, late, speaker == 1)) {
				continue
			}
			ip := net.IPv4(10, 90, 1, 2)
			if network == "tcp" {
				return from(&net.TCPAddr{IP: ip, Port: int(port)}), far
			}
			return from(&net.UDPAddr{IP: ip, Port: int(port)}), far
		}
	}
}

// duplex is both ends of a flow that pod 1 has opened, known to the planes.
func (b *bed) duplex(network string, port int, opts ...option) (conn, back net.Conn) {
	b.t.Helper()
	at := fmt.Sprintf("10.90.2.2:%d", port)
	if strings.HasSuffix(network, "6") {
		at = fmt.Sprintf("[fd90:2::2]:%d", port)
	}
	if network[:3] == "udp" {
		server := b.receiver(2, at)
		conn, err := b.dial(1, network, at, opts...)
		if err == nil {
			err = send(conn, "hello")
		}
		if err != nil {
			b.t.Fatal(err)
		}
		buf := make([]byte, 100)
		_, from, err := server.ReadFrom(buf)
		if err != nil {
			b.t.Fatal(err)
		}
		return conn, b.settle(conn, &towards{server, from})
	}
	var ln net.Listener
	if err := netns.Do(b.pods[2], func() (err error) {
		ln, err = net.Listen(network, at)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	defer ln.Close()
	conn, err := b.dial(1, network, at, opts...)
	if err == nil {
		back, err = ln.Accept()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return conn, b.settle(conn, back)
}

// settle has both ends speak until the planes know the flow.
func (b *bed) settle(conn, back net.Conn) net.Conn {
	b.t.Helper()
	for range 3 {
		if err := errors.Join(say(back, conn), say(conn, back)); err != nil {
			b.t.Fatal(err)
		}
	}
	return back
}

// towards is a datagram socket's end of a flow.
type towards struct {
	*net.UDPConn
	to net.Addr
}

func (c *towards) Write(p []byte) (int, error) { return c.WriteTo(p, c.to) }

// say sends a message from one end and takes it at the other.
func say(from, to net.Conn) error {
	if err := send(from, "a word"); err != nil {
		return err
	}
	_, err := receive(to, time.Second)
	return err
}

// TestIdleFlowsAreOpenedAgain: the first datagram after a long silence is not lost to a peer that has forgotten the
// flow meanwhile, which it does sooner where the flow does not go on. Fails if a flow's age is not looked at.
func TestIdleFlowsAreOpenedAgain(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	b.move(2, 2)
	for goesOn, idle := range map[bool]time.Duration{true: keepUDP / 2, false: keepOnce / 2} {
		b.move(1, 0)
		conn, back := b.duplex("udp", 7301)
		if goesOn {
			b.goOn(conn, back)
		}
		b.move(1, 2)
		near, far := ports(conn)
		for first := 1; first <= 2; first++ {
			b.age(first, idle+2*time.Second)
			b.forget(3-first, map[int]uint16{1: near, 2: far}[3-first], map[int]uint16{1: far, 2: near}[3-first], 17)
			from, to := conn, back
			if first == 2 {
				from, to = back, conn
			}
			for i := range 6 {
				if err := errors.Join(say(from, to), say(to, from)); err != nil {
					t.Fatalf("goes on: %t, pod %d speaks first, exchange %d: %v", goesOn, first, i, err)
				}
			}
			was := b.steered(1)
			if err := say(conn, back); err != nil || b.steered(1) == was {
				t.Errorf("goes on: %t, pod %d spoke first: the flow is native: %v", goesOn, first, err)
			}
		}
		conn.Close()
		back.Close()
	}
}

// age makes what a pod's table has of flows as old as that.
func (b *bed) age(pod int, by time.Duration) {
	b.t.Helper()
	table := b.planes[pod].tableOf(b.t)
	defer table.Close()
	for k, v := range b.planes[pod].flows(b.t) {
		v.Seen -= uint32(by / seenUnit)
		if err := table.Put(k, v); err != nil {
			b.t.Fatal(err)
		}
	}
}
