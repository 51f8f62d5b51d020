package drill

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
)

// A move is right if requests were answered sooner after it.
func TestFalseMoves(t *testing.T) {
	// 100 operations a second for 10 s, then 120 for 10 s, then 90.
	asked := stream.Report{Bins: stream.Bins{Width: 100 * time.Millisecond}}
	for i := range 300 {
		asked.Bins.Counts = append(asked.Bins.Counts, []int64{10, 12, 9}[i/100])
	}
	at := func(s int, pair, kind, from, to string) moved {
		return moved{time.Duration(s) * time.Second, pair, kind, from, to}
	}
	for name, tt := range map[string]struct {
		all  []moved
		want int
	}{
		"none":                     {nil, 0},
		"to what is faster":        {[]moved{at(10, "c>d", "switch", "x", "y")}, 0},
		"both pairs":               {[]moved{at(11, "a>b", "switch", "x", "y"), at(10, "c>d", "switch", "x", "y")}, 0},
		"and on to what is slower": {[]moved{at(20, "c>d", "switch", "y", "z"), at(10, "c>d", "switch", "x", "y")}, 1},
		"back and forth": {[]moved{at(10, "c>d", "switch", "x", "y"), at(20, "c>d", "switch", "y", "x"),
			at(25, "c>d", "switch", "x", "y")}, 3},
		"nothing tells":      {[]moved{at(10, "a>b", "switch", "x", "y")}, 1},
		"nothing had failed": {[]moved{at(10, "c>d", "failover", "x", "y"), at(10, "a>b", "fallback", "x", "y")}, 2},
	} {
		if got := falseMoves(tt.all, asked, 0, 30*time.Second); got != tt.want {
			t.Errorf("%s: %d false, want %d", name, got, tt.want)
		}
	}
}
