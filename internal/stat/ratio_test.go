package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRatioT(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	tests := []struct {
		name              string
		num, den          Blocks
		center, low, high float64
		n                 int
		method            string
		gates             []string
	}{
		{"shared noise cancels", Blocks{1: 20, 2: 40, 3: 10}, Blocks{1: 10, 2: 20, 3: 5}, 2, 2, 2, 3, RatioPaired,
			[]string{"constant"}},
		// Log ratios ln 2 +- 0.1: half width t(0.975, 2) * 0.1/sqrt(3) = 0.248414.
		{"paired", Blocks{1: 2 * math.Exp(-0.1), 2: 2, 3: 2 * math.Exp(0.1)}, Blocks{1: 1, 2: 1, 3: 1},
			2, 2 * math.Exp(-0.2484138), 2 * math.Exp(0.2484138), 3, RatioPaired, nil},
		// Both sides vary alike: stderr 0.1*sqrt(2/3), 4 degrees of freedom.
		{"other blocks", Blocks{1: 2 * math.Exp(-0.1), 2: 2, 3: 2 * math.Exp(0.1)},
			Blocks{4: math.Exp(-0.1), 5: 1, 6: math.Exp(0.1)}, 2, 2 * math.Exp(-0.2266959), 2 * math.Exp(0.2266959), 3,
			RatioWelch, nil},
		{"few shared of many", Blocks{1: 2, 2: 2, 3: 2, 4: 2, 5: 2}, Blocks{1: 1, 2: 1, 6: 1, 7: 1, 8: 1}, 2, 2, 2, 5,
			RatioWelch, []string{"constant"}},
		{"one block lost", Blocks{1: 2, 2: 4, 3: 6}, Blocks{1: 1, 2: 2}, 2, 2, 2, 2, RatioPaired,
			[]string{"repetitions", "blocks", "constant"}},
		{"one each", Blocks{1: 6}, Blocks{1: 3}, 2, 0, inf, 1, RatioWelch, []string{"repetitions"}},
		{"none", nil, Blocks{1: 3}, nan, 0, inf, 0, RatioWelch, []string{"repetitions"}},
		{"zero above", Blocks{1: 0, 2: 2, 3: 4}, Blocks{1: 1, 2: 2, 3: 3}, 1, -inf, inf, 3, RatioOfMeans, []string{"zero"}},
		{"zeros below", Blocks{1: 1, 2: 2, 3: 4}, Blocks{1: 0, 2: 0, 3: 0}, nan, -inf, inf, 3, RatioOfMeans,
			[]string{"zero"}},
		{"not finite", Blocks{1: nan, 2: 2, 3: 2}, Blocks{1: 1, 2: 1, 3: inf}, 2, 2, 2, 2, RatioWelch,
			[]string{"repetitions", "not-finite", "constant"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := RatioT(tt.num, tt.den, 0.95)
			near(t, "center", got.Center, tt.center, 1e-6)
			near(t, "low", got.Low, tt.low, 1e-6)
			near(t, "high", got.High, tt.high, 1e-6)
			if got.N != tt.n || got.Method != tt.method || !slices.Equal(gates(got.Warnings), tt.gates) {
				t.Errorf("got n %d, %q, %v; want %d, %q, %v", got.N, got.Method, got.Warnings, tt.n, tt.method, tt.gates)
			}
		})
	}
	if got := RatioT(Blocks{1: 1, 2: 2}, Blocks{1: 1, 2: 3}, 2); got.Bounded() ||
		!slices.Contains(gates(got.Warnings), "level") {
		t.Errorf("level 2: %+v", got)
	}
}

// noisy multiplies center by what the block did and by noise of its own.
func noisy(r *rand.Rand, center, own float64, block []float64) Blocks {
	out := Blocks{}
	for i, b := range block {
		out[i+1] = center * math.Exp(b+own*r.NormFloat64())
	}
	return out
}

func normals(r *rand.Rand, n int, sd float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = sd * r.NormFloat64()
	}
	return out
}

func TestRatioCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, n := range []int{3, 5, 10} {
		width := 0.0
		paired := covers(10000, 0.8, func() Interval {
			block := normals(r, n, 0.1)
			i := RatioT(noisy(r, 80, 0.03, block), noisy(r, 100, 0.05, block), 0.95)
			width += i.RelHalfWidth() / 10000
			return i
		})
		near(t, "paired", paired, 0.95, 0.007)
		// Sharing the block of 10 % noise leaves the 3 and 5 % of their own.
		if limit := 1.2 * TQuantile(0.975, float64(n-1)) * math.Hypot(0.03, 0.05) / math.Sqrt(float64(n)); width > limit {
			t.Errorf("n %d: mean relative half width %.3f, want below %.3f", n, width, limit)
		}
		none := make([]float64, n)
		independent := covers(10000, 0.8, func() Interval {
			return RatioIndependent(noisy(r, 80, 0.03, none).Values(), noisy(r, 100, 0.06, none).Values(), 0.95)
		})
		near(t, "independent", independent, 0.953, 0.012)
	}
}

