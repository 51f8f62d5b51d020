package stat

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return
	}
	if !(math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func gates(warnings []Warning) (out []string) {
	for _, w := range warnings {
		out = append(out, w.Gate)
	}
	return out
}

func TestMeanT(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	tests := []struct {
		name                string
		values              []float64
		level               float64
		center, low, high   float64
		n                   int
		relHalf             float64
		gates               []string
		narrow5, narrow5Of6 bool
	}{
		// The half width is t(0.975, 4) = 2.776445 by 1.581139/sqrt(5).
		{"textbook", []float64{1, 2, 3, 4, 5}, 0.95, 3, 3 - 1.9632432, 3 + 1.9632432, 5, 0.6544144, nil, false, false},
		{"99 %", []float64{1, 2, 3, 4, 5}, 0.99, 3, 3 - 3.2555869, 3 + 3.2555869, 5, 1.0851956, nil, false, false},
		{"negative centre", []float64{-1, -2, -3, -4, -5}, 0.95, -3, -3 - 1.9632432, -3 + 1.9632432, 5, 0.6544144, nil,
			false, false},
		{"close", []float64{100, 101, 99, 100, 100}, 0.95, 100, 100 - 0.8779886, 100 + 0.8779886, 5, 0.008779886, nil,
			true, false},
		// t(0.975, 1) = 12.706205 by 0.707107/sqrt(2).
		{"two", []float64{1, 2}, 0.95, 1.5, 1.5 - 6.3531024, 1.5 + 6.3531024, 2, 4.2354016, []string{"repetitions"},
			false, false},
		{"one", []float64{7}, 0.95, 7, -inf, inf, 1, inf, []string{"repetitions"}, false, false},
		{"none", nil, 0.95, nan, -inf, inf, 0, inf, []string{"repetitions"}, false, false},
		{"equal", []float64{0.1, 0.1, 0.1}, 0.95, 0.1, 0.1, 0.1, 3, 0, []string{"constant"}, false, false},
		{"equal, six", slices.Repeat([]float64{0.1}, 6), 0.95, 0.1, 0.1, 0.1, 6, 0, []string{"constant"}, true, true},
		{"zeros", []float64{0, 0, 0}, 0.95, 0, 0, 0, 3, 0, []string{"constant"}, false, false},
		{"around zero", []float64{-1, 0, 1}, 0.95, 0, -2.4841377, 2.4841377, 3, inf, nil, false, false},
		{"not finite", []float64{nan, 1, inf, 2, 3, -inf}, 0.95, 2, 2 - 2.4841377, 2 + 2.4841377, 3, 1.2420689,
			[]string{"not-finite"}, false, false},
		{"only NaN", []float64{nan}, 0.95, nan, -inf, inf, 0, inf, []string{"not-finite", "repetitions"}, false, false},
		{"level 0", []float64{1, 2, 3}, 0, 2, -inf, inf, 3, inf, []string{"level"}, false, false},
		{"level NaN", []float64{1, 2, 3}, nan, 2, -inf, inf, 3, inf, []string{"level"}, false, false},
		{"huge", []float64{1e308, 1e308, 1.2e308}, 0.5, 1.0666666666666667e308, 1.0122336e308, 1.1210997e308, 3, 0.0510, nil,
			false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := MeanT(tt.values, tt.level)
			near(t, "center", got.Center, tt.center, 1e-6)
			near(t, "low", got.Low, tt.low, 1e-6)
			near(t, "high", got.High, tt.high, 1e-6)
			near(t, "relative half width", got.RelHalfWidth(), tt.relHalf, 1e-4)
			if got.N != tt.n || !slices.Equal(gates(got.Warnings), tt.gates) || got.Method != MeanStudent {
				t.Errorf("n %d, warnings %v, method %q; want %d, %v", got.N, got.Warnings, got.Method, tt.n, tt.gates)
			}
			if n := Narrow(tt.values, tt.level, 0.05, 5); n != tt.narrow5 {
				t.Errorf("Narrow at least 5: %v", n)
			}
			if n := Narrow(tt.values, tt.level, 0.05, 6); n != tt.narrow5Of6 {
				t.Errorf("Narrow at least 6: %v", n)
			}
		})
	}
}

func TestNarrowNeedsTwo(t *testing.T) {
	if Narrow([]float64{5}, 0.95, 1e9, 0) {
		t.Error("one value is narrow")
	}
	if !Narrow([]float64{5, 5.0001}, 0.95, 0.05, 0) {
		t.Error("two close values are not narrow")
	}
}

// The quantiles are those of printed tables.
func TestTQuantile(t *testing.T) {
	for _, tt := range []struct{ p, df, want float64 }{
		{0.975, 1, 12.7062047}, {0.975, 2, 4.30265273}, {0.975, 4, 2.77644511},
		{0.975, 9, 2.26215716}, {0.995, 10, 3.16927267}, {0.975, 1e6, 1.9599664},
		{0.5, 3, 0}, {0.025, 4, -2.77644511}, {0.975, 2.5, 3.57465484},
		{0, 3, math.NaN()}, {1, 3, math.NaN()}, {0.5, 0, math.NaN()}, {math.NaN(), 1, math.NaN()},
	} {
		near(t, "quantile", TQuantile(tt.p, tt.df), tt.want, 1e-6)
	}
}

