package agent

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestAlarm: it wakes when it is due, at once where that is past, again each time,
// and at once for good when it is cancelled.
func TestAlarm(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{ms, 0, -ms, 3 * ms} {
		begin := time.Now()
		if err := errors.Join(a.set(d), a.wait()); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(begin); slept < d {
			t.Errorf("slept for %v, want %v or more", slept, d)
		}
	}
	begin := time.Now()
	later := errors.Join(a.set(time.Hour), a.set(ms), a.wait()) // as another goroutine may set it meanwhile
	if slept := time.Since(begin); later != nil || slept < ms {
		t.Errorf("set again: slept for %v, %v", slept, later)
	}
	time.AfterFunc(ms, a.cancel)
	for range 2 {
		if err := errors.Join(a.set(time.Hour), a.wait()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if a.set(ms) == nil || a.wait() == nil {
		t.Error("rings when it is closed")
	}
}
