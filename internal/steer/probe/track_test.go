package probe

import (
	"math"
	"testing"
	"time"

	"pathwise.dev/pathwise/stamp"
)

// at is ms milliseconds into a test.
func at(ms float64) time.Time {
	return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms * 1e6))
}

// trip is one probe of a simulated path.
func trip(seq, refl uint32, ms float64, rtt time.Duration) stamp.Reply {
	return stamp.Reply{
		Seq: seq, ReflectorSeq: refl, Size: 172, SentAt: at(ms), At: at(ms).Add(rtt), RTT: rtt,
		ForwardDelay: rtt / 2, BackwardDelay: rtt / 2,
	}
}

func TestTrackRoundTrips(t *testing.T) {
	k := NewTrack(0, true)
	if s := k.Summary(); s.P50 != 0 || s.Loss.Value() != 0 || s.RiseKnown {
		t.Errorf("of nothing: %+v", s)
	}
	for i := range uint32(100) {
		k.Reply(trip(i, i, float64(i), time.Duration(i+1)*time.Microsecond))
	}
	s := k.Summary()
	if s.MinRTT != time.Microsecond || s.P50 != 50*time.Microsecond || s.P95 != 95*time.Microsecond ||
		s.P99 != 99*time.Microsecond ||
		s.Spread != 45*time.Microsecond || s.Answered != 100 || s.Loss != (Ratio{0, 100}) ||
		!s.Last.Equal(at(99).Add(100*time.Microsecond)) {
		t.Errorf("%+v", s)
	}
	if d := s.Jitter - time.Microsecond; d.Abs() > 10*time.Nanosecond { // each differs from the last by 1 us
		t.Errorf("jitter %s", s.Jitter)
	}
	if d := s.SmoothRTT - 93*time.Microsecond; d.Abs() > time.Microsecond { // it trails a ramp by 7
		t.Errorf("smoothed %s", s.SmoothRTT)
	}
	for i := range uint32(trackSize) {
		k.Reply(trip(100+i, 100+i, float64(100+i), time.Millisecond))
	}
	if s := k.Summary(); s.MinRTT != time.Millisecond || s.Loss.Of != trackSize {
		t.Errorf("the window did not move: %+v", s)
	}
}

