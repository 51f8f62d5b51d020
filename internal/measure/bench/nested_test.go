package bench

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// TestJoined: percentiles of several windows are those of the merged histogram, costs are
// sums, rates means, and what one window warns of the trial warns of.
func TestJoined(t *testing.T) {
	part := func(rate float64, ms int, gate string) sample.Trial {
		h := sample.NewHistogram()
		for range 100 {
			h.Record(time.Duration(ms) * time.Millisecond)
		}
		return sample.Trial{Status: sample.OK, Latency: h, CPU: &sample.CPU{User: 1, Cores: 2},
			Phases:  sample.Phases{Window: 2, Warmup: 1},
			Metrics: map[string]float64{sample.Rate: rate, sample.LatencyP50: float64(ms) / 1e3},
			Series:  []sample.Point{{At: 0.5, Value: rate}}, Warnings: []sample.Warning{{Gate: gate}}}
	}
	a, b, c := part(10, 1, "x"), part(20, 1, "x"), part(60, 9, "y")
	got := joined([]sample.Trial{a, b, c}, sample.Rate)
	if got.Metrics[sample.Rate] != 30 || got.CPU.User != 3 || got.Phases.Window != 6 || got.Phases.Warmup != 3 {
		t.Errorf("figures %v, CPU %+v, phases %+v", got.Metrics, got.CPU, got.Phases)
	}
	if p50 := got.Metrics[sample.LatencyP50]; p50 > 0.0011 || got.Latency.Count() != 300 {
		t.Errorf("median %g of %d, expected that of all operations, 1 ms", p50, got.Latency.Count())
	}
	if _, ok := got.Metrics[sample.LatencyP99]; ok {
		t.Error("a figure that the workload does not promise")
	}
	if len(got.Warnings) != 2 || len(got.Windows) != 3 || got.Windows[2] != 60 || got.Series[2].At != 4.5 {
		t.Errorf("warnings %v, windows %v, series %v", got.Warnings, got.Windows, got.Series)
	}
	if a.Latency.Count() != 100 || a.CPU.User != 1 {
		t.Error("a window's own figures are changed")
	}
	if one := joined([]sample.Trial{a}, sample.Rate); one.Windows != nil || one.Metrics[sample.Rate] != 10 {
		t.Errorf("one window: %+v", one)
	}
}
