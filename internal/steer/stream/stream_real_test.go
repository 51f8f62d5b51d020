package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const short = 400 * time.Millisecond

// TestKinds sends each kind of traffic over each family and compares what the
// two ends say.
func TestKinds(t *testing.T) {
	row(t)
	for family, addr := range map[string]string{"IPv4": serverV4, "IPv6": serverV6} {
		for name, c := range map[string]Client{
			"tcp":         {Kind: TCP, Connections: 2, Duration: short},
			"tcp reverse": {Kind: TCP, Connections: 2, Duration: short, Reverse: true},
			"tcp paced":   {Kind: TCP, Connections: 1, Duration: short, Rate: 50e6},
			"tcp odd":     {Kind: TCP, Connections: 1, Duration: short, Rate: 50e6, Size: 777, Reverse: true},
			"tcp mptcp":   {Kind: TCP, Connections: 2, Duration: short, MPTCP: true},
		} {
			t.Run(family+" "+name, func(t *testing.T) { testTCP(t, addr, c) })
		}
		t.Run(family+" rr", func(t *testing.T) {
			testRR(t, addr, Client{Kind: RR, Connections: 3, Duration: short, Requests: Sizes{1, 1}, Size: 1})
		})
		t.Run(family+" rr mptcp", func(t *testing.T) {
			testRR(t, addr, Client{Kind: RR, Connections: 2, Duration: short, Requests: Sizes{100, 100}, MPTCP: true})
		})
		t.Run(family+" inserts", func(t *testing.T) {
			testRR(t, addr, Client{Kind: RR, Connections: 2, Count: 500, Requests: Sizes{200, 1000},
				Think: 10 * time.Microsecond, Work: 5 * time.Microsecond})
		})
		t.Run(family+" udp", func(t *testing.T) {
			testUDP(t, addr, Client{Kind: UDP, Duration: short, Interval: 50 * time.Microsecond})
		})
		t.Run(family+" udp echo", func(t *testing.T) {
			testUDP(t, addr, Client{Kind: UDP, Duration: short, Interval: 200 * time.Microsecond, Echo: true, Size: 1000,
				Busy: true})
		})
		t.Run(family+" icmp", func(t *testing.T) { testICMP(t, addr) })
	}
}

func testTCP(t *testing.T, addr string, c Client) {
	client, server := pair(t, addr, c)
	a := client.end()
	b := server.end(os.Interrupt)
	sound(t, a, int64(c.Connections))
	sound(t, b, int64(c.Connections))
	if c.Reverse {
		a, b = b, a
	}
	sent, got := a.Counts.BytesSent, b.Counts.BytesReceived
	if sent == 0 || got != sent || a.Bins.Total() != sent || b.Bins.Total() != got {
		t.Errorf("%d sent (%d in bins), %d received (%d in bins)", sent, a.Bins.Total(), got, b.Bins.Total())
	}
	if c.Rate > 0 {
		// Catching up, the stream sends what the time was worth, whatever held it up.
		worth := float64(c.Rate) / 8 * (a.Ended - a.Started.Monotonic).Seconds()
		if c.Reverse { // the server's report spans more than the stream
			worth = float64(c.Rate) / 8 * (b.Ended - b.Started.Monotonic).Seconds()
		}
		if float64(sent) > 1.05*worth+float64(bulkSize) {
			t.Errorf("%d bytes where %.0f were due", sent, worth)
		}
	}
	if want := "2 of 2 connections"; c.MPTCP && (a.Details["mptcp"] != want || b.Details["mptcp"] != want) {
		t.Errorf("not MPTCP: %v, %v", a.Details, b.Details)
	}
	if !c.MPTCP && a.Details["mptcp"]+b.Details["mptcp"] != "" {
		t.Errorf("MPTCP unasked: %v, %v", a.Details, b.Details)
	}
}

func testRR(t *testing.T, addr string, c Client) {
	client, server := pair(t, addr, c)
	a := client.end()
	b := server.end(syscall.SIGTERM)
	sound(t, a, int64(c.Connections))
	sound(t, b, int64(c.Connections))
	n := a.Counts.Operations
	if n == 0 || b.Counts.Operations != n || a.Latency.Count() != n || a.Bins.Total() != n || b.Bins.Total() != n ||
		c.Count > 0 && n != c.Count {
		t.Errorf("%d operations, %d answered, %d timed", n, b.Counts.Operations, a.Latency.Count())
	}
	// A closed loop spends no more than all of its time waiting.
	if busy, whole := a.Latency.Mean()*float64(n), float64(c.Connections)*(a.Ended-a.Started.Monotonic).Seconds(); busy >
		1.01*whole {
		t.Errorf("%v s of service in %v s", busy, whole)
	}
}

