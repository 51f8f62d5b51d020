package rank

import (
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
)

// ZScores normalises values as Atici and Boluk (2020), eq. (1):
// (value - mu) / sigma, turned by better so that higher is better. Mu and
// sigma are those of values themselves; the paper does not say which sigma,
// and this is the population's (divisor N), since the networks at hand are
// all that are compared and not a sample of others. It scales every score of a
// sub-feature alike, so that within one the order does not depend on it.
// Where the values do not differ every score is 0.
func ZScores(values []float64, better sample.Better, out []float64) {
	mu, sigma := population(values)
	for i, v := range values {
		out[i] = z(v, mu, sigma, better)
	}
}

// z is one value's score; 0 for sigma 0.
func z(value, mu, sigma float64, better sample.Better) float64 {
	if sigma == 0 {
		return 0
	}
	return float64(better) * (value - mu) / sigma
}

// population is the mean and the population deviation of values.
func population(values []float64) (mu, sigma float64) {
	n := float64(len(values))
	for _, v := range values {
		mu += v / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mu) * (v - mu)
	}
	sigma = math.Sqrt(squares / n)
	// Equal values may leave a deviation that is rounding alone; it must not
	// be blown up to a score of 1.
	if sigma <= 1e-12*math.Abs(mu) {
		sigma = 0
	}
	return mu, sigma
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// column is one sub-feature: a metric under a question, with every network's figure.
type column struct {
	question sample.Question
	metric   sample.Metric
	figures  map[string]Figure
}

// name is the sub-feature's key: scenario/workload/load/metric.
func (c column) name() string { return c.question.String() + "/" + c.metric.Name }

// entrants returns those of networks, which are sorted, that have a figure.
func (c column) entrants(networks []string) []string {
	return slices.DeleteFunc(slices.Clone(networks), func(n string) bool {
		_, ok := c.figures[n]
		return !ok
	})
}

// means returns the networks' means in their order.
func (c column) means(networks []string) []float64 {
	out := make([]float64, len(networks))
	for i, n := range networks {
		out[i] = c.figures[n].Interval.Center
	}
	return out
}
