package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/flow"
)

const megabyte = 1 << 20

// TestFlowsAreObserved: both ends of IPv4, IPv6 and mapped connections, told
// by cookie, address and bucket, with what the sockets themselves counted.
func TestFlowsAreObserved(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	mine, err := c.Watch(client)
	must(t, err)
	theirs, err := c.Watch(server)
	must(t, err)
	again, err := c.Watch(client)
	if err != nil || again != mine || mine == theirs || mine == 0 {
		t.Fatalf("cookies %d, %d and %d, %v", mine, again, theirs, err)
	}
	for name, dial := range map[string]func() connection{
		server4:  func() connection { return connect(t, server4) },
		server6:  func() connection { return connect(t, server6) },
		"mapped": func() connection { return connectMapped(t) },
	} {
		remote, peer := netip.MustParseAddr(server4), netip.MustParseAddr("10.99.7.1")
		if name == server6 {
			remote, peer = netip.MustParseAddr(server6), netip.MustParseAddr("fd00:99:7::1")
		}
		read(t, c, nil)
		k := dial()
		k.send(t, 20*megabyte)
		info := k.finish(t)
		local, port := ports(k)
		want := Key{Netns: mine, Remote: remote, Bucket: flow.Bucket(local, port, 6)}
		passive := Key{Netns: theirs, Remote: peer, Bucket: want.Bucket}
		var received uint64 // by the server's end, which a change of its state tells at the latest
		got, flows := read(t, c, func(f Flow) bool {
			if f.Key == passive {
				received = f.BytesReceived
			}
			return f.Key == want
		})
		if len(flows) != 1 {
			t.Errorf("%s: %d flows of %+v", name, len(flows), want)
			continue
		}
		checkRTT(t, name, got)
		// The closing FIN takes a sequence number too.
		if got.BytesAcked < 20*megabyte || got.BytesAcked > info.Bytes_acked || got.SegmentsOut == 0 ||
			got.SegmentsOut > uint64(info.Segs_out) {
			t.Errorf("%s: acked %d of %d, segments %d of %d", name, got.BytesAcked, info.Bytes_acked, got.SegmentsOut,
				info.Segs_out)
		}
		if got.BytesSent < 20*megabyte || got.BytesSent > info.Bytes_sent {
			t.Errorf("%s: sent %d of %d", name, got.BytesSent, info.Bytes_sent)
		}
		if got.Retransmits != uint64(info.Total_retrans) || got.LastActive == 0 || got.DeliveryRate == 0 || got.Window == 0 {
			t.Errorf("%s: %+v", name, got)
		}
		k.c.Close()
		eventually(t, "the server's end is told", func() bool {
			more, _ := read(t, c, func(f Flow) bool { return f.Key == passive })
			received += more.BytesReceived
			return received >= 20*megabyte
		})
	}
	if f, err := c.Faults(); err != nil || f != (Faults{}) {
		t.Errorf("faults %+v, %v", f, err)
	}
}

// checkRTT holds what must be true of any distribution that was measured.
func checkRTT(t *testing.T, name string, f Figures) {
	t.Helper()
	var n uint64
	for _, h := range f.RTT.Hist {
		n += h
	}
	if f.RTT.Count == 0 || n != f.RTT.Count || f.RTT.Min <= 0 || f.RTT.Max < f.RTT.Min || f.RTT.Mean() < f.RTT.Min ||
		f.RTT.Mean() > f.RTT.Max || f.SRTT <= 0 {
		t.Errorf("%s: %+v, smoothed %v", name, f.RTT, f.SRTT)
	}
	for i, h := range f.RTT.Hist {
		if h > 0 && (us(2<<i) <= f.RTT.Min || i > 0 && us(1<<i) > f.RTT.Max) {
			t.Errorf("%s: %d in octave %d, but from %v to %v", name, h, i, f.RTT.Min, f.RTT.Max)
		}
	}
}

// TestRoundTripsAreSampled: the latest at each reading, if there is a new one, and
// what the others carried is counted all the same.
func TestRoundTripsAreSampled(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	_, err := c.Watch(client)
	must(t, err)
	k := connect(t, server4)
	const trips = 5000
	var got Figures
	for n := range 3 {
		for range trips / 2 {
			if n < 2 {
				k.exchange(t)
			}
		}
		k.settle(t)
		one, _ := read(t, c, nil)
		if want := uint64(min(1, 2-n)); one.RTT.Count != want {
			t.Errorf("reading %d: %d round trips, not %d", n, one.RTT.Count, want)
		}
		got.add(one)
	}
	k.finish(t)
	one, _ := read(t, c, nil)
	got.add(one)
	// The FIN takes a sequence number, and a byte of the peer's too.
	if got.BytesAcked < trips || got.BytesAcked > trips+1 || got.BytesReceived < trips || got.BytesReceived > trips+1 ||
		got.SegmentsOut < trips {
		t.Errorf("acked %d, received %d bytes, in %d segments", got.BytesAcked, got.BytesReceived, got.SegmentsOut)
	}
}

