package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func drawn(r *rand.Rand, n int, center, sd float64) (out []float64) {
	for range n {
		out = append(out, math.Exp(center+sd*r.NormFloat64()))
	}
	return out
}

func TestShiftAgreesWithWelch(t *testing.T) {
	a, b := []float64{10, 11, 12, 10.5}, []float64{12, 13, 12.5}
	s, ok := ShiftOf(a, b)
	if want := Welch(a, b); !ok || math.Abs(s.P()-want.P) > 1e-12 || math.Abs(s.Z()-2.183) > 0.001 {
		t.Errorf("p %v, Welch %v, z %v", s.P(), want.P, s.Z())
	}
	i := RatioIndependent(b, a, 0.95)
	if w := s.Drifting(0, 5).Widen(i); w.Low != i.Low || w.High != i.High {
		t.Errorf("no drift makes %v of %v", w, i)
	}
	if w := s.Drifting(0.1, 1e9).Widen(i); w.Low >= i.Low || w.High <= i.High {
		t.Errorf("drift does not widen %v: %v", i, w)
	}
	if s.Drifting(0.1, 5).P() <= s.P() {
		t.Error("drift makes a shift clearer")
	}
	m := MeanT(a, 0.95)
	if w := m.Wider(2, 1e9); !(w.High-w.Low > 1.2*(m.High-m.Low)) || w.Center != m.Center {
		t.Errorf("%v is not wider than %v", w, m)
	}
	for _, pair := range [][2][]float64{{{1}, {1, 2}}, {{1, 1}, {2, 2}}, {nil, nil}} {
		if _, ok := ShiftOf(pair[0], pair[1]); ok {
			t.Errorf("%v: a shift", pair)
		}
	}
	if s, ok := ShiftOf([]float64{0, 1}, []float64{3, 2}); !ok || s.Log || s.Delta != 2 {
		t.Errorf("values of 0: %+v", s)
	}
}

// What Detectable promises is what is found: a shift of that size in four of five tries,
// with as many repetitions as Repetitions names.
func TestDetectableIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	const tries, alpha = 2000, 0.05 / 12
	for _, n := range []int{6, 10, 25} {
		known, _ := ShiftOf(drawn(r, 4000, 0, 0.04), drawn(r, 4000, 0, 0.04))
		known.Stderr, known.DF = 0.04*math.Sqrt(2/float64(n)), float64(2*(n-1))
		delta, found := known.Detectable(alpha, Power), 0
		for range tries {
			if s, _ := ShiftOf(drawn(r, n, 0, 0.04), drawn(r, n, delta, 0.04)); s.P() < alpha {
				found++
			}
		}
		share := float64(found) / tries
		t.Logf("%d repetitions: %.3f found in %.3f", n, delta, share)
		if share < Power-0.07 || share > Power+0.06 {
			t.Errorf("%d repetitions: a shift of %.3f is found in %.3f of the tries", n, delta, share)
		}
		known.SD = 0.04
		if got := known.Repetitions(delta*1.0001, alpha, Power, 1000); got != n {
			t.Errorf("%d repetitions find %.3f, %d are asked for", n, delta, got)
		}
	}
	drifts := Shift{Stderr: 0.01, DF: 8, SD: 0.02, Log: true}.Drifting(0.05, 20)
	if n := drifts.Repetitions(0.05, 0.05, Power, 1000); n != 0 {
		t.Errorf("%d repetitions find what drifts more", n)
	}
}

func TestFalseDiscovery(t *testing.T) {
	// The example of Benjamini and Hochberg (1995), section 3.2: four of 15 at 0.05.
	p := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
		0.7590, 1.0000}
	got, holm := FalseDiscovery(p), Holm(p)
	n, m := 0, 0
	for i := range got {
		if got[i] <= 0.05 {
			n++
		}
		if holm[i] <= 0.05 {
			m++
		}
		if got[i] < p[i] || got[i] > holm[i]+1e-12 || i > 0 && got[i] < got[i-1] {
			t.Errorf("%v becomes %v", p[i], got[i])
		}
	}
	if n != 4 || m != 3 {
		t.Errorf("%d discoveries, %d by Holm", n, m)
	}
	if got := FalseDiscovery([]float64{math.NaN(), 0.5}); !math.IsNaN(got[0]) || got[1] != 0.5 {
		t.Errorf("%v", got)
	}
}
