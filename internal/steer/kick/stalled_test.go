package kick

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// timeout is an event of connection i of many to one server.
func timeout(i int, count uint32) telemetry.Event {
	local, remote := uint16(20000+i%40000), uint16(80+i/40000)
	return telemetry.Event{Key: telemetry.Key{Bucket: flow.Bucket(local, remote, 6)}, Kind: telemetry.Timeout,
		LocalPort: local, RemotePort: remote, Count: count, Unacked: uint32(i)}
}

// TestKicks: those are woken that have moved, as often as their wait was doubled.
func TestKicks(t *testing.T) {
	w, l, now := NewWaker(), &Stalled{}, time.Unix(1000, 0)
	for bucket := range uint8(3) {
		l.Remember(telemetry.Event{Key: telemetry.Key{Bucket: bucket}, LocalPort: uint16(bucket), Count: 1 + uint32(bucket)},
			now)
	}
	wake := func(moved dataplane.Set) {
		w.Wake(Call{Local: netip.MustParseAddr("10.0.0.1"), Shelves: l.Take(moved), At: now})
	}
	for _, step := range []struct {
		moved      dataplane.Set
		want, left int
	}{{1<<1 | 1<<2, 2 + 3, 1}, {dataplane.All, 1, 0}} {
		wake(step.moved)
		c, n := w.next(), 0
		for _, s := range inOrder(c.Shelves, c.At) {
			n += int(min(s.count, kicksMost))
		}
		if n != step.want || held(l) != step.left || w.next() != nil {
			t.Errorf("%d messages, %d still wait", n, held(l))
		}
	}
	if wake(dataplane.All); w.next() != nil {
		t.Error("nobody waits, and is woken")
	}
}

// TestRemembering: the latest timeout of each connection, for as long as it can be
// stuck, and of too many the latest.
func TestRemembering(t *testing.T) {
	l, now := &Stalled{}, time.Unix(1000, 0)
	for i := range 100 {
		l.Remember(timeout(i, 1), now)
	}
	for i := range 50 {
		l.Remember(timeout(i, 2), now.Add(time.Minute))
	}
	if held(l) != 100 {
		t.Errorf("%d connections", held(l))
	}
	l.Remember(timeout(100, 1), now.Add(3*time.Minute)) // the others are the old generation now
	l.Remember(timeout(0, 7), now.Add(3*time.Minute))   // but for one that times out again
	l.Remember(timeout(101, 1), now.Add(6*time.Minute))
	if held(l) != 3 {
		t.Errorf("%d connections that could be stuck", held(l))
	}
	lost := 0
	for i := range 5 * stuckMost {
		lost += l.Remember(timeout(i, 1), now.Add(6*time.Minute))
	}
	if n := held(l); n > 2*stuckMost || n < stuckMost || n+lost < 5*stuckMost {
		t.Errorf("%d connections, %d forgotten for want of room", n, lost)
	}
	if n := len(l.Take(dataplane.All)); n > 2*dataplane.Buckets || held(l) != 0 || l.n != 0 {
		t.Errorf("%d shelves taken; left: %d, counted %d", n, held(l), l.n)
	}
	l = nil
	if held(l) != 0 || l.Take(dataplane.All) != nil {
		t.Error("there are some where there were none")
	}
}

// TestRememberingManyIsLinear: all in a moment, where looking at each other one took
// 20 s for 20,000.
func TestRememberingManyIsLinear(t *testing.T) {
	l, now := &Stalled{}, time.Unix(1000, 0)
	const n = stuckMost
	begin := time.Now()
	for round := range uint32(4) {
		for i := range n {
			l.Remember(timeout(i, 1+round), now)
		}
	}
	shelves := l.Take(dataplane.All)
	took := time.Since(begin)
	if got := len(inOrder(shelves, now)); got != n {
		t.Errorf("%d of %d", got, n)
	}
	if took > 3*time.Second {
		t.Errorf("%d timeouts took %v", 4*n, took)
	}
}

// TestOrderOfWaking: who would wait longest comes first; who has tried again since is
// left alone.
func TestOrderOfWaking(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(port uint16, count uint32, ago time.Duration) stuck {
		return stuck{ports: ports{port}, count: count, at: now.Add(-ago).UnixNano()}
	}
	shelves := Shelves{{
		{1}: at(1, 1, time.Millisecond), {2}: at(2, 6, time.Second), {3}: at(3, 6, time.Millisecond)},
		{{4}: at(4, 1, 3*time.Second), {5}: at(5, 20, 110*time.Second), {6}: at(6, 20, 121*time.Second)}}
	var got []uint16
	for _, s := range inOrder(shelves, now) {
		got = append(got, s.ports[0])
	}
	if !slices.Equal(got, []uint16{5, 3, 2, 1}) {
		t.Errorf("order %v", got)
	}
}

// BenchmarkRemember is n connections that time out, and are taken out to be woken.
func BenchmarkRemember(b *testing.B) {
	for _, n := range []int{1000, 10000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(1000, 0)
			for b.Loop() {
				l := &Stalled{}
				for i := range n {
					l.Remember(timeout(i, 1), now)
				}
				l.Take(dataplane.All)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/connection")
		})
	}
}

// held is how many connections are remembered.
func held(l *Stalled) (n int) {
	if l == nil {
		return 0
	}
	for b := range l.young {
		n += len(l.young[b]) + len(l.old[b])
	}
	return n
}

// TestUnreachable: what wakes a connection is a well-formed ICMP message that
// quotes its first segment without acknowledgment.
func TestUnreachable(t *testing.T) {
	b := unreachable(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2"), 40001, 5201, 0x01020304)
	if len(b) != 8+20+8 || b[0] != 3 || b[1] != 1 {
		t.Fatalf("%x", b)
	}
	if probe.Checksum(b) != 0 || probe.Checksum(b[8:28]) != 0 {
		t.Errorf("checksums: %#x, %#x; want 0 over what holds one", probe.Checksum(b), probe.Checksum(b[8:28]))
	}
	src, dst := netip.AddrFrom4([4]byte(b[20:24])), netip.AddrFrom4([4]byte(b[24:28]))
	if src.String() != "10.1.0.1" || dst.String() != "10.1.0.2" || b[17] != 6 {
		t.Errorf("quotes %v to %v, protocol %d", src, dst, b[17])
	}
	if binary.BigEndian.Uint16(b[28:]) != 40001 || binary.BigEndian.Uint16(b[30:]) != 5201 ||
		binary.BigEndian.Uint32(b[32:]) != 0x01020304 {
		t.Errorf("quoted segment: %x", b[28:])
	}
}

// TestUnreachableIPv6: of IPv6 the message says that there is no route, which is what takes a
// doubling back there (tcp_v6_err).
func TestUnreachableIPv6(t *testing.T) {
	local, remote := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	b := unreachable(local, remote, 40001, 5201, 0x01020304)
	if len(b) != 8+40+8 || b[0] != 1 || b[1] != 0 || b[8]>>4 != 6 || b[8+6] != 6 {
		t.Fatalf("%x", b)
	}
	src, dst := netip.AddrFrom16([16]byte(b[16:32])), netip.AddrFrom16([16]byte(b[32:48]))
	if src != local || dst != remote {
		t.Errorf("quotes %v to %v", src, dst)
	}
	if binary.BigEndian.Uint16(b[48:]) != 40001 || binary.BigEndian.Uint16(b[50:]) != 5201 ||
		binary.BigEndian.Uint32(b[52:]) != 0x01020304 {
		t.Errorf("quoted segment: %x", b[48:])
	}
}
