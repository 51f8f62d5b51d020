package detect

import "time"

// Bar keeps a pair off a path on which its connections time out though probes pass: data
// count for more. Only trying tells when they pass again, later each time.
type Bar struct {
	raised, until time.Time
	lasts         time.Duration
}

// Raise bars the path, for longer each time unless the last time was long ago. A path that
// was tried before its time, as there was nothing better, is barred for no longer than before:
// the wait grows with the evidence, and there is no more of that for having been tried often.
func (b *Bar) Raise(params *Params, now time.Time) {
	switch {
	case now.Sub(b.until) > params.BarForgotten:
		b.lasts = params.BarFirst
	case !now.Before(b.raised.Add(b.lasts)):
		b.lasts = min(max(2*b.lasts, params.BarFirst), params.BarMost)
	}
	b.raised, b.until = now, now.Add(b.lasts)
}

// Over is since when the path is not barred any more; negative while it is.
func (b *Bar) Over(now time.Time) time.Duration { return now.Sub(b.until) }

// Left is for how long the path is barred still; 0 if it is not.
func (b *Bar) Left(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// Lift has the path be tried at once.
func (b *Bar) Lift(now time.Time) { b.until = now }
