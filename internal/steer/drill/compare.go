package drill

import (
	"math"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/stat"
)

// Verdict is what a comparison says of a figure.
type Verdict string

// Verdicts. A figure without a bar has no better and worse.
const (
	Better  Verdict = "better"
	Worse   Verdict = "worse"
	Changed Verdict = "changed"
	Same    Verdict = "~"
	// TooFew: no change could have been seen, as there are too few values.
	TooFew Verdict = "too few"
)

// Change is one figure in two results of drills.
type Change struct {
	A, B Figure
	// P of a permutation test that the statistic is the same, and adjusted for the
	// number of figures; NaN where it was not made.
	P, Adjusted float64
	Verdict     Verdict
}

// Crossed tells whether the figure meets its bar in one result alone.
func (c Change) Crossed() bool { return c.A.Met() != c.B.Met() }

// Significant tells whether the verdict is one of change.
func (c Change) Significant() bool {
	return c.Verdict == Better || c.Verdict == Worse || c.Verdict == Changed
}

// Comparison is two results of drills, figure by figure.
type Comparison struct {
	Changes []Change
	// OnlyA and OnlyB are figures that one of them has.
	OnlyA, OnlyB []Figure
}

// CompareOptions say which figures are tested together, and how.
type CompareOptions struct {
	// All figures are one family; else those of a drill are.
	All bool
	// Discovery bounds the share of false claims (Benjamini and Hochberg 1995) in
	// place of the chance of any (Holm 1979).
	Discovery bool
}

// level at which verdicts are drawn.
const level = 0.05

// Compare says which figures differ between two results by more than chance. Those
// of which nothing was measured are left out.
func Compare(a, b []Figure, o CompareOptions) Comparison {
	var out Comparison
	missing := func(f Figure) bool { return f.N == 0 }
	left := slices.DeleteFunc(slices.Clone(b), missing)
	for _, f := range slices.DeleteFunc(slices.Clone(a), missing) {
		i := slices.IndexFunc(left, func(g Figure) bool { return g.Drill == f.Drill && g.Name == f.Name && g.Unit == f.Unit })
		if i < 0 {
			out.OnlyA = append(out.OnlyA, f)
			continue
		}
		out.Changes = append(out.Changes, Change{A: f, B: left[i], P: permutation(f, left[i])})
		left = slices.Delete(left, i, i+1)
	}
	out.OnlyB = left
	for from := 0; from < len(out.Changes); {
		to := from + 1
		for to < len(out.Changes) && (o.All || out.Changes[to].A.Drill == out.Changes[from].A.Drill) {
			to++
		}
		conclude(out.Changes[from:to], o)
		from = to
	}
	return out
}

// conclude draws the verdicts of figures that are tested together.
func conclude(family []Change, o CompareOptions) {
	p := make([]float64, len(family))
	tested := 0
	for i, c := range family {
		if p[i] = c.P; !math.IsNaN(c.P) {
			tested++
		}
	}
	adjusted := stat.Holm(p)
	if o.Discovery {
		adjusted = stat.FalseDiscovery(p)
	}
	for i := range family {
		c := &family[i]
		c.Adjusted = adjusted[i]
		switch {
		case math.IsNaN(c.P), c.Adjusted >= level && least(len(c.A.values), len(c.B.values))*float64(tested) >= level:
			c.Verdict = TooFew
		case c.Adjusted >= level:
			c.Verdict = Same
		default:
			c.Verdict = direction(c.A, c.B)
		}
	}
}

// direction is which way a figure has changed.
func direction(a, b Figure) Verdict {
	bar := b.Bar
	if bar == nil {
		bar = a.Bar
	}
	switch more := b.statistic(b.values) > a.statistic(a.values); {
	case bar == nil:
		return Changed
	case more == bar.AtLeast:
		return Better
	}
	return Worse
}

// shuffles of a permutation test.
const shuffles = 10000

// least p that a permutation test of so many values can give.
func least(n, m int) float64 {
	lf := func(k int) float64 { v, _ := math.Lgamma(float64(k + 1)); return v }
	return max(2*math.Exp(lf(n)+lf(m)-lf(n+m)), 1/float64(shuffles+1))
}

// permutation is the p-value of the difference of the figures' statistics, were the
// values of both results from one distribution (Phipson and Smyth 2010). Of one
// value on a side it is NaN. The seed is fixed, as that of bootstrap.
func permutation(a, b Figure) float64 {
	n, m := len(a.values), len(b.values)
	if n < 2 || m < 2 || a.statistic == nil || b.statistic == nil {
		return math.NaN()
	}
	differ := func(x, y []float64) float64 { return math.Abs(a.statistic(x) - a.statistic(y)) }
	seen := differ(a.values, b.values)
	r := rand.New(rand.NewPCG(2010, uint64(n)<<32|uint64(m)))
	pool := slices.Concat(a.values, b.values)
	x, y := make([]float64, n), make([]float64, m)
	hits := 1
	for range shuffles {
		r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		copy(x, pool[:n])
		copy(y, pool[n:])
		slices.Sort(x)
		slices.Sort(y)
		if d := differ(x, y); d >= seen-1e-12*math.Abs(seen) {
			hits++
		}
	}
	return float64(hits) / (shuffles + 1)
}
