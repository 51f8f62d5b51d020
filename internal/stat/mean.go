package stat

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// usual is the number of repetitions below which an interval, though right,
// is too wide to be of use: t is 12.7 with two and 4.3 with three.
const usual = 3

// MeanT is the mean of values with the interval of Student's t, n-1 degrees of
// freedom, at the given level. Values are one per repetition, that is per
// rebuilt network. Those that are not finite are left out with a warning.
// One value gives a centre without bounds, none gives NaN.
func MeanT(values []float64, level float64) Interval {
	kept, dropped := finiteOnly(values)
	m := momentsOf(kept)
	out := Interval{Center: m.mean, Low: math.Inf(-1), High: math.Inf(1), N: m.n, Level: level, Method: MeanStudent}
	out.Warnings = inputWarnings(m.n, dropped)
	if !validLevel(level) {
		out.warn("level", "level %g is not between 0 and 1", level)
		return out
	}
	if m.n < 2 {
		return out
	}
	half := TQuantile((1+level)/2, float64(m.n-1)) * m.stderr()
	out.Low, out.High = m.mean-half, m.mean+half
	if m.sd == 0 {
		out.warn("constant", "all %d values are equal: the width 0 is no proof of certainty", m.n)
	}
	return out
}

// Median of the values, of which it sorts a copy; NaN without any.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Narrow is the stopping rule of a cell: it tells whether there are at least
// least values (never fewer than 2) and the interval's relative half width is
// at most target, 0.05 for +-5 %. Looking after every repetition makes the
// final interval cover a little less often than its level says, the less so
// the greater least is: with 5, at least 92 % where 95 % is asked (TestNarrowCoverage).
func Narrow(values []float64, level, target float64, least int) bool {
	i := MeanT(values, level)
	return i.N >= max(least, 2) && i.RelHalfWidth() <= target
}

// TQuantile is the value below which a Student t variable with df degrees of
// freedom lies with probability p. NaN unless p is in (0,1) and df positive.
func TQuantile(p, df float64) float64 {
	if !validLevel(p) || !(df > 0) {
		return math.NaN()
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// moments are the count, mean and sample standard deviation (divisor n-1) of values.
type moments struct {
	n        int
	mean, sd float64
}

func (m moments) stderr() float64 { return m.sd / math.Sqrt(float64(m.n)) }

func momentsOf(values []float64) moments {
	m := moments{n: len(values), mean: math.NaN()}
	if m.n == 0 {
		return m
	}
	if constant(values) {
		// Summing equal values can round, which would pretend a variance.
		m.mean = values[0]
		return m
	}
	// The values may be near the end of float64's range, so the sum is scaled.
	m.mean = 0
	for _, v := range values {
		m.mean += v / float64(m.n)
	}
	for _, v := range values {
		m.sd = math.Hypot(m.sd, v-m.mean)
	}
	m.sd /= math.Sqrt(float64(m.n - 1))
	return m
}

func constant(values []float64) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

func finiteOnly(values []float64) (kept []float64, dropped int) {
	for _, v := range values {
		if isFinite(v) {
			kept = append(kept, v)
		}
	}
	return kept, len(values) - len(kept)
}

func validLevel(level float64) bool { return level > 0 && level < 1 }

// inputWarnings says what n usable and dropped unusable values call for.
func inputWarnings(n, dropped int) (out []Warning) {
	if dropped > 0 {
		out = append(out, Warning{"not-finite", fmt.Sprintf("%d values that are not finite numbers were left out", dropped)})
	}
	switch {
	case n < 2:
		out = append(out,
			Warning{"repetitions", fmt.Sprintf("%d repetitions: needs >= %d repetitions for an interval", n, usual)})
	case n < usual:
		out = append(out,
			Warning{"repetitions", fmt.Sprintf("%d repetitions make a very wide interval: needs >= %d", n, usual)})
	}
	return out
}
