package stream

import (
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// Stall is the longest gap on any one connection that lies between the two
// times, wholly or in part; it is returned whole, since a gap that a fault
// opened began with the last arrival before the fault. Not found means that
// none was longer than r.Gaps.Floor.
func Stall(r Report, from, to time.Duration) (longest Gap, found bool) {
	for _, g := range r.Gaps.List {
		if g.From < to && g.To > from && (!found || g.Length() > longest.Length()) {
			longest, found = g, true
		}
	}
	return longest, found
}

// Throughput is how many of the report's units came per second between the two
// times. Time before the start and after the end counts as time without any.
func Throughput(r Report, from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	return r.Bins.Sum(from, to) / (to - from).Seconds()
}

// Point of a series: the rate per second in the step that begins At.
type Point struct {
	At   time.Duration `json:"at_ns"`
	Rate float64       `json:"rate"`
}

// Series is the rate between two times, in as many equal steps as have at least the given
// length, and that of a bin. A rest of a few milliseconds would be no step: what a socket
// hands over at once would be divided by next to no time.
func Series(r Report, from, to, step time.Duration) []Point {
	step = max(step, r.Bins.Width)
	if step <= 0 || to <= from {
		return nil
	}
	n := max((to-from)/step, 1)
	points := make([]Point, 0, n)
	for i := range n {
		begin, end := from+(to-from)*i/n, from+(to-from)*(i+1)/n
		points = append(points, Point{begin, Throughput(r, begin, end)})
	}
	return points
}

// absorb adds what another report, or one connection of this one, counted.
func (r *Report) absorb(o Report) error {
	if err := r.Bins.merge(o.Bins); err != nil {
		return err
	}
	r.Ended = max(r.Ended, o.Ended)
	r.Gaps.merge(o.Gaps)
	r.Counts.add(o.Counts)
	r.Errors.merge(o.Errors)
	r.Latency, r.Lag = merged(r.Latency, o.Latency), merged(r.Lag, o.Lag)
	if o.Spacing != nil {
		if r.Spacing == nil {
			r.Spacing = newSpacing()
		}
		r.Spacing.merge(o.Spacing)
	}
	for k, v := range o.Details {
		if r.Details == nil {
			r.Details = map[string]string{}
		}
		r.Details[k] = v
	}
	return nil
}

// merged adds o to h, either of which may be nil; h may change.
func merged(h, o *sample.Histogram) *sample.Histogram {
	if o == nil {
		return h
	}
	if h == nil {
		h = sample.NewHistogram()
	}
	h.Merge(o)
	return h
}