func testUDP(t *testing.T, addr string, c Client) {
	client, server := pair(t, addr, c)
	a := client.end()
	b := server.end(os.Interrupt)
	sound(t, a, 0)
	sound(t, b, 0)
	sent, got := a.Counts.Datagrams, b.Counts.Datagrams
	if want := int64(c.Duration / c.Interval); sent.Sent != want || got.Expected != want || a.Lag.Count() != want {
		t.Errorf("%d sent, %d expected by the receiver, %d were due", sent.Sent, got.Expected, want)
	}
	if got.Received != got.Expected || got.Lost+got.Duplicated+got.Reordered+got.SocketDrops+got.Foreign != 0 ||
		b.Bins.Total() != got.Received {
		t.Errorf("%+v", got)
	}
	if b.Latency.Count() != got.Received || b.Spacing.Count() != got.Received-1 {
		t.Errorf("%d delays and %d spacings of %d", b.Latency.Count(), b.Spacing.Count(), got.Received)
	}
	if c.Echo && (sent.Received != sent.Sent || sent.Lost != 0 || got.Sent != got.Received ||
		a.Latency.Count() != sent.Sent) {
		t.Errorf("echoes: %+v, server %+v", sent, got)
	}
}

func testICMP(t *testing.T, addr string) {
	client, _ := pair(t, addr, Client{Kind: ICMP, Duration: short, Interval: time.Millisecond})
	a := client.end()
	sound(t, a, 0)
	d := a.Counts.Datagrams
	if d.Sent != int64(short/time.Millisecond) || d.Expected != d.Sent || d.Received != d.Sent ||
		d.Lost+d.Duplicated+d.Reordered != 0 || a.Latency.Count() != d.Sent {
		t.Errorf("%+v", d)
	}
}

// TestBlackHoleIsFound drops everything for some time; the gap that is found
// must hold that time, and be about as long.
func TestBlackHoleIsFound(t *testing.T) {
	row(t)
	const hole = 250 * time.Millisecond
	for _, tc := range []struct {
		name, addr string
		client     Client
		back       bool // what the server sends is dropped
		atServer   bool // the server's report has the gap
	}{
		{"tcp", serverV4, Client{Kind: TCP, Connections: 1}, false, true},
		{"tcp reverse", serverV4, Client{Kind: TCP, Connections: 1, Reverse: true, Rate: 100e6}, true, false},
		{"tcp v6", serverV6, Client{Kind: TCP, Connections: 2, Rate: 20e6}, false, true},
		{"rr", serverV4, Client{Kind: RR, Connections: 1, Requests: Sizes{64, 64}}, false, false},
		{"udp", serverV4, Client{Kind: UDP, Interval: 100 * time.Microsecond}, false, true},
		{"udp echo", serverV6, Client{Kind: UDP, Interval: 500 * time.Microsecond, Echo: true}, true, false},
		{"icmp", serverV4, Client{Kind: ICMP, Interval: time.Millisecond}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, server := pair(t, tc.addr, tc.client)
			clock, err := newClock()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
			target := netip.MustParseAddr(tc.addr)
			if tc.back {
				target = netip.MustParseAddr(map[string]string{serverV4: "10.99.1.2", serverV6: "fd99:1::2"}[tc.addr])
			}
			undo := blackHole(t, target)
			down := clock.now()
			time.Sleep(hole)
			up := clock.now()
			undo()
			time.Sleep(1500 * time.Millisecond) // TCP may sleep long before it tries again
			a := client.end(os.Interrupt)
			if server != nil {
				b := server.end(os.Interrupt)
				sound(t, b, int64(tc.client.Connections))
				if tc.atServer {
					a = b
				}
			}
			g, found := Stall(a, down, up)
			const slack = 50 * time.Millisecond // what was on its way may come after the hole was made
			if !found || g.From > down+slack || g.To < up || g.Open || g.Length() > hole+2*time.Second {
				t.Errorf("the hole from %v to %v appears as %+v: %v", down, up, g, a.Counts)
			}
			if rate := Throughput(a, down+slack, up-a.Bins.Width); rate != 0 {
				t.Errorf("%v per second through the hole", rate)
			}
			if after := Throughput(a, g.To, a.Ended); after == 0 {
				t.Error("nothing came after the hole")
			}
			if d := a.Counts.Datagrams; (tc.client.Kind == UDP || tc.client.Kind == ICMP) &&
				d.Lost < int64(hole/tc.client.Interval/2) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestStoppedSenderShows: a gap that the generator itself made is not the
// network's, and its lag says so.
func TestStoppedSenderShows(t *testing.T) {
	row(t)
	client, server := pair(t, serverV4, Client{Kind: UDP, Interval: time.Millisecond})
	time.Sleep(300 * time.Millisecond)
	clock, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // it has stopped by now
	from := clock.now()
	time.Sleep(200 * time.Millisecond)
	to := clock.now()
	if err := client.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	a := client.end(os.Interrupt)
	b := server.end(os.Interrupt)
	if g, found := Stall(b, from, to); !found || g.From > from || g.To < to {
		t.Errorf("stopped from %v to %v, found %+v", from, to, g)
	}
	if a.Lag.Max() < (to - from - 10*time.Millisecond).Seconds() {
		t.Errorf("lag at most %v s", a.Lag.Max())
	}
	if b.Counts.Datagrams.Lost != 0 || b.Counts.Datagrams.Expected != a.Counts.Datagrams.Sent {
		t.Errorf("%+v", b.Counts.Datagrams)
	}
}

// TestLostConnectionsAreCounted: a server that is killed takes its connections
// with it, and the clients end by themselves.
func TestLostConnectionsAreCounted(t *testing.T) {
	row(t)
	for name, c := range map[string]Client{
		"tcp":         {Kind: TCP, Connections: 2},
		"tcp reverse": {Kind: TCP, Connections: 2, Reverse: true, Rate: 10e6},
		"rr":          {Kind: RR, Connections: 2, Requests: Sizes{64, 64}},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, serverV4, c)
			time.Sleep(200 * time.Millisecond)
			if err := server.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r := client.end()
			if r.Counts.Connections != (Connections{Opened: 2, Lost: 2}) || len(r.Errors.Events) != 2 {
				t.Errorf("%+v, %+v", r.Counts, r.Errors)
			}
			for why := range r.Errors.Reasons {
				if !strings.Contains(why, "connection reset by peer") && !strings.Contains(why, "broken pipe") &&
					!strings.Contains(why, "closed by the other end") {
					t.Errorf("reason %q", why)
				}
			}
		})
	}
}

