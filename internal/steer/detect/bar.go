package detect

import "time"

// Bar keeps a pair off a path on which its connections time out though probes pass: data
// count for more. Only trying tells when they pass again, at a distance that grows with the
// time for which they are known not to.
type Bar struct {
	// first is when they did not pass first, and raised when last.
	first, raised, until time.Time
}

// Raise bars the path, for a part of the time since its connections did not pass first. That
// is forgotten once they have passed for as long as they did not, or for BarForgotten. A path
// that is tried before its time, as there is nothing better, is barred for no longer by it.
func (b *Bar) Raise(params *Params, now time.Time) {
	if now.Sub(b.until) > min(max(b.raised.Sub(b.first), params.BarFirst), params.BarForgotten) {
		b.first = now
	}
	lasts := min(max(now.Sub(b.first)/time.Duration(params.BarPart), params.BarFirst), params.BarMost)
	b.raised, b.until = now, now.Add(lasts)
}

// Over is since when the path is not barred any more; negative while it is.
func (b *Bar) Over(now time.Time) time.Duration { return now.Sub(b.until) }

// Left is for how long the path is barred still; 0 if it is not.
func (b *Bar) Left(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// Lift has the path be tried at once.
func (b *Bar) Lift(now time.Time) { b.until = now }
