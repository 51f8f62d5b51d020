package detect

import (
	"testing"
	"time"
)

// TestRefusals: those of either end count, each place once and the peer's for a while, and it is known since when there
// are some.
func TestRefusals(t *testing.T) {
	params := Pairs()
	var r Refusals
	long := float64(params.BarFirst/time.Millisecond) + 1
	for n, tt := range []struct {
		at      float64 // ms
		place   uint8
		peers   bool
		own     int
		refused int
		lasts   float64 // ms
	}{
		{at: 0, place: 1, peers: true, refused: 1},
		{at: 40, place: 2, peers: true, refused: 2, lasts: 40},
		{at: 80, place: 2, peers: true, refused: 2, lasts: 80},
		{at: 120, place: 3, own: 1, refused: 3, lasts: 120},
		{at: 120 + long, place: 3, own: 1, refused: 1},
		{at: 160 + long, place: 4, own: 2, refused: 2, lasts: 40},
	} {
		refused, lasts := r.Add(&params, tt.place, tt.peers, tt.own, at(tt.at))
		if refused != tt.refused || lasts != at(tt.lasts).Sub(at(0)) {
			t.Errorf("%d: %d refused for %v, want %d for %v ms", n, refused, lasts, tt.refused, tt.lasts)
		}
	}
}
