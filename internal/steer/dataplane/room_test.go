package dataplane

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// flood opens UDP flows of pod 1 to an echo server of pod 2, and takes the answers.
func (b *bed) flood(to string, from, n, questions int, each func(i int)) {
	b.t.Helper()
	addr, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := netns.Do(b.pods[1], func() error {
		buf := make([]byte, 16)
		for i := range n {
			c, err := net.DialUDP("udp", &net.UDPAddr{Port: from + i}, addr)
			if err != nil {
				return err
			}
			for range questions {
				_, err = c.Write([]byte("x"))
				if err == nil {
					err = c.SetReadDeadline(time.Now().Add(time.Second))
				}
				if err == nil {
					_, _ = c.Read(buf) // an answer or none, it is a flow
				}
			}
			if err := errors.Join(err, c.Close()); err != nil {
				return err
			}
			each(i)
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

// brief has pod 1 connect and close at once, by RST or FIN.
func (b *bed) brief(addr string, reset bool) {
	b.t.Helper()
	c, err := b.dial(1, "tcp", addr)
	if err != nil {
		b.t.Fatal(err)
	}
	if reset {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	c.Close()
}

// TestFlowsOutliveOthers: with room for 1,024 flows, an idle TCP and an idle UDP flow that
// are steered outlive 20,000 answered UDP flows and 5,000 short TCP connections of the same
// peer, and are steered still; the others end, with FIN or RST in seconds. Fails with a
// table that drives out the oldest, or without the peer's bound.
func TestFlowsOutliveOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.flowsOf = 1024
	b.open(1)
	two := b.open(2)
	stream, streamBack := b.duplex("tcp", 7001)
	conn, back := b.duplex("udp", 7002)
	b.goOn(conn, back)
	b.move(1, 2)
	b.serve(2, "udp", "10.90.2.2:7003")
	b.serve(2, "tcp", "10.90.2.2:7004")
	began := time.Now()
	b.flood("10.90.2.2:7003", 10000, 20000, 2, func(i int) {
		if i%2000 == 1999 {
			b.sweep(1)
			b.sweep(2)
		}
	})
	for i := range 5000 {
		b.brief("10.90.2.2:7004", i%2 == 0)
		if i%1000 == 999 {
			b.sweep(1)
			b.sweep(2)
		}
	}
	if n := two.Events().Full; n < 20000 {
		t.Errorf("%d flows found no room after %v: what is tested here?", n, time.Since(began))
	}
	was := [2]uint64{b.steered(1), b.steered(2)}
	if err := errors.Join(say(stream, streamBack), say(streamBack, stream), say(conn, back), say(back, conn)); err != nil {
		t.Fatal(err)
	}
	if now := [2]uint64{b.steered(1), b.steered(2)}; now[0] < was[0]+2 || now[1] < was[1]+2 {
		t.Errorf("%d and %d packets were steered, expected two or more each", now[0]-was[0], now[1]-was[1])
	}
	for pod := 1; pod <= 2; pod++ {
		var c Census
		for end := time.Now().Add(10 * time.Second); c.Flows != 1 && time.Now().Before(end); {
			b.age(pod, keepUDP+time.Second) // again where the latest packet of a connection came meanwhile
			c = b.sweep(pod)
		}
		if c.Flows != 1 || c.Steerable != 1 {
			t.Errorf("pod %d: %+v, expected the one TCP flow that is open", pod, c)
		}
	}
	// What found no room is taken up now that there is some.
	if err := say(conn, back); err != nil {
		t.Fatal(err)
	}
	b.settle(conn, back)
	was[0] = b.steered(1)
	if err := say(conn, back); err != nil || b.steered(1) == was[0] {
		t.Errorf("there is room: %v, %d packets steered", err, b.steered(1)-was[0])
	}
}

// TestConnectionsEnd: entries of connections that have ended, by FIN or RST, go in seconds.
// Fails if closed is not noted by both directions and on paths.
func TestConnectionsEnd(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for path := range 3 {
		for _, reset := range []bool{false, true} {
			b.move(1, 0)
			c, back := b.duplex("tcp", 7001)
			b.move(1, path)
			if err := errors.Join(say(c, back), say(back, c)); err != nil {
				t.Fatal(err)
			}
			if reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
			time.Sleep(20 * time.Millisecond)
			back.Close()
			time.Sleep(20 * time.Millisecond)
			for pod := 1; pod <= 2; pod++ {
				if c := b.sweep(pod); c.Flows != 1 {
					t.Errorf("path %d, reset %v, pod %d, just closed: %+v", path, reset, pod, c)
				}
				b.age(pod, keepClosed+time.Second)
				if c := b.sweep(pod); c.Flows != 0 {
					t.Errorf("path %d, reset %v, pod %d: %+v", path, reset, pod, c)
				}
			}
		}
	}
}

// TestEndedMakeRoom: connections that have ended are kept for a while, and not where they take much of the room.
func TestEndedMakeRoom(t *testing.T) {
	b := newBed(t)
	b.flowsOf = 1024
	b.open(1)
	b.open(2)
	b.serve(2, "tcp", "10.90.2.2:7004")
	stays := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	for _, step := range []struct{ ends, kept int }{{100, 101}, {500, 1}} {
		for i := range step.ends {
			b.brief("10.90.2.2:7004", i%2 == 0)
		}
		time.Sleep(200 * time.Millisecond) // until the other end has closed the last ones, too
		for pod := 1; pod <= 2; pod++ {
			b.age(pod, keepCrowded+500*time.Millisecond)
			if c := b.sweep(pod); c.Flows != step.kept || b.planes[pod].Held() != step.kept {
				t.Errorf("pod %d, %d have ended: %+v, %d held; expected %d", pod, step.ends, c, b.planes[pod].Held(), step.kept)
			}
		}
	}
	if err := exchange(stays, "still"); err != nil {
		t.Error(err)
	}
}

// TestQuestionsMakeRoom: flows of one question and its answer, as resolvers have that take a port for each, end after
// half a minute, and sooner where they take much of the room; a flow that goes on stays.
func TestQuestionsMakeRoom(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.flowsOf = 1024
	b.open(1)
	b.open(2)
	conn, back := b.duplex("udp", 7002)
	b.goOn(conn, back)
	b.serve(2, "udp", "10.90.2.2:7003")
	for i, step := range []struct {
		age       time.Duration
		ask, kept int
	}{{0, 200, 201}, {keepOnce / 2, 10, 211}, {0, 100, 311}, {2 * time.Second, 0, 101}, {keepOnce / 2, 0, 101},
		{keepOnce / 2, 0, 1}} {
		b.flood("10.90.2.2:7003", 10000+1000*i, step.ask, 1, func(int) {})
		for pod := 1; pod <= 2; pod++ {
			b.age(pod, step.age)
			// One that was asked as the clock's step ended seems to go on.
			if c := b.sweep(pod); c.Flows < step.kept || c.Flows > step.kept+3 || b.planes[pod].Held() != c.Flows {
				t.Errorf("step %d, pod %d: %+v, %d held; expected %d", i, pod, c, b.planes[pod].Held(), step.kept)
			}
		}
	}
	b.move(1, 2)
	was := b.steered(1)
	if err := errors.Join(say(conn, back), say(back, conn)); err != nil || b.steered(1) == was {
		t.Errorf("a flow that goes on: %v, %d packets steered", err, b.steered(1)-was)
	}
}

// goOn has a flow of datagrams go on for a second.
func (b *bed) goOn(conn, back net.Conn) {
	b.t.Helper()
	for range 5 {
		b.settle(conn, back)
		time.Sleep(200 * time.Millisecond)
	}
}

// TestPeersShareTheRoom: a peer whose datagrams have taken all they may have leaves room for connections with it, and
// for another peer. Fails without flows_per_peer.
func TestPeersShareTheRoom(t *testing.T) {
	p := benchPlane(t, 2)
	greedy, modest := benchPeer(0), benchPeer(1)
	p.RenewLease()
	for i := range DefaultFlows {
		packet := udp(greedy.Pairs[0].Local, greedy.Pairs[0].Remote, 0, uint16(1+i%60000), uint16(1+i/60000))
		if got := verdict(t, p, p.objs.PwEgress, packet); got != verdictNext {
			t.Fatalf("flow %d: verdict %d", i, int32(got))
		}
		if p.Events().Full > 0 {
			break
		}
		if i%1000 == 999 {
			p.tend(t)
		}
	}
	have := map[uint32]int{}
	for k := range p.flows(t) {
		have[k.Peer]++
	}
	if n := have[p.ids[greedy.UID]]; p.Events().Full == 0 || n > DefaultFlows*3/8 {
		t.Errorf("one peer has %d of %d for datagrams, full %d times", n, DefaultFlows, p.Events().Full)
	}
	full, syn := p.Events().Full, tcp(greedy.Pairs[0].Local, greedy.Pairs[0].Remote, 0)
	syn[14+20+13] = 2
	verdict(t, p, p.objs.PwEgress, syn)
	if e := p.Events(); e.Full != full || len(p.flows(t)) != have[p.ids[greedy.UID]]+1 {
		t.Errorf("a connection with it has no room: %+v", e)
	}
	verdict(t, p, p.objs.PwEgress, udp(modest.Pairs[0].Local, modest.Pairs[0].Remote, 0, 7000, 7001))
	for k, v := range p.flows(t) {
		if k.Peer == p.ids[modest.UID] && v.Role == roleOwnerNew {
			return
		}
	}
	t.Errorf("the other peer has no flow: %+v", p.Events())
}

// tend sweeps a plane that is no bed's.
func (p *Plane) tend(t testing.TB) {
	t.Helper()
	f, err := p.Flows()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := f.Sweep()
	if err != nil {
		t.Fatal(err)
	}
	p.SetFlowCounts(c)
}

// TestPortsTakenMeanwhile: a flow that has ended stays where another one takes its ports as a sweep is under way.
func TestPortsTakenMeanwhile(t *testing.T) {
	b := newBed(t)
	p := b.open(1)
	f, err := p.Flows()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := p.tableOf(t)
	defer table.Close()
	put := func(remote uint16, v bpfFlowState) { p.putState(t, "pod-2", 7000, remote, unix.IPPROTO_TCP, v) }
	ended := bpfFlowState{Role: roleFollow, Closed: closedIn | closedOut, Seen: seenNow() - uint32(2*keepClosed/seenUnit)}
	put(7001, ended)
	put(7002, ended)
	c, gone, err := f.list(table)
	if err != nil || c.Flows != 0 || len(gone) != 2 {
		t.Fatalf("%d flows, %d have ended, %v; expected 0 and 2", c.Flows, len(gone), err)
	}
	put(7002, bpfFlowState{Role: roleFollowNew, Seen: seenNow()})
	if err := c.takeOut(table, gone); err != nil {
		t.Fatal(err)
	}
	if left := p.flows(t); len(left) != 1 || c.Flows != 1 || c.held[p.ids["pod-2"]] != 1 {
		t.Errorf("%d are left, %d counted: expected the one that has begun meanwhile", len(left), c.Flows)
	}
}

// TestRoomGrowsUnderTraffic: the table grows from 4,096 twice while a stream and a dialogue
// of datagrams are steered: nothing is lost, nobody goes home. Fails if flows are not found
// in both tables meanwhile.
func TestRoomGrowsUnderTraffic(t *testing.T) {
	b := newBedMTU(t, [3]int{1400, 1450, 1440})
	b.open(1)
	b.open(2)
	s := b.bulk("10.90.2.2:7001", 25e6, false)
	if err := s.more(1e6); err != nil {
		t.Fatal(err)
	}
	conn, back := b.duplex("udp", 7002)
	b.serve(2, "udp", "10.90.2.2:7003")
	b.move(1, 2)
	end, done := make(chan struct{}), make(chan error, 1)
	said := 0
	go func() {
		for {
			select {
			case <-end:
				done <- nil
				return
			default:
			}
			if err := errors.Join(say(conn, back), say(back, conn)); err != nil {
				done <- fmt.Errorf("dialogue, exchange %d: %w", said, err)
				return
			}
			said++
		}
	}()
	rooms := map[int]bool{}
	var full [3]uint64
	s.longest()
	b.flood("10.90.2.2:7003", 10000, 12000, 2, func(i int) {
		if i%500 == 499 {
			rooms[b.sweep(1).Room], rooms[b.sweep(2).Room] = true, true
		}
	})
	for pod := 1; pod <= 2; pod++ {
		full[pod] = b.planes[pod].Events().Full
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	gap := s.longest()
	if err := s.more(1e6); err != nil {
		t.Error(err)
	}
	e := b.planes[2].Events()
	if !rooms[16384] || !rooms[65536] || full[1]+full[2] != 0 || e.Unadmitted != 0 {
		t.Errorf("rooms %v, full %v, %+v, longest gap %v", rooms, full[1:], e, gap)
	}
	t.Logf("rooms %v; %d exchanges; longest gap of the stream %v", rooms, said, gap)
}
