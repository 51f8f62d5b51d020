package detect

import "time"

// pause is for how long nothing is asked about what no path has answered: longer each time. The zero value is over.
type pause struct {
	until time.Time
	lasts time.Duration
}

// begin begins one that lasts for first, or twice as long as the one before, up to most.
func (p *pause) begin(first, most time.Duration, now time.Time) {
	p.lasts = min(max(2*p.lasts, first), most)
	p.until = now.Add(p.lasts)
}

// over reports whether it is.
func (p *pause) over(now time.Time) bool { return !now.Before(p.until) }
