package detect

import "time"

// Bar keeps a pair off a path on which its connections time out though probes pass: data
// count for more. Only trying tells when they pass again, later each time.
type Bar struct {
	until time.Time
	lasts time.Duration
}

// Raise bars the path, for longer each time unless the last time was long ago.
func (b *Bar) Raise(params *Params, now time.Time) {
	if now.Sub(b.until) > params.BarForgotten {
		b.lasts = 0
	}
	b.lasts = min(max(2*b.lasts, params.BarFirst), params.BarMost)
	b.until = now.Add(b.lasts)
}

// Left is for how long the path is barred still; 0 if it is not.
func (b *Bar) Left(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// Lift has the path be tried at once.
func (b *Bar) Lift(now time.Time) { b.until = now }

// Outweighs reports whether so many timeouts in a row of a connection say by themselves
// that data does not pass. Where answers come to the pair's own questions, these are asked
// at the first ones: a receiver that is slow to acknowledge causes a timeout too (rto_min).
func (p *Path) Outweighs(inARow uint32, now time.Time) bool {
	return int(inARow) >= p.params.TimeoutsInARow || !p.Telling(now)
}