// TestEndsAreDistinguished: a client cannot tell a dead path from a slow end, and
// says that the connection is still open; so does the server.
func TestEndsAreDistinguished(t *testing.T) {
	row(t)
	client, server := pair(t, serverV4, Client{Kind: TCP, Connections: 1})
	time.Sleep(200 * time.Millisecond)
	undo := blackHole(t, netip.MustParseAddr(serverV4))
	time.Sleep(100 * time.Millisecond)
	a := client.end(syscall.SIGTERM)
	b := server.end(os.Interrupt)
	undo()
	want := Connections{Opened: 1, Open: 1}
	if a.Counts.Connections != want || b.Counts.Connections != want {
		t.Errorf("client %+v, server %+v", a.Counts.Connections, b.Counts.Connections)
	}
	if a.Counts.Retransmissions == 0 {
		t.Error("no retransmission is counted")
	}
	g, found := Stall(b, b.Ended-time.Millisecond, b.Ended)
	if !found || !g.Open {
		t.Errorf("the gap at the end is %+v", g)
	}
}

func TestCannotBegin(t *testing.T) {
	c := Client{Kind: TCP, Target: addrPort("127.0.0.1:1"), Connections: 1, Record: Record{ms, ms}}
	var b strings.Builder
	if err := Run(context.Background(), &b, c); err == nil || b.Len() > 0 ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, %q", err, b.String())
	}
	s := Server{Kind: UDP, Listen: addrPort("192.0.2.1:7"), Record: Record{ms, ms}}
	if err := Serve(context.Background(), &b, s); err == nil || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
}

// TestReceivedByTheEndCounts: what waits in the server's socket when the server
// is told to end has not been lost.
func TestReceivedByTheEndCounts(t *testing.T) {
	row(t)
	client, server := pair(t, serverV4, Client{Kind: UDP, Interval: time.Millisecond, Duration: short})
	time.Sleep(short / 2)
	if err := server.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a := client.end()
	b := server.end(os.Interrupt, syscall.SIGCONT)
	sound(t, b, 0)
	if d := b.Counts.Datagrams; d.Received != a.Counts.Datagrams.Sent || d.Expected != d.Received {
		t.Errorf("%d sent, %+v", a.Counts.Datagrams.Sent, d)
	}
}

// TestConfirmedIsClosed: a client that has been confirmed may end the server
// at once, as drills do, and the server still says that the stream ended well.
func TestConfirmedIsClosed(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	j, err := newJournal(TCP, ServerRole, Bytes, Record{ms, ms})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		client, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			err := client.(*net.TCPConn).CloseWrite()
			_, e := io.Copy(io.Discard, client)
			cancel()
			over <- errors.Join(err, e, client.Close())
		}()
		line := j.line(0)
		Server{}.source(ctx, server.(*net.TCPConn), line, hello{Size: 1})
		if got := line.Counts.Connections; got != (Connections{Closed: 1}) {
			t.Fatalf("%+v, %v", got, line.Errors)
		}
		if err := errors.Join(<-over, server.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
