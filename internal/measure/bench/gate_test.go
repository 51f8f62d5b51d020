package bench

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
)

// TestCut: a window of which the meter has seen too little is refused, but not one
// that the workload itself made short.
func TestCut(t *testing.T) {
	planned := workload.Window{Duration: time.Second}
	for _, tc := range []struct {
		seen, own time.Duration
		refused   bool
	}{
		{time.Second, 0, false},
		{810 * time.Millisecond, 0, false},
		{790 * time.Millisecond, 0, true},
		{5 * time.Second, 0, false},
		{300 * time.Millisecond, 300 * time.Millisecond, false},
		{300 * time.Millisecond, 2 * time.Second, true},
	} {
		if why := cut(tc.seen, planned, workload.Outcome{Window: tc.own}); (why != "") != tc.refused {
			t.Errorf("%v of %v, own %v: %q", tc.seen, planned.Duration, tc.own, why)
		}
	}
}
