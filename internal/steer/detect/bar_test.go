package detect

import (
	"testing"
	"time"
)

// TestBar: the longer a path does not pass data the rarer it is tried, up to a bound, and as
// often as at first again once it has passed data for as long.
func TestBar(t *testing.T) {
	params := Pairs()
	var b Bar
	now := at(0)
	if b.Left(now) > 0 {
		t.Error("barred from the beginning")
	}
	first := now
	for n, lasts := 0, time.Duration(0); lasts < params.BarMost; n++ {
		b.Raise(&params, now)
		lasts = b.Left(now)
		part := now.Sub(first) / time.Duration(params.BarPart)
		if want := min(max(part, params.BarFirst), params.BarMost); lasts != want || n > 20 {
			t.Fatalf("after %v barred for %v, want %v", now.Sub(first), lasts, want)
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
	for range 5 {
		now = now.Add(b.Left(now))
		b.Raise(&params, now)
	}
	if lasts := b.Left(now); lasts <= params.BarFirst {
		t.Errorf("barred for %v after %v", lasts, now.Sub(first))
	}
	now = now.Add(b.Left(now) + 40*time.Second) // longer than the 25 seconds and more of the outage
	b.Raise(&params, now)
	if lasts := b.Left(now); lasts != params.BarFirst {
		t.Errorf("barred for %v after it had passed data for longer than not", lasts)
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
