package iperf3

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// attempt is one trial of the search, all pairs together, in bits per second.
type attempt struct {
	Intended, Sent, Got float64
	// Loss is the part of what was sent that did not arrive.
	Loss float64
}

// short reports whether the generator sent less than was intended.
func (a attempt) short() bool { return a.Sent < (1-shortfall)*a.Intended }

// loss is the part of what was intended that did not arrive: a load that could
// not be offered counts as lost (RFC 9971), or else a slow generator would
// prove any rate.
func (a attempt) loss() float64 {
	if !a.short() {
		return a.Loss
	}
	return 1 - (1-a.Loss)*a.Sent/a.Intended
}

func (a attempt) String() string {
	return fmt.Sprintf("%.4g: sent %.4g, got %.4g, loss %.3g %%", a.Intended, a.Sent, a.Got, 100*a.Loss)
}

// goal is what the search looks for.
type goal struct {
	// Least and Most bound the rates tried, in bits per second.
	Least, Most float64
	// Loss is the largest loss with which a trial passes.
	Loss float64
	// Hopeless is the loss from which on a trial is believed at once (z of ETSI
	// GS NFV-TST 009, clause 12.3.3); so is one that offered less than half of
	// what was intended.
	Hopeless float64
	// Repeats is how often a trial that lost more than Loss, but is not
	// hopeless, is repeated before it is believed (r of the same clause): one
	// that passes counts, as a loss can be a passing disturbance and its
	// absence cannot.
	Repeats int
	// Precision ends the search: the largest ratio, less 1, of the least rate
	// that failed to the largest that passed.
	Precision float64
	// Trials ends the search too: no further rate is tried after so many.
	Trials int
}

// found is the outcome of a search.
type found struct {
	// Rate is the highest that passed.
	Rate float64
	// Failed is the least rate that did not pass; infinite if the most passed.
	Failed float64
	// Bound says that no higher rate could be offered: the network may carry more.
	Bound bool
	// Trials in the order in which they ran.
	Trials []attempt
}

// log is the trials in one line.
func (f found) log() string {
	text := make([]string, len(f.Trials))
	for i, a := range f.Trials {
		text[i] = a.String()
	}
	return strings.Join(text, "; ")
}

// search bisects for the highest rate whose loss is within the goal, with
// verification of lossy trials (RFC 9004 section 6.2 recommends that of ETSI GS
// NFV-TST 009). It begins at the top: unless that passes, what got through is
// where to look, but only a hint, as an overloaded receiver gets less than it can.
// Where nothing is lost of all that the generator can send, there is nothing to search:
// it is the highest rate that can be offered.
func search(g goal, try func(rate float64) (attempt, error)) (found, error) {
	f := found{Failed: math.Inf(1)}
	for rate := g.Most; ; {
		pass, last, ceiling, err := f.verify(g, rate, try)
		if err != nil {
			return f, err
		}
		if !pass && rate == g.Most && f.lossless(g) {
			f.Rate, f.Failed, f.Bound = ceiling/(1+shortfall), ceiling, true
			return f, nil
		}
		if pass {
			f.Rate = rate
		} else {
			f.Failed, f.Bound = math.Min(rate, math.Max(f.Rate, ceiling)), last.Loss <= g.Loss
		}
		switch {
		case f.Rate == g.Most, f.Rate > 0 && (f.Failed <= f.Rate*(1+g.Precision) || len(f.Trials) >= g.Trials):
			return f, nil
		case f.Rate == 0 && (rate <= g.Least || len(f.Trials) >= g.Trials):
			return f, fmt.Errorf("search the highest rate: even at %.3g bit/s %.3g %% are lost", rate, 100*last.loss())
		case f.Rate == 0 && f.Failed == g.Most:
			rate = math.Max(math.Min(last.Got, g.Most/2), g.Least)
		case f.Rate == 0:
			rate = math.Max(f.Failed/2, g.Least)
		case f.Failed == g.Most:
			rate = math.Min(2*f.Rate, math.Sqrt(f.Rate*f.Failed))
		default:
			rate = math.Sqrt(f.Rate * f.Failed)
		}
	}
}

// verify tries the rate until a trial passes or the failure is believed. The
// ceiling is the rate above which nothing can be offered, as far as repeated
// trials agree on one.
func (f *found) verify(g goal, rate float64, try func(rate float64) (attempt, error)) (pass bool, last attempt,
	ceiling float64, err error) {
	best := 0.0
	for range 1 + g.Repeats {
		if last, err = try(rate); err != nil {
			return false, last, 0, fmt.Errorf("try %.4g bit/s: %w", rate, err)
		}
		f.Trials = append(f.Trials, last)
		best = math.Max(best, last.Sent*(1+shortfall))
		if last.loss() <= g.Loss {
			return true, last, 0, nil
		} else if flood := rate == g.Most && last.Loss <= g.Loss; last.Loss >= g.Hopeless || 2*last.Sent < last.Intended &&
			!flood {
			return false, last, math.Inf(1), nil
		}
	}
	return false, last, best, nil
}

// lossless reports whether all trials so far, at whatever rate, lost no more than the goal.
func (f *found) lossless(g goal) bool {
	return !slices.ContainsFunc(f.Trials, func(a attempt) bool { return a.Loss > g.Loss })
}
