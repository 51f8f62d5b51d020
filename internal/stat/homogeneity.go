package stat

import (
	"math"
	"math/rand/v2"
)

// leastDeviation is the standard deviation, as a part of one on logarithms, below
// which values are taken as rounded and not as certain: 0.01 %.
const leastDeviation = 1e-4

// Homogeneity is the p-value of no difference between the means of groups whose
// variances may differ: the parametric bootstrap of Krishnamoorthy, Lu and Mathew
// (2007), which roughly keeps its level with groups of two and three values
// (TestHomogeneityKeepsItsLevel). NaN with fewer than two groups, or where one has
// fewer than two values.
func Homogeneity(groups [][]float64, draws int, r *rand.Rand) float64 {
	if len(groups) < 2 {
		return math.NaN()
	}
	means, errors, df := make([]float64, len(groups)), make([]float64, len(groups)), make([]int, len(groups))
	for i, g := range groups {
		m := momentsOf(g)
		if m.n < 2 {
			return math.NaN()
		}
		m.sd = max(m.sd, leastDeviation)
		means[i], errors[i], df[i] = m.mean, m.stderr(), m.n-1
	}
	seen := heterogeneity(means, errors)
	drawnMeans, drawnErrors := make([]float64, len(groups)), make([]float64, len(groups))
	as := 0
	for range draws {
		for i := range groups {
			drawnMeans[i] = errors[i] * r.NormFloat64()
			drawnErrors[i] = errors[i] * math.Sqrt(drawChi2(r, df[i])/float64(df[i]))
		}
		if heterogeneity(drawnMeans, drawnErrors) >= seen {
			as++
		}
	}
	return float64(as) / float64(draws)
}

// heterogeneity is Cochran's Q: the squared distances of the means from their
// weighted mean, each over its squared standard error.
func heterogeneity(means, errors []float64) (q float64) {
	sum, weights := 0.0, 0.0
	for i, m := range means {
		w := 1 / (errors[i] * errors[i])
		sum += w * m
		weights += w
	}
	for i, m := range means {
		d := (m - sum/weights) / errors[i]
		q += d * d
	}
	return q
}
