package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Power is the chance with which a change of the size that Detectable names is found.
const Power = 0.8

// Shift is the difference between the means of two runs, on the scale on which it is
// judged, as an estimate with its error.
type Shift struct {
	// Delta is the mean of b less that of a: of logarithms where Log is set.
	Delta float64
	// Stderr is its standard error by what the repetitions of each run scatter, and DF
	// the degrees of freedom of Welch and Satterthwaite.
	Stderr, DF float64
	// SD is the root of the mean variance of the two runs, a repetition's.
	SD  float64
	Log bool
	// Drift is the standard deviation, and DriftDF what is known of it, that runs of the
	// same thing differ by beyond what their repetitions tell.
	Drift, DriftDF float64
}

// ShiftOf estimates the shift from a to b, on logarithms where every value is positive.
// ok is false where a side has fewer than two values, or neither varies.
func ShiftOf(a, b []float64) (s Shift, ok bool) {
	a, _ = finiteOnly(a)
	b, _ = finiteOnly(b)
	if min(len(a), len(b)) < 2 {
		return s, false
	}
	if positive(a) && positive(b) {
		a, b, s.Log = logs(a), logs(b), true
	}
	ma, mb := momentsOf(a), momentsOf(b)
	d := difference(mb, ma)
	s.Delta, s.Stderr, s.DF = d.delta, d.stderr, d.df
	s.SD = math.Hypot(ma.sd, mb.sd) / math.Sqrt2
	return s, d.stderr > 0
}

// Drifting is the shift with the standard deviation by which runs of the same thing differ
// beyond what their repetitions say, known by df degrees of freedom.
func (s Shift) Drifting(sd, df float64) Shift {
	if sd > 0 {
		s.Drift, s.DriftDF = sd, df
	}
	return s
}

// Birge is the factor by which shifts differ from what their errors say, 1 at least: the root
// of the sum of the squares of their Z over the quantile of chi-squared with df degrees of
// freedom (Birge 1932; Review of Particle Physics, section 5.2.2, divides by df). The lower
// the quantile, the surer it is that the factor is not too small.
func Birge(squares, df, quantile float64) float64 {
	return math.Sqrt(max(1, squares/distuv.ChiSquared{K: df}.Quantile(quantile)))
}

// total is the standard error with drift, and its degrees of freedom by Satterthwaite.
func (s Shift) total() (stderr, df float64) {
	stderr = math.Hypot(s.Stderr, s.Drift)
	if s.Drift == 0 {
		return stderr, s.DF
	}
	own, drift := math.Pow(s.Stderr/stderr, 4), math.Pow(s.Drift/stderr, 4)
	return stderr, 1 / (own/s.DF + drift/s.DriftDF)
}

// P is the two-sided p-value of no shift but drift.
func (s Shift) P() float64 {
	stderr, df := s.total()
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Survival(math.Abs(s.Delta/stderr))
}

// Z is the standard normal quantile that is as far out as the shift, drift left aside: its
// square is 1 on average where nothing has changed, however few the repetitions.
func (s Shift) Z() float64 { return s.About(0) }

// About is Z of the shift less center.
func (s Shift) About(center float64) float64 {
	t := (s.Delta - center) / s.Stderr
	p := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: s.DF}.Survival(math.Abs(t))
	return math.Copysign(distuv.UnitNormal.Quantile(1-max(p, 1e-15)), t)
}

// Widen puts the shift's bounds, drift included, about the centre of a ratio.
func (s Shift) Widen(i Interval) Interval {
	if !s.Log || !i.Bounded() || s.Drift == 0 {
		return i
	}
	stderr, df := s.total()
	half := TQuantile((1+i.Level)/2, df) * stderr
	i.Low, i.High = i.Center*math.Exp(-half), i.Center*math.Exp(half)
	return i
}

