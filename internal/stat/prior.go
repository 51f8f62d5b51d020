package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Spread is what one comparison knows of its own spread.
type Spread struct {
	// Var is the variance of a block, on logarithms for a ratio; DF its degrees of freedom.
	Var, DF float64
}

// Prior is what many comparisons together tell of the spread of any one of them: variances
// are taken to be drawn from a scaled inverse chi-squared distribution around Var with DF
// degrees of freedom. Three repetitions know next to nothing of their own spread, and 20
// comparisons of three a good deal. The more the comparisons differ, the smaller is DF, and
// the less is borrowed. The zero Prior knows nothing.
//
// This is the moderated t of Smyth (2004, Statistical Applications in Genetics and
// Molecular Biology 3:3). An interval made so is right as often as its level says over all
// the comparisons, not for one that varies more than its like: see TestPriorCoverage.
type Prior struct{ Var, DF float64 }

// Limits of what is borrowed.
const (
	// fewSpreads is the number of comparisons below which nothing is borrowed.
	fewSpreads = 8
	// mostBorrowed bounds the degrees of freedom that are borrowed: comparisons share
	// networks, and so know less together than if they were independent.
	mostBorrowed = 8
)

// Pool fits a Prior by the moments of the variances' logarithms (Smyth 2004, section
// 6.2). Those without variance are left out.
func Pool(spreads []Spread) Prior {
	var e []float64
	own := 0.0
	for _, s := range spreads {
		if s.Var > 0 && s.DF > 0 {
			e = append(e, math.Log(s.Var)-mathext.Digamma(s.DF/2)+math.Log(s.DF/2))
			own += trigamma(s.DF / 2)
		}
	}
	if len(e) < fewSpreads {
		return Prior{}
	}
	m := momentsOf(e)
	df := float64(mostBorrowed)
	if left := m.sd*m.sd - own/float64(len(e)); left > 0 {
		df = min(df, 2*trigammaInverse(left))
	}
	return Prior{Var: math.Exp(m.mean + mathext.Digamma(df/2) - math.Log(df/2)), DF: df}
}

// trigamma is the second derivative of the logarithm of the gamma function.
func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// trigammaInverse is the x with trigamma(x) = y: it falls, so that halving finds it.
func trigammaInverse(y float64) float64 {
	low, high := 1e-6, 1e6
	for range 100 {
		if x := math.Sqrt(low * high); trigamma(x) > y {
			low = x
		} else {
			high = x
		}
	}
	return math.Sqrt(low * high)
}

// moderate gives the variance of a block, known by df degrees of freedom, what the prior knows.
func (p Prior) moderate(variance, df float64) (float64, float64) {
	if !(p.DF > 0) {
		return variance, df
	}
	return (p.DF*p.Var + df*variance) / (p.DF + df), df + p.DF
}

// Spread is that of a paired ratio; ok is false for other intervals.
func (i Interval) Spread() (s Spread, ok bool) {
	if i.Method != RatioPaired || i.N < 2 || !(i.Low > 0) || i.Borrowed != 0 {
		return s, false
	}
	se := (math.Log(i.High) - math.Log(i.Low)) / 2 / i.quantile(i.N)
	return Spread{Var: se * se * float64(i.N), DF: float64(i.N - 1)}, true
}
