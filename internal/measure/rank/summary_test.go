package rank

import (
	"math"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

func TestSummarize(t *testing.T) {
	latency := func(micros ...int) *sample.Histogram {
		h := sample.NewHistogram()
		for _, m := range micros {
			h.Record(time.Duration(m) * time.Microsecond)
		}
		return h
	}
	busy := sample.Warning{Gate: "cpu-saturated", Text: "99 %"}
	first := trial("a", "tcp-latency", 1, 1, map[string]float64{sample.Rate: 10, sample.LatencyP50: 100e-6, "odd": 1})
	first.Latency, first.CPU, first.Warnings = latency(100, 100, 100, 100), &sample.CPU{User: 1, SoftIRQ: 2, Cores: 2},
		[]sample.Warning{busy}
	second := trial("a", "tcp-latency", 1, 2, map[string]float64{sample.Rate: 14, sample.LatencyP50: 900e-6})
	second.Latency, second.CPU, second.Warnings = latency(900), &sample.CPU{User: 3, SoftIRQ: 2, Cores: 2},
		[]sample.Warning{busy, {Gate: "mtu", Text: "1450"}}
	third := failed("a", "tcp-latency", 1, 3)
	third.Warnings = []sample.Warning{busy}
	third.Metrics = map[string]float64{sample.Rate: 1e9}
	fourth := trial("a", "tcp-latency", 1, 4, map[string]float64{sample.Rate: math.NaN()})
	fourth.Latency = latency(100)
	other := trial("B", "tcp-latency", 1, 1, map[string]float64{sample.Rate: 1})

	got := Summarize([]sample.Trial{fourth, third, second, first, other}, Options{})
	if len(got) != 2 || got[0].Network != "B" || got[1].Network != "a" {
		t.Fatalf("got %+v", got)
	}
	s := got[1]
	if s.Trials != 4 || s.OK != 3 || !slices.Equal(s.Ends, []End{{sample.OK, "", 3}, {sample.Failed, "no route", 1}}) {
		t.Errorf("ends: %d of %d, %v", s.OK, s.Trials, s.Ends)
	}
	rate, _ := s.Figure(sample.Rate)
	if !slices.Equal(rate.Repetitions, []int{1, 2}) || !slices.Equal(rate.Values, []float64{10, 14}) ||
		rate.Interval.Center != 12 || rate.Pooled != nil {
		t.Errorf("rate: %+v", rate)
	}
	if rate.Interval.Warnings[0].Gate != "not-finite" {
		t.Errorf("the NaN is left out in silence: %v", rate.Interval.Warnings)
	}
	// The mean of the two medians is 500 us; the merged histogram's median is 100.
	p50, _ := s.Figure(sample.LatencyP50)
	if s.Latency.Count() != 6 || p50.Pooled == nil || math.Abs(*p50.Pooled-100e-6) > 1e-6 ||
		math.Abs(p50.Interval.Center-500e-6) > 1e-9 {
		t.Errorf("median: %+v of %d", p50, s.Latency.Count())
	}
	if s.CPU.Mean != (sample.CPU{User: 2, SoftIRQ: 2, Cores: 2}) || s.CPU.Busy.Center != 4 || s.CPU.Busy.N != 2 {
		t.Errorf("cpu: %+v", s.CPU)
	}
	if !slices.Equal(s.Warnings, []Counted{{busy, 2}, {sample.Warning{Gate: "mtu", Text: "1450"}, 1}}) {
		t.Errorf("warnings: %v", s.Warnings)
	}
	if odd, ok := s.Figure("odd"); !ok || odd.Metric.Better != 0 || s.Figures[len(s.Figures)-1].Metric.Name != "odd" {
		t.Errorf("unknown metric: %+v", odd)
	}
	if _, ok := s.Figure("none"); ok {
		t.Error("a metric that nobody measured")
	}
	if first.Latency.Count() != 4 {
		t.Error("summarizing changed a trial's histogram")
	}
}

func TestSummarizeRepeatedRepetition(t *testing.T) {
	early, late := trial("a", "connect", 1, 1, map[string]float64{sample.Rate: 10}),
		trial("a", "connect", 1, 1, map[string]float64{sample.Rate: 20})
	late.Order, late.Kernel = 9, "guest"
	second := trial("a", "connect", 1, 2, map[string]float64{sample.Rate: 30})
	s := Summarize([]sample.Trial{late, early, second}, Options{})[0]
	f, _ := s.Figure(sample.Rate)
	if !slices.Equal(f.Values, []float64{20, 30}) || s.OK != 2 || s.Trials != 3 {
		t.Errorf("values %v, ok %d of %d", f.Values, s.OK, s.Trials)
	}
	var gates []string
	for _, w := range s.Warnings {
		gates = append(gates, w.Gate)
	}
	if !slices.Equal(gates, []string{"repetitions", "kernel"}) || !slices.Equal(s.Kernels, []string{"guest", "host"}) {
		t.Errorf("warnings %v, kernels %v", s.Warnings, s.Kernels)
	}
}

func TestSummarizeNotes(t *testing.T) {
	var trials []sample.Trial
	for rep, notes := range [][]string{{"switch 2.0", "by hand"}, {"switch 2.0"}, nil} {
		one := trial("a", "connect", 1, rep+1, map[string]float64{sample.Rate: 10})
		one.Notes = notes
		trials = append(trials, one)
	}
	lost := failed("a", "connect", 1, 4)
	lost.Notes = []string{"switch 3.0"}
	if s := Summarize(append(trials, lost), Options{})[0]; !slices.Equal(s.Notes, []string{"by hand", "switch 2.0"}) {
		t.Errorf("got notes %v", s.Notes)
	}
}

func TestSummarizeWithoutSomeHistograms(t *testing.T) {
	with := trial("a", "tcp-latency", 1, 1, map[string]float64{sample.LatencyP99: 1})
	with.Latency = sample.NewHistogram()
	with.Latency.Record(time.Second)
	without := trial("a", "tcp-latency", 1, 2, map[string]float64{sample.LatencyP99: 3})
	s := Summarize([]sample.Trial{with, without}, Options{})[0]
	f, _ := s.Figure(sample.LatencyP99)
	if f.Pooled != nil || f.Interval.Center != 2 || s.Warnings[0].Gate != "histogram" {
		t.Errorf("got %+v, %v", f, s.Warnings)
	}
}