func TestIntervalJSON(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Interval
		want string
	}{
		{"bounded", MeanT([]float64{2, 2, 2}, 0.95), `{"center":2,"low":2,"high":2,"n":3,"level":0.95,"method":"mean, Student t","warnings":[{"gate":"constant","text":"all 3 values are equal: the width 0 is no proof of certainty"}]}`},
		{"one", MeanT([]float64{7}, 0.95), `{"center":7,"low":null,"high":null,"n":1,"level":0.95,"method":"mean, Student t","warnings":[{"gate":"repetitions","text":"1 repetitions: needs \u003e= 3 repetitions for an interval"}]}`},
		{"ratio of one", RatioT(Blocks{1: 6}, Blocks{1: 3}, 0.95),
			`{"center":2,"low":0,"high":null,"n":1,"level":0.95,"method":"ratio, Welch t on logs","warnings":[{"gate":"repetitions","text":"1 repetitions: needs \u003e= 3 repetitions for an interval"}]}`},
	} {
		raw, err := json.Marshal(tt.in)
		if err != nil || string(raw) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.name, err, raw, tt.want)
		}
		var back Interval
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if back.Low != tt.in.Low || back.High != tt.in.High || back.Center != tt.in.Center || back.N != tt.in.N {
			t.Errorf("%s: read back %+v, wrote %+v", tt.name, back, tt.in)
		}
	}
	var empty Interval
	if err := json.Unmarshal([]byte(`{"center":null,"low":null,"high":null,"n":0,"level":0.95}`), &empty); err != nil ||
		!math.IsNaN(empty.Center) || empty.Bounded() {
		t.Errorf("empty: %+v, %v", empty, err)
	}
	if err := json.Unmarshal([]byte(`{"center":"x"}`), &empty); err == nil {
		t.Error("a string passed as a centre")
	}
}

// covers is the share of runs in which an interval held the truth.
func covers(runs int, truth float64, interval func() Interval) float64 {
	in := 0
	for range runs {
		if interval().Contains(truth) {
			in++
		}
	}
	return float64(in) / float64(runs)
}

func TestMeanCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 3, 5, 10} {
		for _, level := range []float64{0.90, 0.95} {
			got := covers(20000, 50, func() Interval {
				values := make([]float64, n)
				for i := range values {
					values[i] = 50 + 4*r.NormFloat64()
				}
				return MeanT(values, level)
			})
			// 20,000 runs know the share to +-0.006 (three deviations).
			near(t, "coverage", got, level, 0.0064)
		}
	}
}

// Looking at the interval after every repetition and stopping when it is
// narrow costs coverage; this is the loss that Narrow's comment states.
func TestNarrowCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, tt := range []struct {
		least int
		floor float64
	}{{3, 0.88}, {5, 0.92}, {10, 0.92}} {
		for _, cv := range []float64{0.03, 0.08, 0.12} {
			got := covers(2000, 100, func() Interval {
				var values []float64
				for !Narrow(values, 0.95, 0.05, tt.least) && len(values) < 100 {
					values = append(values, 100*(1+cv*r.NormFloat64()))
				}
				return MeanT(values, 0.95)
			})
			t.Logf("least %d, cv %.2f: coverage %.3f", tt.least, cv, got)
			if got < tt.floor {
				t.Errorf("least %d, cv %.2f: coverage %.3f below %.3f", tt.least, cv, got, tt.floor)
			}
		}
	}
}

// The draws' central part is the t interval, for every small n.
func TestPosteriorIsTheInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 2; n <= 9; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = 10 + r.NormFloat64()
		}
		p, ok := NewPosterior(values)
		if !ok {
			t.Fatal("no posterior")
		}
		want := MeanT(values, 0.90)
		draws := make([]float64, 100000)
		for i := range draws {
			draws[i] = p.Draw(r)
		}
		slices.Sort(draws)
		half := (want.High - want.Low) / 2
		near(t, "5 %", (draws[5000]-want.Low)/half, 0, 0.04)
		near(t, "95 %", (draws[95000]-want.High)/half, 0, 0.04)
		near(t, "mean", p.Mean(), want.Center, 1e-12)
	}
}

func TestPosteriorOfFew(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	if p, ok := NewPosterior([]float64{3, math.NaN()}); ok || p.Draw(r) != 3 {
		t.Error("one value has a spread")
	}
	if p, ok := NewPosterior(nil); ok || !math.IsNaN(p.Draw(r)) {
		t.Error("no value has a mean")
	}
	if p, ok := NewPosterior([]float64{0.1, 0.1, 0.1}); !ok || p.Draw(r) != 0.1 {
		t.Error("equal values vary")
	}
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 2}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{8, 1, 2, 4}, 3}} {
		if got := Median(tc.in); got != tc.want {
			t.Errorf("Median(%v): got %g, want %g", tc.in, got, tc.want)
		}
	}
}
