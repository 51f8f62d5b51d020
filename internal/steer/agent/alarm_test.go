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
		if err := a.sleep(d); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(begin); slept < d {
			t.Errorf("slept for %v, want %v or more", slept, d)
		}
	}
	time.AfterFunc(ms, a.cancel)
	for range 2 {
		if err := a.sleep(time.Hour); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if a.sleep(ms) == nil {
		t.Error("sleeps when it is closed")
	}
}