// Wider is the interval of a mean whose error is by a factor larger, as df degrees of freedom tell.
func (i Interval) Wider(factor, df float64) Interval {
	if i.Method != MeanStudent || !i.Bounded() || factor <= 1 || i.N < 2 || i.High == i.Low {
		return i
	}
	s := Shift{Stderr: (i.High - i.Low) / 2 / i.quantile(i.N), DF: float64(i.N - 1)}
	s = s.Drifting(s.Stderr*math.Sqrt(factor*factor-1), df)
	stderr, df := s.total()
	half := TQuantile((1+i.Level)/2, df) * stderr
	i.Low, i.High = i.Center-half, i.Center+half
	return i
}

// Detectable is the smallest shift, on its scale, that a two-sided test at alpha would find
// with the chance power: the minimum detectable effect of Bloom (1995, Evaluation Review
// 19(5)). With t the critical value, df the degrees of freedom and z the normal quantile of
// power, it is t(1 - 1/4df) + z sqrt(1 + t^2/2df) standard errors, from the approximation of
// Johnson and Welch (1940) to the noncentral t (Abramowitz and Stegun, 26.7.10). Bloom's sum
// of two quantiles of t is too small for a handful of repetitions.
func (s Shift) Detectable(alpha, power float64) float64 {
	stderr, df := s.total()
	t := TQuantile(1-alpha/2, df)
	return stderr * (t*(1-1/(4*df)) + distuv.UnitNormal.Quantile(power)*math.Sqrt(1+t*t/(2*df)))
}

// Repetitions is how many each run needs so that Detectable is delta or less. Repetitions
// do not take drift away: 0 where most would not do.
func (s Shift) Repetitions(delta, alpha, power float64, most int) int {
	need := func(n int) bool {
		t := s
		t.Stderr, t.DF = s.SD*math.Sqrt(2/float64(n)), float64(2*(n-1))
		return t.Detectable(alpha, power) <= delta
	}
	// With drift more repetitions can also leave less known of the whole error: what is
	// looked for is the first number that will do, from below.
	for low, high := 1, 2; high <= most; low, high = high, high+(high+1)/2 {
		if !need(high) {
			continue
		}
		for high-low > 1 {
			if mid := (low + high) / 2; need(mid) {
				high = mid
			} else {
				low = mid
			}
		}
		return high
	}
	return 0
}

// FalseDiscovery adjusts p-values so that, of those that are then below a level, no larger
// share is false on average (Benjamini and Hochberg 1995). It holds for tests that are
// independent or depend on each other positively (Benjamini and Yekutieli 2001). NaN stays
// NaN and is not counted.
func FalseDiscovery(p []float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, len(p))
	order := ascending(p)
	least := 1.0
	for rank := len(order); rank > 0; rank-- {
		i := order[rank-1]
		least = min(least, p[i]*float64(len(order))/float64(rank))
		out[i] = least
	}
	return out
}

// ascending are the places of the numbers of p, the least first.
func ascending(p []float64) (order []int) {
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	return order
}

// TrendOf is what a least-squares line through the blocks, in their order, rises by from
// the first to the last, with the interval of its slope.
func TrendOf(b Blocks, level float64) Interval {
	y := b.Values()
	n := float64(len(y))
	out := Interval{Center: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), N: len(y), Level: level, Method: Trend}
	if len(y) < 3 || !validLevel(level) {
		return out
	}
	mean, middle := momentsOf(y).mean, (n-1)/2
	sxy, sxx := 0.0, 0.0
	for i, v := range y {
		x := float64(i) - middle
		sxy += x * (v - mean)
		sxx += x * x
	}
	slope, rest := sxy/sxx, 0.0
	for i, v := range y {
		d := v - mean - slope*(float64(i)-middle)
		rest += d * d
	}
	half := TQuantile((1+level)/2, n-2) * math.Sqrt(rest/(n-2)/sxx) * (n - 1)
	out.Center = slope * (n - 1)
	out.Low, out.High = out.Center-half, out.Center+half
	return out
}