// TestLossIsCounted: every retransmission that the socket counts, no other.
func TestLossIsCounted(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	_, err := c.Watch(client)
	must(t, err)
	k := connect(t, server4)
	undo := drop(t, 3)
	k.send(t, 60*megabyte)
	undo()
	info := k.finish(t)
	got, _ := read(t, c, nil)
	if info.Total_retrans == 0 || got.Retransmits != uint64(info.Total_retrans) {
		t.Errorf("%d retransmissions told, %d made", got.Retransmits, info.Total_retrans)
	}
	if got.BytesSent != info.Bytes_sent || got.BytesSent <= got.BytesAcked {
		t.Errorf("sent %d of %d, acked %d", got.BytesSent, info.Bytes_sent, got.BytesAcked)
	}
	if got.Spurious != uint64(info.Dsack_dups) || got.Reordered != uint64(info.Reord_seen) {
		t.Errorf("spurious %d of %d, reordered %d of %d", got.Spurious, info.Dsack_dups, got.Reordered, info.Reord_seen)
	}
	t.Logf("%d retransmissions, %d tail probes, %d timeouts, %d spurious; RTT median %v, max %v",
		got.Retransmits, got.TailProbes, got.Timeouts, got.Spurious, got.RTT.Quantile(.5), got.RTT.Max)
}

// TestTimeoutIsReported: the event comes by itself when a path falls silent.
func TestTimeoutIsReported(t *testing.T) {
	for _, to := range []string{server4, server6} {
		t.Run(to, func(t *testing.T) {
			buildPair(t)
			c := attach(t, pins(t))
			cookie, err := c.Watch(client)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events, err := c.Events(ctx)
			must(t, err)
			k := connect(t, to)
			k.send(t, megabyte)
			undo := drop(t, 100)
			_, err = k.c.Write(make([]byte, 10000))
			must(t, err)
			local, port := ports(k)
			want := Key{Netns: cookie, Remote: netip.MustParseAddr(to), Bucket: flow.Bucket(local, port, 6)}
			seen := map[Kind]int{}
			for n := uint32(0); n < 3; { // the third timeout in a row
				e := <-events
				read := program.Kernel()
				if e.Key != want || e.LocalPort != local || e.RemotePort != port || e.At <= 0 || e.At > read || e.Count == 0 {
					t.Fatalf("%+v, not of %+v %d %d", e, want, local, port)
				}
				seen[e.Kind]++
				if e.Kind == Timeout {
					n++
					if e.Count != n {
						t.Errorf("timeout %d says %d in a row", n, e.Count)
					}
					t.Logf("timeout %d reported after %v", n, read-e.At)
				}
			}
			undo()
			k.send(t, 1000) // what was lost arrives in the end, before this
			if seen[TailProbe] == 0 || seen[Retransmit] == 0 {
				t.Errorf("events %v", seen)
			}
			got, _ := read(t, c, func(f Flow) bool { return f.Key == want })
			if got.Timeouts < 3 || got.LastTimeout == 0 || got.Retransmits < got.Timeouts ||
				got.TailProbes != netstat(t, "TCPLossProbes") {
				t.Errorf("%+v, events %v, %d loss probes", got, seen, netstat(t, "TCPLossProbes"))
			}
			cancel()
			for range events { // ends
			}
		})
	}
}

// TestDeliveredIsReported: a connection that had to send something again ends, by the one end's close or by the
// other's, and it is told that all of it has arrived. It is not of one that is reset with something on its way, nor of
// one that lost nothing.
func TestDeliveredIsReported(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	_, err := c.Watch(client)
	must(t, err)
	events, err := c.Events(t.Context())
	must(t, err)
	for _, tt := range []struct {
		name         string
		first, other func(connection) net.Conn
		lost, reset  bool
		want         bool
	}{
		{name: "it closes first", first: connection.client, other: connection.server, lost: true, want: true},
		{name: "its peer does", first: connection.server, other: connection.client, lost: true, want: true},
		{name: "it lost nothing", first: connection.client, other: connection.server},
		{name: "it is reset", first: connection.server, other: connection.client, lost: true, reset: true},
	} {
		k := connect(t, server4)
		k.send(t, 1000)
		if tt.lost {
			undo := drop(t, 100)
			_, err := k.c.Write(make([]byte, 1000))
			must(t, err)
			for e := range events {
				if local, _ := ports(k); e.Kind == Timeout && e.LocalPort == local {
					break
				}
			}
			if !tt.reset {
				undo()
				k.settle(t)
			}
			defer undo()
		}
		if tt.reset {
			must(t, k.s.(*net.TCPConn).SetLinger(0))
		}
		if !tt.reset && tt.lost { // else a close would be a reset
			_, err := io.CopyN(io.Discard, k.s, 1000)
			must(t, err)
		}
		must(t, tt.first(k).Close())
		eventually(t, "the other end knows", func() bool {
			info := tcpInfo(t, tt.other(k))
			return info.State != unix.BPF_TCP_ESTABLISHED
		})
		must(t, tt.other(k).Close())
		time.Sleep(50 * time.Millisecond)
		got := false
		for more := true; more; {
			select {
			case e := <-events:
				local, _ := ports(k)
				got = got || e.Kind == Delivered && e.LocalPort == local
			default:
				more = false
			}
		}
		if got != tt.want {
			t.Errorf("%s: told is %v", tt.name, got)
		}
	}
}

