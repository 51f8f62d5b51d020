package probe

import (
	"slices"
	"time"
)

const (
	driftBuckets = 8
	driftBucket  = 8 * time.Second
	driftRecent  = 8
	// maxDrift bounds what is believed of two quartz clocks.
	maxDrift = 200e-6
)

// drift keeps the least of one direction's delays for each of the last spans of
// time, and the last few delays. A delay here is the difference of two clocks'
// readings, so it has an unknown constant and grows as the clocks drift apart.
type drift struct {
	fixed bool // both clocks are one
	n     int  // buckets ever
	m     int  // delays ever
	at    time.Time
	*delays
}

// delays are those that a drift keeps: nil before the first, as most hosts have no traffic with each other.
type delays struct {
	least  [driftBuckets]minimum
	recent [driftRecent]time.Duration
}

type minimum struct {
	start, at time.Time
	delay     time.Duration
}

func (d *drift) add(at time.Time, delay time.Duration) {
	if d.delays == nil {
		d.delays = &delays{}
	}
	d.recent[d.m%driftRecent] = delay
	d.m++
	if at.After(d.at) {
		d.at = at
	}
	if d.n > 0 {
		b := &d.least[(d.n-1)%driftBuckets]
		if at.Sub(b.start) < driftBucket {
			if delay < b.delay {
				b.delay, b.at = delay, at
			}
			return
		}
	}
	d.least[d.n%driftBuckets] = minimum{at, at, delay}
	d.n++
}

// median is that of the last few delays.
func (d *drift) median() time.Duration {
	v := d.recent
	s := v[:min(d.m, driftRecent)]
	slices.Sort(s)
	return s[len(s)/2]
}

// rises says how far each direction's delay is above its least, corrected by
// the drift. A drift lengthens one direction as it shortens the other, and
// steadily: so it is the median, over neighbouring spans, of the slope of half
// the directions' difference. A queue that builds in one direction is a step,
// which moves one slope of many.
func rises(f, b *drift) (forward, back time.Duration, known bool) {
	if f.m < driftRecent {
		return 0, 0, false
	}
	slope := 0.0
	if !f.fixed {
		slope = slopeOf(f, b)
	}
	return max(f.median()-f.floor(slope), 0), max(b.median()-b.floor(-slope), 0), true
}

// floor is the least delay, as it would be now.
func (d *drift) floor(slope float64) time.Duration {
	var low time.Duration
	for i := range min(d.n, driftBuckets) {
		m := d.least[i]
		now := m.delay + time.Duration(slope*float64(d.at.Sub(m.at)))
		if i == 0 || now < low {
			low = now
		}
	}
	return low
}

// slopeOf is by how much f grows and b shrinks per time. Both have the same
// number of buckets, as every reply feeds both.
func slopeOf(f, b *drift) float64 {
	k := min(f.n, driftBuckets)
	if k < 3 {
		return 0
	}
	var buf [driftBuckets]float64
	slopes := buf[:0]
	for i := f.n - k + 1; i < f.n; i++ {
		p, q := f.least[(i-1)%driftBuckets], f.least[i%driftBuckets]
		r, s := b.least[(i-1)%driftBuckets], b.least[i%driftBuckets]
		over := (q.at.Sub(p.at) + s.at.Sub(r.at)) / 2
		if over > 0 {
			slopes = append(slopes, float64((q.delay-p.delay)-(s.delay-r.delay))/2/float64(over))
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return min(max(slopes[len(slopes)/2], -maxDrift), maxDrift)
}