// The first three are printed with Welch's test on Rosetta Code. Moving both
// sides alike changes no difference, and makes values negative, so raw; taking
// exponentials makes the logs the same numbers.
func TestWelch(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	tests := []struct {
		name   string
		a, b   []float64
		p      float64
		method string
	}{
		{"15 and 15", []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4},
			[]float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4},
			0.021378001462867, ""},
		{"6 and 6", []float64{30.02, 29.99, 30.11, 29.97, 30.01, 29.99}, []float64{29.89, 29.93, 29.72, 29.98, 30.02, 29.98},
			0.090773324285671, ""},
		{"4 and 3", []float64{3.0, 4.0, 1.0, 2.1}, []float64{490.2, 340.0, 433.9}, 0.010751561149785, ""},
		{"zeros on one side", []float64{0, 0, 0}, []float64{0, 1, 2}, 0.2254033, DifferenceRaw},
		{"equal, no variance", []float64{5, 5, 5}, []float64{5, 5, 5}, 1, Permutation},
		{"zeros everywhere", []float64{0, 0, 0}, []float64{0, 0, 0}, 1, Permutation},
		{"apart, no variance", []float64{5, 5, 5}, []float64{6, 6, 6}, 0.1, Permutation},
		{"apart, no variance, two", []float64{5, 5}, []float64{6, 6}, 1. / 3, Permutation},
		{"one", []float64{5}, []float64{6, 7, 8}, nan, DifferenceLog},
		{"none", nil, nil, nan, DifferenceLog},
		{"not finite", []float64{nan, 5}, []float64{6, inf, 8}, nan, DifferenceLog},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method != "" {
				got := Welch(tt.a, tt.b)
				near(t, "p", got.P, tt.p, 1e-6)
				if got.Method != tt.method || got.Valid() == math.IsNaN(tt.p) {
					t.Errorf("got %+v", got)
				}
				return
			}
			raw := Welch(each(tt.a, func(v float64) float64 { return v - 1000 }),
				each(tt.b, func(v float64) float64 { return v - 1000 }))
			near(t, "raw p", raw.P, tt.p, 1e-9)
			log := Welch(each(tt.a, math.Exp), each(tt.b, math.Exp))
			near(t, "log p", log.P, tt.p, 1e-9)
			if raw.Method != DifferenceRaw || log.Method != DifferenceLog {
				t.Errorf("methods %q, %q", raw.Method, log.Method)
			}
			if back := Welch(each(tt.b, math.Exp), each(tt.a, math.Exp)); math.Abs(back.P-log.P) > 1e-12 || back.T != -log.T {
				t.Errorf("not symmetric: %+v, %+v", back, log)
			}
		})
	}
}

func each(values []float64, f func(float64) float64) (out []float64) {
	for _, v := range values {
		out = append(out, f(v))
	}
	return out
}

// Welch's test is known to reject a little too often when the smaller side has
// very few values; the bound for 3 against 10 says how much.
func TestWelchSize(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, tt := range []struct {
		n    [2]int
		most float64
	}{{[2]int{3, 3}, 0.05}, {[2]int{5, 5}, 0.054}, {[2]int{3, 10}, 0.07}} {
		n, most := tt.n, tt.most
		rejected := 0
		for range 20000 {
			a, b := noisy(r, 100, 0.05, make([]float64, n[0])), noisy(r, 100, 0.05, make([]float64, n[1]))
			if Welch(a.Values(), b.Values()).P < 0.05 {
				rejected++
			}
		}
		if share := float64(rejected) / 20000; share > most || share < 0.03 {
			t.Errorf("sides of %v: %.3f of tests without a difference reject at 5 %%", n, share)
		}
	}
}

func TestHolm(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct{ in, want []float64 }{
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.01, nan, 0.04, 0.03, nan, 0.005}, []float64{0.03, nan, 0.06, 0.06, nan, 0.02}},
		{[]float64{0.02, 0.02}, []float64{0.04, 0.04}},
		{[]float64{0.9, 0.8}, []float64{1, 1}},
		{[]float64{0.04}, []float64{0.04}},
		{[]float64{nan}, []float64{nan}},
		{nil, nil},
	} {
		got := Holm(tt.in)
		if len(got) != len(tt.want) {
			t.Fatalf("%v: got %v", tt.in, got)
		}
		for i := range got {
			near(t, "adjusted", got[i], tt.want[i], 1e-12)
		}
	}
}

// A family of tests, all without a difference, holds a false claim in at most
// 5 of 100 cases, though a quarter of them would by the plain p-values.
func TestHolmFamily(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	plain, adjusted := 0, 0
	for range 2000 {
		p := make([]float64, 20)
		for i := range p {
			p[i] = r.Float64()
		}
		if slices.Min(p) < 0.05 {
			plain++
		}
		if slices.Min(Holm(p)) < 0.05 {
			adjusted++
		}
	}
	if plain < 1200 || adjusted > 120 {
		t.Errorf("families with a claim: %d plain, %d adjusted of 2000", plain, adjusted)
	}
}

func TestRelativeTakesOutTheBaseline(t *testing.T) {
	a := Blocks{1: 80, 2: 88, 3: 72, 4: 80}
	baseA := Blocks{1: 100, 2: 110, 3: 90, 5: 100}
	b := Blocks{1: 40, 2: 44, 3: 36}
	baseB := Blocks{1: 50, 2: 55, 3: 45}
	i, test := Relative(a, baseA, b, baseB, 0.95)
	near(t, "ratio", i.Center, 1, 1e-9)
	if i.N != 3 || test.P < 0.05 {
		t.Errorf("got %+v, %+v", i, test)
	}
	i, _ = Relative(a, baseA, Blocks{1: 20, 2: 23, 3: 18}, baseB, 0.95)
	near(t, "ratio", i.Center, 0.5*math.Cbrt(46./44), 1e-9)
	if i.Contains(1) {
		t.Errorf("half of it is no change: %+v", i)
	}
	if _, test = Relative(a, nil, b, baseB, 0.95); test.Valid() {
		t.Error("tested without a baseline")
	}
}