func TestTrackLoss(t *testing.T) {
	for _, tt := range []struct {
		name              string
		forward, backward func(i uint32) bool
		wantF, wantB      int
		streak            int
	}{
		{"none", nil, nil, 0, 0, 0},
		{"forward", func(i uint32) bool { return i%10 == 5 }, nil, 10, 0, 0},
		{"backward", nil, func(i uint32) bool { return i%10 == 5 }, 0, 10, 0},
		{"both", func(i uint32) bool { return i%10 == 5 }, func(i uint32) bool { return i%20 == 7 }, 10, 5, 0},
		{"since lately", nil, func(i uint32) bool { return i >= 96 }, 0, 0, 4},
	} {
		k := NewTrack(0, true)
		refl := uint32(0)
		for i := range uint32(100) {
			if tt.forward != nil && tt.forward(i) {
				k.Lost(stamp.Lost{Seq: i})
				continue
			}
			refl++
			if tt.backward != nil && tt.backward(i) {
				k.Lost(stamp.Lost{Seq: i})
				continue
			}
			k.Reply(trip(i, refl-1, float64(i), time.Millisecond))
		}
		s := k.Summary()
		if s.Forward.Lost != tt.wantF || s.Backward.Lost != tt.wantB || s.Streak != tt.streak ||
			s.Loss.Lost != tt.wantF+tt.wantB+tt.streak || s.Reordered != (Reordering{}) {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

func TestTrackLateReplyIsNoLoss(t *testing.T) {
	k := NewTrack(0, true)
	for i := range uint32(4) {
		k.Lost(stamp.Lost{Seq: i})
	}
	r := trip(2, 0, 2, time.Second)
	r.Late = true
	k.Reply(r)
	if s := k.Summary(); s.Loss != (Ratio{3, 4}) || s.Streak != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTrackReordering(t *testing.T) {
	k := NewTrack(0, true)
	for _, x := range [][2]uint32{
		{0, 0}, {1, 1},
		{3, 2}, {2, 3}, // overtaken forward: the reflector saw 3 before 2
		{5, 5}, {4, 4}, // overtaken backward
		{6, 6},
	} {
		k.Reply(trip(x[0], x[1], float64(x[0]), time.Millisecond))
	}
	if s := k.Summary(); s.Reordered != (Reordering{1, 1}) || s.Forward.Lost != 0 || s.Backward.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

// TestTrackReflectorRestart: a reflector that counts from zero again has lost
// nothing.
func TestTrackReflectorRestart(t *testing.T) {
	for _, before := range []uint32{3, 200} {
		k := NewTrack(0, true)
		for i := range before + 20 {
			refl := i
			if i >= before {
				refl = i - before
			}
			k.Reply(trip(i, refl, float64(i), time.Millisecond))
		}
		if s := k.Summary(); s.Forward.Lost != 0 || s.Backward.Lost != 0 || s.Forward.Of != 19 ||
			s.Reordered != (Reordering{}) {
			t.Errorf("restarted after %d: %+v", before, s)
		}
	}
}

func TestTrackMTUBlackHole(t *testing.T) {
	for _, tt := range []struct {
		name string
		fate func(i int, full bool) bool // lost
		want bool
	}{
		{"fine", func(int, bool) bool { return false }, false},
		{"full lost", func(_ int, full bool) bool { return full }, true},
		{"all lost", func(int, bool) bool { return true }, false},
		{"full lost, then not", func(i int, full bool) bool { return full && i < 36 }, false},
		{"full lost of late", func(i int, full bool) bool { return full && i >= 20 }, true},
	} {
		k := NewTrack(1472, true)
		for i := range 40 {
			r := trip(uint32(i), uint32(i), float64(i), time.Millisecond)
			full := i%4 == 3
			if full {
				r.Size = 1472
			}
			if tt.fate(i, full) {
				k.Lost(stamp.Lost{Seq: r.Seq, Size: r.Size, SentAt: r.SentAt})
			} else {
				k.Reply(r)
			}
		}
		if s := k.Summary(); s.MTUBlackHole != tt.want || s.FullLoss.Of != 10 || s.SmallLoss.Of != 30 {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

// TestTrackReflectorGoes: a reflector that is away whenever a full-size probe comes has
// not lost it for its size, also while the small ones alongside are not known to be lost.
func TestTrackReflectorGoes(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		k := NewTrack(1472, true)
		for i := range 60 { // each tenth of a second, and each eighth full
			r := trip(uint32(i), uint32(i), 100*float64(i), time.Millisecond)
			if i%8 == 4 {
				r.Size = 1472
			}
			away := i%8 >= 4 && i%8 <= 6
			switch {
			case !away:
				k.Reply(r)
			case i%8 == 4 || !unknown:
				k.Lost(stamp.Lost{Seq: r.Seq, Size: r.Size, SentAt: r.SentAt})
			}
		}
		if s := k.Summary(); s.MTUBlackHole || s.FullLoss.Lost != 7 {
			t.Errorf("later ones unknown %v: %+v", unknown, s)
		}
	}
}

// TestTrackOneWay: a queue in one direction is told from a clock that drifts.
func TestTrackOneWay(t *testing.T) {
	for _, tt := range []struct {
		name         string
		same         bool
		offset       time.Duration
		ppm          float64
		queueF       time.Duration // for the last second
		wantF, wantB time.Duration
		tolerance    time.Duration
	}{
		{"one clock, quiet", true, 0, 0, 0, 0, 0, 0},
		{"one clock, queue", true, 0, 0, 5 * time.Millisecond, 5 * time.Millisecond, 0, 0},
		{"offset, queue", false, -time.Hour, 0, 5 * time.Millisecond, 5 * time.Millisecond, 0, 50 * time.Microsecond},
		{"drift, quiet", false, time.Second, 50, 0, 0, 0, 100 * time.Microsecond},
		{"drift, queue", false, time.Second, 50, 5 * time.Millisecond, 5 * time.Millisecond, 0, 200 * time.Microsecond},
		{"drift back, queue", false, time.Second, -50, 5 * time.Millisecond, 5 * time.Millisecond, 0, 200 * time.Microsecond},
	} {
		k := NewTrack(0, tt.same)
		const end = 60000.
		for ms := 0.; ms < end; ms += 100 {
			r := trip(uint32(ms/100), uint32(ms/100), ms, time.Millisecond)
			skew := tt.offset + time.Duration(ms*1e6*tt.ppm*1e-6)
			r.ForwardDelay += skew + time.Duration(math.Abs(math.Sin(ms))*20e3)
			r.BackwardDelay -= skew - time.Duration(math.Abs(math.Cos(ms))*20e3)
			if ms >= end-1000 {
				r.ForwardDelay += tt.queueF
			}
			k.Reply(r)
		}
		s := k.Summary()
		within := func(got, want time.Duration) bool { return (got - want).Abs() <= tt.tolerance+20*time.Microsecond }
		if !s.RiseKnown || !within(s.ForwardRise, tt.wantF) || !within(s.BackwardRise, tt.wantB) {
			t.Errorf("%s: forward %s, backward %s", tt.name, s.ForwardRise, s.BackwardRise)
		}
	}
}
