package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Groups without a difference are called different in about 5 of 100 cases, also
// where their standard deviations differ tenfold and there are few values; the
// worst is two groups of two, with 8.
func TestHomogeneityKeepsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	const experiments = 600
	for _, groups := range []int{2, 5, 12} {
		for _, n := range []int{2, 3, 5} {
			called := 0
			for range experiments {
				if Homogeneity(scattered(r, groups, n, 0), 300, r) < 0.05 {
					called++
				}
			}
			t.Logf("%d groups of %d: %.3f", groups, n, float64(called)/experiments)
			if float64(called)/experiments > 0.1 {
				t.Errorf("%d groups of %d: %d of %d called different", groups, n, called, experiments)
			}
		}
	}
}

// A difference well beyond the scatter is found, also alongside a group that scatters ten times as much.
func TestHomogeneityFindsADifference(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	found := 0
	for range 200 {
		if Homogeneity(scattered(r, 5, 3, 0.2), 300, r) < 0.05 {
			found++
		}
	}
	if found < 180 {
		t.Errorf("found in %d of 200", found)
	}
	for name, groups := range map[string][][]float64{"one group": {{1, 2}}, "one value": {{1, 2}, {3}}, "none": nil} {
		if p := Homogeneity(groups, 100, r); !math.IsNaN(p) {
			t.Errorf("%s: p %v, want none", name, p)
		}
	}
	if p := Homogeneity([][]float64{{1, 1}, {1, 1}}, 100, r); p < 0.9 {
		t.Errorf("equal figures differ: p %v", p)
	}
	if p := Homogeneity([][]float64{{1, 1, 1}, {1.1, 1.1, 1.1}}, 100, r); p > 0.05 {
		t.Errorf("constant figures 10 %% apart are equal: p %v", p)
	}
}

// scattered makes groups of which the first scatters by 0.1 and the others by 0.01,
// each apart from the one before.
func scattered(r *rand.Rand, groups, n int, apart float64) (out [][]float64) {
	for g := range groups {
		scatter := 0.01
		if g == 0 {
			scatter = 0.1
		}
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(g)*apart + scatter*r.NormFloat64()
		}
		out = append(out, values)
	}
	return out
}

func TestTowardShrinks(t *testing.T) {
	p, _ := NewPosterior([]float64{9, 10, 11})
	q := p.Toward(0, p.Stderr()*p.Stderr())
	if math.Abs(q.Mean()-5) > 1e-12 || math.Abs(q.Stderr()-p.Stderr()/math.Sqrt2) > 1e-12 {
		t.Errorf("a prior as wide as the error halves the way: mean %v, error %v of %v", q.Mean(), q.Stderr(), p.Stderr())
	}
	if q := p.Toward(0, 1e9); math.Abs(q.Mean()-10) > 1e-6 {
		t.Errorf("a wide prior moved the mean to %v", q.Mean())
	}
	if q := p.Toward(3, 0); q.Mean() != 3 || q.Stderr() != 0 {
		t.Errorf("a prior without width leaves %v, %v", q.Mean(), q.Stderr())
	}
}
