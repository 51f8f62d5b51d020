package decide

import (
	"math"
	"time"

	"pathwise.dev/pathwise/internal/stat"
)

// LossEstimate is what a switch costs, in seconds of the pair's traffic.
type LossEstimate struct {
	Mean float64 `json:"mean_s"`
	// Upper is the bound that a gain must beat.
	Upper float64 `json:"upper_s"`
	// N is the number of switches behind it; 0 makes it an assumption.
	N int `json:"n"`
}

// upper is PaperLoss until switches have been measured: its manager reconnected at each switch. A
// packet switch costs far less, so that errs towards staying.
func (l LossEstimate) upper() float64 {
	if l.N == 0 && l.Upper == 0 {
		return PaperLoss
	}
	return max(l.Upper, 0)
}

// Interval is what a pair's application got in a span of time.
type Interval struct {
	For        time.Duration `json:"for_ns"`
	Bytes      float64       `json:"bytes"`
	Operations float64       `json:"operations,omitempty"`
}

// Loss is what one switch cost.
type Loss struct {
	Bytes      float64 `json:"bytes"`
	Operations float64 `json:"operations"`
	// Seconds of traffic at the lesser of the rates before and after; negative
	// when more than that was carried.
	Seconds float64 `json:"seconds"`
}

// comparable is by how much the rates before and after a switch may differ for its
// loss to be told from what else has changed.
const comparable = 2.0

// LossOf compares what was carried around a switch with what surely would have
// been: the lesser of the median rates before and after. A gain after the
// switch is therefore not counted against its loss. It is within the time that is
// looked at, either way. ok is false where there is nothing to compare with: no
// traffic, or the rates before and after are so unlike that another load, or another
// state of the path, says more than the switch. A flow that had just begun would
// else have gained an hour by being switched, and its scatter forbid every other.
func LossOf(before, around, after []Interval) (l Loss, ok bool) {
	bytes := func(i Interval) float64 { return i.Bytes }
	ops := func(i Interval) float64 { return i.Operations }
	was, is := medianRate(before, bytes), medianRate(after, bytes)
	rate := min(was, is)
	if !(rate > 0) || len(around) == 0 || max(was, is) > comparable*rate {
		return Loss{}, false
	}
	span := 0.0
	opRate := min(medianRate(before, ops), medianRate(after, ops))
	for _, i := range around {
		span += i.For.Seconds()
		l.Bytes += rate*i.For.Seconds() - i.Bytes
		if opRate > 0 {
			l.Operations += opRate*i.For.Seconds() - i.Operations
		}
	}
	l.Seconds = max(l.Bytes/rate, -span)
	return l, true
}

// medianRate is the median of the intervals' rates; NaN without any.
func medianRate(in []Interval, of func(Interval) float64) float64 {
	var rates []float64
	for _, i := range in {
		if i.For > 0 {
			rates = append(rates, of(i)/i.For.Seconds())
		}
	}
	return stat.Median(rates)
}

// SwitchLoss is the running estimate of what a switch costs. The zero value
// knows nothing. It is a value: Add returns the next.
type SwitchLoss struct {
	Count  int     `json:"count"`
	MeanS  float64 `json:"mean_s"`
	Spread float64 `json:"spread"`
}

// memoryOf is the number of switches that the estimate remembers: older ones
// fade, since the cost changes with load and network.
const memoryOf = 50

// Add counts the loss of a switch. Failovers are left out: what was lost there
// was lost to the fault and not to the move.
func (s SwitchLoss) Add(kind Kind, l Loss) SwitchLoss {
	if kind != Switch || math.IsNaN(l.Seconds) || math.IsInf(l.Seconds, 0) {
		return s
	}
	s.Count++
	n := float64(min(s.Count, memoryOf))
	// Welford's update, with the weight of the newest bounded from below.
	d := l.Seconds - s.MeanS
	s.MeanS += d / n
	s.Spread += (d*(l.Seconds-s.MeanS) - s.Spread) / n
	return s
}

// Estimate is the mean and its upper bound: one-sided 95 % of the mean, by
// Student's t. Below three switches it is what was assumed, or what was seen
// where that is more.
func (s SwitchLoss) Estimate() LossEstimate {
	out := LossEstimate{Mean: max(s.MeanS, 0), N: s.Count}
	n := min(s.Count, memoryOf)
	if n < 3 {
		out.Upper = max(PaperLoss, out.Mean)
		if s.Count == 0 {
			out.Mean = PaperLoss
		}
		return out
	}
	// Spread is the population's variance; Bessel's correction makes it the sample's.
	deviation := math.Sqrt(max(s.Spread, 0) / float64(n-1))
	out.Upper = max(s.MeanS+stat.TQuantile(0.95, float64(n-1))*deviation, 0)
	return out
}
