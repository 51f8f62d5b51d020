package detect

import (
	"testing"
	"time"
)

// TestOutweighs: a connection's first timeouts only raise suspicion where echoes can tell.
func TestOutweighs(t *testing.T) {
	params := Pairs()
	for _, tt := range []struct {
		inARow   uint32
		answered time.Duration // ago; 0 for never
		want     bool
	}{{1, time.Second, false}, {2, time.Second, false}, {3, time.Second, true}, {1, 0, true}, {1, time.Minute, true}} {
		p, now := New(&params), at(0)
		if tt.answered > 0 {
			p.Answer(Shot{Answered: now.Add(-tt.answered)}, false)
		}
		if got := p.Outweighs(tt.inARow, now); got != tt.want {
			t.Errorf("%d in a row, answered %v ago: %v, want %v", tt.inARow, tt.answered, got, tt.want)
		}
	}
}

// TestBar: each time a path is tried without success it is left for twice as long, up to a bound,
// and for the shortest time again once it has been used for a while.
func TestBar(t *testing.T) {
	params := Pairs()
	var b Bar
	now := at(0)
	if b.Left(now) > 0 {
		t.Error("barred from the beginning")
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 120, 120} {
		b.Raise(&params, now)
		lasts := b.Left(now)
		if lasts != want*time.Second {
			t.Errorf("barred for %v, want %v s", lasts, int(want))
		}
		now = now.Add(lasts)
		if b.Left(now) > 0 {
			t.Error("not tried again")
		}
	}
	now = now.Add(params.BarForgotten + time.Second)
	b.Raise(&params, now)
	if lasts := b.Left(now); lasts != params.BarFirst {
		t.Errorf("barred for %v after a while of use", lasts)
	}
	b.Lift(now)
	if b.Left(now) > 0 {
		t.Error("barred, though that was lifted")
	}
}
