package stamp

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// TestWindow compares the window with a map that forgets nothing.
func TestWindow(t *testing.T) {
	for _, start := range []uint32{0, 1 << 31, ^uint32(0) - 300} {
		rng := rand.New(rand.NewPCG(1, uint64(start)))
		var w window
		w.reset(start)
		seen, high := map[uint32]bool{start: true}, start
		for range 20000 {
			seq := high + uint32(rng.IntN(2400)) - 1200
			if rng.IntN(50) == 0 {
				seq = high + uint32(rng.IntN(5000))
			}
			old := int32(high-seq) >= windowSize
			if got, want := w.has(seq), seen[seq] || old; got != want {
				t.Fatalf("%d with %d the highest: %v, expected %v", seq, high, got, want)
			}
			if !w.has(seq) {
				w.mark(seq)
				seen[seq] = true
				if int32(seq-high) > 0 {
					high = seq
				}
			}
		}
	}
}

func TestAdmit(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	k := sessionKey{netip.MustParseAddrPort("192.0.2.1:1"), 1}
	type probe struct {
		seq       uint32
		sent, now time.Duration // since start
		want      admission
	}
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name   string
		probes []probe
	}{
		{"in order", []probe{{0, s, s, admitted}, {1, s + ms, s + ms, admitted}, {2, s + 2*ms, s + 2*ms, admitted}}},
		{"overtaken", []probe{{0, s, s, admitted}, {2, s + 2*ms, s + 2*ms, admitted}, {1, s + ms, s + 3*ms, admitted},
			{1, s + ms, s + 4*ms, replayed}}},
		{"before the start", []probe{{0, 0, s, stale}, {0, -ms, s, stale}, {0, 1, s, admitted}}},
		{"clock off by less", []probe{{0, 10*s + 1900*ms, 10 * s, admitted}, {1, 10 * s, 10*s + ms, admitted}}},
		{"clock off by more", []probe{{0, 10*s + 2001*ms, 10 * s, stale}, {0, 10*s - 2001*ms, 10 * s, stale}}},
		{"sender starts again", []probe{{5, s, s, admitted}, {6, 2 * s, 2 * s, admitted}, {0, 3 * s, 3 * s, admitted},
			{1, 3*s + ms, 3*s + ms, admitted},
			{6, 2 * s, 3*s + ms, replayed}}},
		{"the old run replayed", []probe{{5, s, s, admitted}, {6, 2 * s, 2 * s, admitted}, {5, s, 2 * s, replayed},
			{6, 2 * s, 9 * s, replayed}}},
		{"clock set forward", []probe{{0, s, s, admitted}, {1, 60 * s, 2 * s, admitted}, {2, 61 * s, 3 * s, admitted},
			{2, 61 * s, 3 * s, replayed}}},
		{"of before the start, when its session is known",
			[]probe{{5, s, s, admitted}, {4, -ms, s, replayed}, {6, -ms, s, replayed}}},
		{"held back", []probe{{0, s, s, admitted}, {1, s - ms, 9 * s, replayed}}},
	} {
		all := newSessions(2, start)
		for i, p := range tt.probes {
			if _, got := all.admit(k, p.seq, start.Add(p.sent), start.Add(p.now), 2*s); got != p.want {
				t.Errorf("%s, probe %d: %d, expected %d", tt.name, i, got, p.want)
			}
		}
	}
}

// TestSessionsAreBounded: the least recently used goes.
func TestSessionsAreBounded(t *testing.T) {
	all := newSessions(3, time.Time{})
	key := func(i uint16) sessionKey { return sessionKey{netip.MustParseAddrPort("[2001:db8::1]:1"), i} }
	for i := range uint16(3) {
		all.add(key(i))
	}
	all.get(key(0))
	all.add(key(3))
	for i, want := range []bool{true, false, true, true} {
		if got := all.byKey[key(uint16(i))] != nil; got != want {
			t.Errorf("session %d: %v", i, got)
		}
	}
	for i := range uint16(60000) {
		all.add(key(i + 100))
	}
	// What was sent when a forgotten session still was opens none.
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for i := range 5 {
		if _, got := all.admit(key(uint16(i)), 0, at(10+i), at(10+i), time.Second); got != admitted {
			t.Errorf("session %d: %d", i, got)
		}
	}
	if _, got := all.admit(key(1), 0, at(11), at(11), time.Minute); got != stale {
		t.Errorf("a replay opened a session: %d", got)
	}
	if len(all.byKey) != 3 {
		t.Errorf("%d sessions", len(all.byKey))
	}
}

// TestRecent: what came is remembered for the span, whatever else comes, or all
// of its age is refused.
func TestRecent(t *testing.T) {
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	packet := func(i int) []byte {
		p := make([]byte, authBase)
		p[macAt], p[macAt+1], p[macAt+2] = byte(i>>16), byte(i>>8), byte(i)
		return p
	}
	for _, tt := range []struct {
		name string
		most int
	}{{"roomy", 1 << 16}, {"crowded", 50}} {
		r := newRecent(4 * time.Second)
		r.most = tt.most
		when := func(i int) time.Time { return start.Add(time.Duration(i) * 10 * time.Millisecond) }
		for i := range 3000 {
			if r.has(packet(i), when(i)) {
				t.Fatalf("%s: packet %d is new", tt.name, i)
			}
			r.add(packet(i), when(i), when(i))
			for _, back := range []int{0, 1, 100, 399} {
				if back <= i && !r.has(packet(i-back), when(i-back)) {
					t.Fatalf("%s: packet %d is forgotten at %d", tt.name, i-back, i)
				}
			}
		}
		if n := len(r.now) + len(r.old); n > 2*tt.most || n > 900 {
			t.Errorf("%s: %d remembered", tt.name, n)
		}
	}
}
