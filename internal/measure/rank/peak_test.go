package rank

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

func TestPeakOf(t *testing.T) {
	rate, _ := sample.MetricByName(sample.Rate)
	latency, _ := sample.MetricByName(sample.LatencyP50)
	for name, tc := range map[string]struct {
		metric sample.Metric
		values [][]float64
		best   int
		ties   []int
		ok     bool
	}{
		"clear":                        {rate, [][]float64{{10, 11, 10}, {50, 51, 52}, {30, 31, 29}}, 1, nil, true},
		"two are alike":                {rate, [][]float64{{10, 11, 10}, {50, 55, 45}, {49, 54, 46}}, 1, []int{2}, true},
		"lower is better":              {latency, [][]float64{{10, 11, 10}, {50, 51, 52}, {30, 31, 29}}, 0, nil, true},
		"one repetition tells nothing": {rate, [][]float64{{10}, {50}}, 1, []int{0}, true},
		"a load without a figure":      {rate, [][]float64{nil, {10, 11, 10}, {20, 21, 20}}, 2, nil, true},
		"one load":                     {rate, [][]float64{nil, {10, 11, 10}}, 0, nil, false},
	} {
		var figures []Figure
		for _, v := range tc.values {
			figures = append(figures, Figure{Metric: tc.metric, Values: v})
		}
		p, ok := PeakOf(tc.metric, figures, Options{})
		if ok != tc.ok || p.Best != tc.best || !slices.Equal(p.Ties, tc.ties) {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
	}
}
