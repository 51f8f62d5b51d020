package agent

import (
	"math/rand/v2"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
)

// TestArrivals: of what came to others than a pair it is the latest that counts.
func TestArrivals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	params, begin := detect.Pairs(), time.Unix(1e9, 0)
	for range 200 {
		var a arrivals
		var all []*pair
		for range rnd.IntN(6) {
			p := &pair{lines: newLines(1, &params)}
			p.gaps.shared.most = time.Duration(rnd.IntN(50)) * ms
			ln := &p.lines[0]
			ln.silence.Came = begin.Add(time.Duration(rnd.IntN(5)) * 10 * ms) // some at the same time
			if ln.tx = float64(rnd.IntN(3)); rnd.IntN(4) == 0 {
				ln.Signaled(begin)
			}
			all = append(all, p)
			a.add(p, 0, begin)
		}
		for _, p := range append(all, nil) {
			var came, next time.Time
			for _, o := range all {
				ln := &o.lines[0]
				if o == p || !ln.sends() || ln.Down() {
					continue
				}
				if ln.silence.Came.After(came) {
					came = ln.silence.Came
				}
				if due := ln.silence.Came.Add(o.gaps.shared.most); due.After(next) {
					next = due
				}
			}
			if gotCame, gotNext := a.but(p); !gotCame.Equal(came) || !gotNext.Equal(next) {
				t.Fatalf("came at %v, next by %v; want %v and %v", gotCame, gotNext, came, next)
			}
		}
	}
}
