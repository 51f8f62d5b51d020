package stat

import (
	"math"
	"math/rand/v2"
)

// Posterior draws the unknown mean behind a few values. Under a flat prior on
// the mean and on the logarithm of the deviation, that mean is distributed as
// mean + t * s/sqrt(n) with n-1 degrees of freedom (Gelman et al., Bayesian
// Data Analysis, section 3.2), so a central part of the draws is the very
// interval of MeanT. A bootstrap would be too narrow: of three values it knows
// ten samples, and its deviation is short by sqrt((n-1)/n).
type Posterior struct {
	mean, scale float64
	df          int
}

// NewPosterior fits the finite ones of values. ok is false with fewer than
// two: one value says nothing about its own spread.
func NewPosterior(values []float64) (p Posterior, ok bool) {
	kept, _ := finiteOnly(values)
	if len(kept) == 0 {
		return Posterior{mean: math.NaN()}, false
	}
	m := momentsOf(kept)
	return Posterior{mean: m.mean, scale: m.stderr(), df: m.n - 1}, m.n >= 2
}

// Mean is the middle of the distribution: the values' mean.
func (p Posterior) Mean() float64 { return p.mean }

// Draw returns one mean. With fewer than two values it is always the value itself.
func (p Posterior) Draw(r *rand.Rand) float64 {
	if p.scale == 0 || p.df < 1 {
		return p.mean
	}
	return p.mean + p.scale*drawT(r, p.df)
}

// drawT draws a Student t variable: a normal over the root of a chi-squared
// by its degrees of freedom. The latter is summed from exponentials (two
// degrees each), which for the few repetitions of an experiment is quicker
// than a sampler for any gamma.
func drawT(r *rand.Rand, df int) float64 {
	chi2 := 0.0
	for range df / 2 {
		chi2 += 2 * r.ExpFloat64()
	}
	if df%2 == 1 {
		n := r.NormFloat64()
		chi2 += n * n
	}
	// A chi-squared that rounds to 0 would make an infinity, which spoils sums.
	return r.NormFloat64() / math.Sqrt(max(chi2, 1e-30)/float64(df))
}
