package iperf3

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// wire is a network and a generator as the search sees them.
type wire struct {
	// carries is what gets through unharmed, sends what the generator can do.
	carries, sends float64
	// collapse is the part of carries that an overloaded receiver still gets.
	collapse float64
	// disturb returns the part lost in trial n, whatever the rate.
	disturb func(n int) float64
	trials  []float64
}

func (w *wire) try(rate float64) (attempt, error) {
	w.trials = append(w.trials, rate)
	a := attempt{Intended: rate, Sent: math.Min(rate, w.sends)}
	a.Got = a.Sent
	if a.Sent > w.carries {
		a.Got = w.carries * w.collapse
	}
	if w.disturb != nil {
		a.Got *= 1 - w.disturb(len(w.trials))
	}
	a.Loss = 1 - a.Got/a.Sent
	return a, nil
}

var testGoal = goal{Least: 1e6, Most: 1e12, Loss: 0.001, Hopeless: 0.1, Repeats: 2, Precision: 0.03, Trials: 60}

func TestSearch(t *testing.T) {
	every := func(n int, loss float64) func(int) float64 {
		return func(trial int) float64 {
			if trial%n == 0 {
				return loss
			}
			return 0
		}
	}
	for name, tc := range map[string]struct {
		wire  wire
		most  float64
		want  float64 // the true highest rate; what is found lies at most 3 % below
		bound bool
		limit int // of trials
	}{
		"clean":                 {wire: wire{carries: 1e9, sends: 4e9, collapse: 1}, want: 1e9, limit: 16},
		"receiver collapses":    {wire: wire{carries: 1e9, sends: 4e9, collapse: 0.3}, want: 1e9, limit: 16},
		"receiver all but dies": {wire: wire{carries: 1e9, sends: 4e9, collapse: 1e-6}, want: 1e9, limit: 40},
		"generator is the limit": {wire: wire{carries: 1e12, sends: 3e9, collapse: 1}, want: 3e9 / (1 - shortfall),
			bound: true, limit: 3},
		"most allowed passes": {wire: wire{carries: 1e9, sends: 4e9, collapse: 1}, most: 5e8, want: 5e8, limit: 1},
		"slow":                {wire: wire{carries: 2e6, sends: 4e9, collapse: 1}, want: 2e6, limit: 20},
		"every third trial is hit": {wire: wire{carries: 1e9, sends: 4e9, collapse: 1, disturb: every(3, 0.02)}, want: 1e9,
			limit: 25},
		"every second trial is hit": {wire: wire{carries: 1e9, sends: 4e9, collapse: 1, disturb: every(2, 0.05)}, want: 1e9,
			limit: 30},
	} {
		g := testGoal
		if tc.most != 0 {
			g.Most = tc.most
		}
		f, err := search(g, tc.wire.try)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Rate > tc.want*(1+g.Loss) || f.Rate < tc.want/(1+2*g.Precision) || f.Bound != tc.bound {
			t.Errorf("%s: found %.4g, bound %v; want just below %.4g, %v: %v", name, f.Rate, f.Bound, tc.want, tc.bound, f.log())
		}
		if len(f.Trials) > tc.limit || len(f.Trials) != len(tc.wire.trials) {
			t.Errorf("%s: %d trials of %d told, want at most %d: %s", name, len(f.Trials), len(tc.wire.trials), tc.limit,
				f.log())
		}
	}
}

// TestSearchBelievesNoSingleLoss: a loss within reason is tried again at the
// same rate, a hopeless one is not.
func TestSearchBelievesNoSingleLoss(t *testing.T) {
	count := func(loss float64) int {
		n := 0
		f, err := search(goal{Least: 1e6, Most: 1e6, Loss: 0.001, Hopeless: 0.1, Repeats: 2, Precision: 0.03, Trials: 60},
			func(rate float64) (attempt, error) {
				n++
				return attempt{Intended: rate, Sent: rate, Got: rate * (1 - loss), Loss: loss}, nil
			})
		if err == nil || len(f.Trials) != n {
			t.Errorf("loss %g: found %+v, want an error and all trials told", loss, f)
		}
		return n
	}
	if n := count(0.05); n != 3 {
		t.Errorf("a loss of 5 %% was tried %d times, want 3", n)
	}
	if n := count(0.5); n != 1 {
		t.Errorf("a loss of 50 %% was tried %d times, want 1", n)
	}
}

func TestSearchSaysWhyItFailed(t *testing.T) {
	w := wire{carries: 1e9, sends: 4e9, collapse: 1, disturb: func(int) float64 { return 0.005 }}
	if _, err := search(testGoal, w.try); err == nil || !strings.Contains(err.Error(), "0.5 % are lost") {
		t.Errorf("got %v, want an error that tells the loss", err)
	}
	broken := errors.New("broken")
	n := 0
	_, err := search(testGoal, func(rate float64) (attempt, error) {
		if n++; n == 3 {
			return attempt{}, broken
		}
		return w.try(rate)
	})
	if !errors.Is(err, broken) || n != 3 {
		t.Errorf("got %v after %d trials, want the trial's error at once", err, n)
	}
	few := testGoal
	few.Trials = 5
	w = wire{carries: 1e9, sends: 4e9, collapse: 1}
	if f, err := search(few, w.try); err != nil || len(f.Trials) > 7 || f.Rate > 1e9 || f.Failed < 1e9 ||
		f.Failed <= f.Rate*1.03 {
		t.Errorf("cut short: found %+v, %v; want bounds around the truth", f, err)
	}
	silent := func(rate float64) (attempt, error) { return attempt{Intended: rate, Sent: rate, Loss: 1}, nil }
	if _, err := search(testGoal, silent); err == nil {
		t.Error("a network that carries nothing: want an error")
	}
}

// TestSearchEnds: whatever the disturbances, the search ends, and never finds a
// rate that the wire cannot carry.
func TestSearchEnds(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := wire{carries: 1e6 * math.Pow(10, 4*r.Float64()), sends: 1e7 * math.Pow(10, 3*r.Float64()), collapse: r.Float64()}
		w.disturb = func(int) float64 {
			if r.IntN(3) == 0 {
				return r.Float64() * r.Float64()
			}
			return 0
		}
		f, err := search(testGoal, w.try)
		if len(w.trials) > testGoal.Trials+testGoal.Repeats {
			t.Errorf("seed %d: %d trials", seed, len(w.trials))
		}
		if most := math.Min(w.carries, w.sends/(1-shortfall)); err == nil && f.Rate > most*1.002 {
			t.Errorf("seed %d: found %.4g on a wire that carries %.4g", seed, f.Rate, most)
		}
	}
}
