package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Test is a two-sided test of no difference between two sides.
type Test struct {
	// P is the p-value, 0 to 1; NaN where there is no test.
	P float64
	// T and DF are Student's statistic and its degrees of freedom; 0 where
	// Method is not a t test.
	T, DF    float64
	Method   string
	Warnings []Warning
}

// Valid tells whether there is a p-value.
func (t Test) Valid() bool { return !math.IsNaN(t.P) }

// Welch tests whether a and b have the same mean, without assuming the same
// variance: on logarithms when every value is positive, because noise of
// rates and times is a share of their size, else on the values themselves.
//
// A side with fewer than two finite values leaves P at NaN. Where neither side
// varies, no t exists: equal sides give 1, and sides that differ give the
// least p-value that a permutation of so few values can have, 2/C(n+m, n),
// since a variance of 0 in a handful of rounded values is no certainty.
func Welch(a, b []float64) Test {
	a, droppedA := finiteOnly(a)
	b, droppedB := finiteOnly(b)
	out := Test{P: math.NaN(), Method: DifferenceRaw, Warnings: inputWarnings(min(len(a), len(b)), droppedA+droppedB)}
	if positive(a) && positive(b) {
		a, b, out.Method = logs(a), logs(b), DifferenceLog
	}
	if min(len(a), len(b)) < 2 {
		return out
	}
	d := difference(momentsOf(a), momentsOf(b))
	if d.stderr == 0 {
		out.Method, out.P = Permutation, 1
		out.Warnings = append(out.Warnings, Warning{"constant", "neither side varies: the p-value is the least that a permutation test could give"})
		if d.delta != 0 {
			out.P = math.Min(1, 2/choose(len(a)+len(b), len(a)))
		}
		return out
	}
	out.T, out.DF = d.delta/d.stderr, d.df
	out.P = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: d.df}.Survival(math.Abs(out.T))
	return out
}

// Holm adjusts p-values for their number, so that the chance of one false
// rejection among all is at most the level to which the results are compared
// (Holm 1979), however the tests depend on each other. The order is kept. NaN
// represents a test that was not made: it stays NaN and is not counted.
func Holm(p []float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, len(p))
	order := ascending(p)
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, p[i]*float64(len(order)-rank)))
		out[i] = highest
	}
	return out
}

// delta is a difference of two means with its standard error and the degrees
// of freedom of Welch and Satterthwaite; df is 0 where a side has one value.
type delta struct{ delta, stderr, df float64 }

func difference(a, b moments) delta {
	out := delta{delta: a.mean - b.mean}
	if min(a.n, b.n) < 2 {
		return out
	}
	out.stderr = math.Hypot(a.stderr(), b.stderr())
	if out.stderr == 0 {
		out.df = float64(a.n + b.n - 2)
		return out
	}
	// Shares of the variance, so that no tiny one underflows when squared.
	sa, sb := math.Pow(a.stderr()/out.stderr, 4), math.Pow(b.stderr()/out.stderr, 4)
	out.df = 1 / (sa/float64(a.n-1) + sb/float64(b.n-1))
	return out
}

// choose is the binomial coefficient, as a float since it outgrows integers.
func choose(n, k int) float64 {
	out := 1.0
	for i := 1; i <= k; i++ {
		out *= float64(n-k+i) / float64(i)
	}
	return out
}
