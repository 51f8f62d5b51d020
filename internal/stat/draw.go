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

// Next returns what one more value could be, that of the next rebuild: it scatters as
// the values do, around a mean that is not known.
func (p Posterior) Next(r *rand.Rand) float64 {
	if p.scale == 0 || p.df < 1 {
		return p.mean
	}
	return p.mean + p.scale*math.Sqrt(float64(p.df+2))*drawT(r, p.df)
}

// Stderr is the standard error of the mean; 0 with fewer than two values.
func (p Posterior) Stderr() float64 {
	if p.df < 1 {
		return 0
	}
	return p.scale
}

// Toward is the posterior under a normal prior in place of the flat one: means
// scatter around center with variance, as those of the other networks do. It
// takes back a part of what chance gave to the best of many (James and Stein
// 1961; Efron and Morris 1975), the more so the less certain the mean is.
func (p Posterior) Toward(center, variance float64) Posterior {
	if p.Stderr() == 0 {
		return p
	}
	keep := variance / (variance + p.scale*p.scale)
	return Posterior{mean: center + keep*(p.mean-center), scale: p.scale * math.Sqrt(keep), df: p.df}
}

// drawT draws a Student t variable: a normal over the root of a chi-squared
// by its degrees of freedom.
func drawT(r *rand.Rand, df int) float64 {
	chi2 := drawChi2(r, df)
	// A chi-squared that rounds to 0 would make an infinity, which spoils sums.
	return r.NormFloat64() / math.Sqrt(max(chi2, 1e-30)/float64(df))
}

// drawChi2 sums exponentials (two degrees of freedom each), which for the few
// repetitions of an experiment is quicker than a sampler for any gamma.
func drawChi2(r *rand.Rand, df int) (chi2 float64) {
	for range df / 2 {
		chi2 += 2 * r.ExpFloat64()
	}
	if df%2 == 1 {
		n := r.NormFloat64()
		chi2 += n * n
	}
	return chi2
}