// TestOnlyTheWatchedAreObserved: namespaces and peers.
func TestOnlyTheWatchedAreObserved(t *testing.T) {
	buildPair(t)
	c := attach(t, pins(t))
	silent := func(what string, k connection) {
		t.Helper()
		read(t, c, nil)
		k.send(t, megabyte)
		if _, flows := read(t, c, nil); len(flows) != 0 {
			t.Errorf("%s: %+v", what, flows)
		}
	}
	observed := func(what string, k connection) {
		t.Helper()
		read(t, c, nil)
		k.send(t, megabyte)
		if got, _ := read(t, c, nil); got.RTT.Count == 0 {
			t.Errorf("%s: nothing was observed", what)
		}
	}
	silent("nothing is watched", connect(t, server4))
	cookie, err := c.Watch(client)
	must(t, err)
	k := connect(t, server4)
	observed("watched", k)
	must(t, c.SetPeers([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(server6)}))
	silent("not a peer any more", k)
	silent("not a peer", connect(t, server4))
	six := connect(t, server6)
	observed("a peer", six)
	must(t, c.SetPeers([]netip.Addr{netip.MustParseAddr(server4)}))
	observed("a peer again, connected before", k)
	silent("the other is none any more", six)
	must(t, c.SetPeers(nil))
	observed("no limit, connected before", six)
	must(t, c.Unwatch(cookie))
	silent("watched no more", k)
	silent("watched no more, new", connect(t, server4))
	must(t, c.Unwatch(cookie))
	if left, err := c.Watched(); err != nil || len(left) != 0 {
		t.Errorf("still watched: %v, %v", left, err)
	}
	if err := c.collect(); err != nil || len(c.now.keys) != 0 {
		t.Errorf("flows of a namespace that is not watched: %v, %v", c.now.keys, err)
	}
}

// TestOldConnectionsAreTakenUp: those made before the program, from both ends.
func TestOldConnectionsAreTakenUp(t *testing.T) {
	buildPair(t)
	conns := []connection{connect(t, server4), connect(t, server6), connectMapped(t)}
	for _, k := range conns {
		k.send(t, megabyte)
	}
	c := attach(t, pins(t))
	_, err := c.Watch(client)
	must(t, err)
	_, err = c.Watch(server)
	must(t, err)
	for i, k := range conns {
		k.send(t, 5*megabyte)
		local, port := ports(k)
		bucket := flow.Bucket(local, port, 6)
		got, flows := read(t, c, func(f Flow) bool { return f.Bucket == bucket })
		// Its first callback sets the baseline, so a little is missing, but nothing from before.
		if len(flows) == 0 || got.RTT.Count == 0 || got.BytesAcked == 0 || got.BytesAcked > 5*megabyte {
			t.Errorf("connection %d: %+v", i, flows)
		}
	}
	if f, err := c.Faults(); err != nil || f != (Faults{}) {
		t.Errorf("faults %+v, %v", f, err)
	}
}

// TestPeersAreBounded: of more than there is room for the first are observed, those
// that leave make room, and it is said.
func TestPeersAreBounded(t *testing.T) {
	c := attach(t, pins(t))
	room := int(c.maps[telemetryMapPwTcpPeers].MaxEntries())
	first := netip.MustParseAddr("10.0.0.0")
	var all []netip.Addr
	for a := first; len(all) < room+100; a = a.Next() {
		all = append(all, a)
	}
	for _, step := range []struct {
		peers []netip.Addr
		want  int
		full  bool
	}{
		{all[:room], room, false},
		{all[100:], room, false}, // all the room there is, for others
		{all, room, true},
		{all, room, true}, // twice changes nothing
		{slices.Concat(all[:10], all[:10]), 10, false},
	} {
		if err := c.SetPeers(step.peers); errors.Is(err, ErrTooManyPeers) != step.full || !step.full && err != nil {
			t.Errorf("%d peers: %v", len(step.peers), err)
		}
		have, err := c.peers()
		if err != nil || len(have) != step.want {
			t.Errorf("%d peers: %d are observed, %v", len(step.peers), len(have), err)
		}
		for _, p := range step.peers[:10] {
			if !have[p.As16()] {
				t.Errorf("%d peers: %v is not observed", len(step.peers), p)
			}
		}
	}
}

// TestManyTimeoutsAreReported: those of 20,000 connections at once find room, until
// somebody reads.
func TestManyTimeoutsAreReported(t *testing.T) {
	c := attach(t, pins(t))
	if room := c.maps[telemetryMapPwTcpEvents].MaxEntries(); room < uint32(20000*(eventSize+8)) {
		t.Errorf("a ring of %d bytes", room)
	}
}
