package decide

import (
	"math"
	"testing"
)

// TestTrackForgetsTheBeginning: what a connection carried as it began is soon no part of what its path is taken to
// carry, whatever the course was on which it came there.
func TestTrackForgetsTheBeginning(t *testing.T) {
	const full = 177e6
	p := DefaultParams()
	for name, begins := range map[string][]float64{
		"at once":                {},
		"from next to nothing":   {1e4, 1e4, 1e4, 1e4, 1e4, 142e6, 176e6},
		"in the middle of one":   {71e6, 213e6},
		"by slow start":          {1e6, 20e6, 80e6, 140e6},
		"after a slower network": {120e6, 121e6, 119e6, 120e6, 122e6, 118e6, 120e6, 121e6, 120e6},
		"after a faster one":     {250e6, 249e6, 251e6, 250e6, 252e6, 248e6, 250e6, 251e6, 250e6},
	} {
		var k Track
		for _, rate := range begins {
			k.observe(Data{Goodput: rate}, &p.Track)
		}
		for n := range 20 {
			k.observe(Data{Goodput: full * (1 + 0.02*math.Sin(float64(7*n)))}, &p.Track)
			got, ok := k.rate(&p.Track)
			if n >= window && (!ok || math.Abs(got/full-1) > 0.06) {
				t.Errorf("%s: %.0f Mbit/s after %d samples of %.0f", name, got/1e6, n+1, full/1e6)
			}
		}
	}
}
