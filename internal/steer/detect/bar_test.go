package detect

import (
	"testing"
	"time"
)

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
	for range 5 { // as there is nothing better
		b.Lift(now)
		if b.Left(now) > 0 {
			t.Error("barred, though that was lifted")
		}
		now = now.Add(40 * time.Millisecond)
		b.Raise(&params, now)
		if lasts := b.Left(now); lasts != params.BarFirst {
			t.Errorf("barred for %v, as it was tried before its time", lasts)
		}
	}
}
