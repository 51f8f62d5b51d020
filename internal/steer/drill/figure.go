package drill

import (
	"math"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/measure/figure"
)

// Figure is a figure, and what a comparison tests it by.
type Figure struct {
	figure.Figure
	// values entered, sorted, and the statistic of them by which a comparison tests,
	// where there is one.
	values    []float64
	statistic func(sorted []float64) float64
}

func atMost(limit float64) *figure.Bar  { return &figure.Bar{Limit: limit} }
func atLeast(limit float64) *figure.Bar { return &figure.Bar{AtLeast: true, Limit: limit} }

// summary is the figure of values by a statistic, whose interval is bootstrapped.
func summary(name, unit string, values []float64, statistic func(sorted []float64) float64, bar *figure.Bar) Figure {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	f := Figure{Figure: figure.Figure{Name: name, Unit: unit, N: len(sorted), Bar: bar}}
	if f.N == 0 {
		f.Note = "nothing was measured"
		return f
	}
	f.Least, f.Most = sorted[0], sorted[f.N-1]
	f.Median, f.P99 = quantile(sorted, 0.5), quantile(sorted, 0.99)
	f.Value = statistic(sorted)
	f.values, f.statistic = sorted, statistic
	f.Low, f.High = bootstrap(sorted, statistic)
	return f
}

// total is a figure that is a plain sum or count, without an interval.
func total(name string, values []float64, bar *figure.Bar) Figure {
	f := summary(name, "count", values, sum, bar)
	f.Low, f.High = f.Value, f.Value
	f.statistic = mean // sums of different numbers of values do not compare
	return f
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

func median(sorted []float64) float64 { return quantile(sorted, 0.5) }
func p99(sorted []float64) float64    { return quantile(sorted, 0.99) }
func worst(sorted []float64) float64  { return sorted[len(sorted)-1] }

// quantile of sorted values, interpolated (Hyndman and Fan 1996, type 7).
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// bootstrap returns the 2.5 and 97.5 percentiles of the statistic over resamples
// (Efron 1979). Package stat has means alone, as trials are few; drills have
// tens of values or more, and medians are what their bars are about. The seed is
// fixed, so that a result always reads the same.
func bootstrap(values []float64, statistic func([]float64) float64) (low, high float64) {
	const resamples = 2000
	if len(values) < 2 {
		return values[0], values[0]
	}
	r := rand.New(rand.NewPCG(1979, uint64(len(values))))
	out := make([]float64, resamples)
	draw := make([]float64, len(values))
	for i := range out {
		for j := range draw {
			draw[j] = values[r.IntN(len(values))]
		}
		slices.Sort(draw)
		out[i] = statistic(draw)
	}
	slices.Sort(out)
	return quantile(out, 0.025), quantile(out, 0.975)
}

// values collects a value of the samples of a variant, those with errors left out.
func values(samples []Sample, variant, key string) []float64 {
	var out []float64
	for _, s := range samples {
		if v, ok := s.Values[key]; ok && s.Error == "" && (variant == "" || s.Variant == variant) {
			out = append(out, v)
		}
	}
	return out
}

// ratios divides a value of one variant by the other's, repetition by
// repetition: what disturbed both falls out.
func ratios(samples []Sample, variant, by, key string) []float64 {
	return paired(samples, variant, by, key, func(a, b float64) float64 { return a / b })
}

// differences subtracts likewise.
func differences(samples []Sample, variant, by, key string) []float64 {
	return paired(samples, variant, by, key, func(a, b float64) float64 { return a - b })
}

func paired(samples []Sample, variant, by, key string, f func(a, b float64) float64) []float64 {
	of := func(v string) map[int]float64 {
		m := map[int]float64{}
		for _, s := range samples {
			if x, ok := s.Values[key]; ok && s.Error == "" && s.Variant == v {
				m[s.Repetition] = x
			}
		}
		return m
	}
	var out []float64
	a, b := of(variant), of(by)
	for rep, x := range a {
		if y, ok := b[rep]; ok && y != 0 {
			out = append(out, f(x, y))
		}
	}
	slices.Sort(out) // not by the map's order
	return out
}

// failures counts samples with errors.
func failures(samples []Sample) (n int, first string) {
	for _, s := range samples {
		if s.Error != "" {
			if n++; n == 1 {
				first = s.Variant + ": " + s.Error
			}
		}
	}
	return n, first
}
