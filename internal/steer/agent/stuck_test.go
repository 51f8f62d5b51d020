package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/route"
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
	p := &pair{routes: route.Between(testPod("p", 1, 1, "z"), testPod("q", 2, 1, "z")),
		local: &pod{Pod: testPod("p", 1, 1, "z")}, stuck: &stalled{}}
	a := &Agent{}
	now := time.Unix(1000, 0)
	for bucket := range uint8(3) {
		p.stuck.remember(telemetry.Event{Key: telemetry.Key{Bucket: bucket}, LocalPort: uint16(bucket),
			Count: 1 + uint32(bucket)}, now)
	}
	for _, step := range []struct {
		moved      dataplane.Set
		want, left int
	}{{1<<1 | 1<<2, 2 + 3, 1}, {dataplane.All, 1, 0}} {
		a.wake(p, step.moved, now)
		c, n := a.waker.next(), 0
		for _, s := range inOrder(c.shelves, c.at) {
			n += int(min(s.count, kicksMost))
		}
		if n != step.want || held(p.stuck) != step.left || a.waker.next() != nil {
			t.Errorf("%d messages, %d still wait", n, held(p.stuck))
		}
	}
	if a.wake(p, dataplane.All, now); a.waker.next() != nil || !p.left.Equal(now) {
		t.Error("nobody waits, and is woken")
	}
}

// TestRemembering: the latest timeout of each connection, for as long as it can be
// stuck, and of too many the latest.
func TestRemembering(t *testing.T) {
	l, now := &stalled{}, time.Unix(1000, 0)
	for i := range 100 {
		l.remember(timeout(i, 1), now)
	}
	for i := range 50 {
		l.remember(timeout(i, 2), now.Add(time.Minute))
	}
	if held(l) != 100 {
		t.Errorf("%d connections", held(l))
	}
	l.remember(timeout(100, 1), now.Add(3*time.Minute)) // the others are the old generation now
	l.remember(timeout(0, 7), now.Add(3*time.Minute))   // but for one that times out again
	l.remember(timeout(101, 1), now.Add(6*time.Minute))
	if held(l) != 3 {
		t.Errorf("%d connections that could be stuck", held(l))
	}
	lost := 0
	for i := range 5 * stuckMost {
		lost += l.remember(timeout(i, 1), now.Add(6*time.Minute))
	}
	if n := held(l); n > 2*stuckMost || n < stuckMost || n+lost < 5*stuckMost {
		t.Errorf("%d connections, %d forgotten for want of room", n, lost)
	}
	if n := len(l.take(dataplane.All)); n > 2*dataplane.Buckets || held(l) != 0 || l.n != 0 {
		t.Errorf("%d shelves taken; left: %d, counted %d", n, held(l), l.n)
	}
	l = nil
	if held(l) != 0 || l.take(dataplane.All) != nil {
		t.Error("there are some where there were none")
	}
}

// TestRememberingManyIsLinear: all in a moment, where looking at each other one took
// 20 s for 20,000.
func TestRememberingManyIsLinear(t *testing.T) {
	l, now := &stalled{}, time.Unix(1000, 0)
	const n = stuckMost
	begin := time.Now()
	for round := range uint32(4) {
		for i := range n {
			l.remember(timeout(i, 1+round), now)
		}
	}
	shelves := l.take(dataplane.All)
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
	shelves := []map[ports]stuck{{
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

// TestTroubleIsJudgedOnce: a thousand timeouts say of a path that there was one.
func TestTroubleIsJudgedOnce(t *testing.T) {
	var tr trouble
	var own, followed [dataplane.Buckets]dataplane.Choice
	for range 1000 {
		tr.add(telemetry.Event{Key: telemetry.Key{Bucket: 7}, Kind: telemetry.Timeout, Count: 9})
	}
	tr.add(telemetry.Event{Kind: telemetry.TailProbe, Count: 50})
	own[7] = dataplane.Choice{Path: 1}
	if !tr.on(1, own, followed) || !tr.on(0, own, followed) || tr.on(2, own, followed) || !tr.probes || !tr.timedOut {
		t.Errorf("on its path %v, on the default one %v, elsewhere %v", tr.on(1, own, followed), tr.on(0, own, followed),
			tr.on(2, own, followed))
	}
	followed[7] = dataplane.Choice{Path: 1, Notified: true}
	if tr.on(0, own, followed) { // no flow of that bucket is on the default network
		t.Error("on the default network")
	}
}

// TestBatches: what waits is taken at once, and no more than there is room for.
func TestBatches(t *testing.T) {
	events := make(chan telemetry.Event, 10)
	for i := range 9 {
		events <- timeout(i, 1)
	}
	if got := take(make([]telemetry.Event, 1, 4), events); len(got) != 4 || len(events) != 6 {
		t.Errorf("%d taken, %d wait", len(got), len(events))
	}
	close(events)
	if got := take(make([]telemetry.Event, 1, 40), events); len(got) != 7 {
		t.Errorf("%d taken", len(got))
	}
}

// BenchmarkRemember is n connections that time out, and are taken out to be woken.
func BenchmarkRemember(b *testing.B) {
	for _, n := range []int{1000, 10000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(1000, 0)
			for b.Loop() {
				l := &stalled{}
				for i := range n {
					l.remember(timeout(i, 1), now)
				}
				l.take(dataplane.All)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/connection")
		})
	}
}

// held is how many connections are remembered.
func held(l *stalled) (n int) {
	if l == nil {
		return 0
	}
	for b := range l.young {
		n += len(l.young[b]) + len(l.old[b])
	}
	return n
}
