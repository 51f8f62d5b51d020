package drill

import (
	"math"
	"math/rand/v2"
	"testing"

	"pathwise.dev/pathwise/internal/measure/figure"
)

// drawn is a figure of n values around centre.
func drawn(r *rand.Rand, name string, n int, centre float64, bar *figure.Bar) Figure {
	var values []float64
	for range n {
		values = append(values, centre*math.Exp(0.1*r.NormFloat64()))
	}
	f := summary(name, "s", values, median, bar)
	f.Drill = "switch"
	return f
}

// TestCompare: a planted change is found and has the direction of the bar, what is as it
// was is not named, and too few values can show nothing.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := func(name string, n int, centre float64, bar *figure.Bar) Figure {
		return drawn(r, name, n, centre, bar)
	}
	lost := func(n int, each float64) Figure {
		out := total("lost", make([]float64, n), atMost(0))
		for i := range out.values {
			out.values[i] = each * float64(i%2)
		}
		out.Value, out.Drill = sum(out.values), "switch"
		return out
	}
	a := []Figure{f("stall", 20, 0.05, atMost(0.06)), f("stall", 20, 1, atLeast(1)), f("loose", 20, 1, nil),
		f("still", 20, 1, nil), f("few", 3, 1, nil), lost(20, 0), f("gone", 9, 1, nil)}
	b := []Figure{f("stall", 20, 0.07, atMost(0.06)), f("stall", 20, 1.3, atLeast(1)), f("loose", 20, 2, nil),
		f("still", 30, 1, nil), f("few", 3, 9, nil), lost(40, 3), f("new", 9, 1, nil)}
	c := Compare(a, b, CompareOptions{})
	want := []Verdict{Worse, Better, Changed, Same, TooFew, Worse}
	for i, ch := range c.Changes {
		if ch.Verdict != want[i] {
			t.Errorf("%s: %s, want %s: p %g, adjusted %g", ch.A.Name, ch.Verdict, want[i], ch.P, ch.Adjusted)
		}
	}
	if len(c.Changes) != len(want) || len(c.OnlyA) != 1 || len(c.OnlyB) != 1 || !c.Changes[0].Crossed() ||
		c.Changes[3].Crossed() {
		t.Errorf("%+v", c)
	}
	if one := Compare(a[:1], []Figure{f("stall", 1, 9, nil)}, CompareOptions{}); one.Changes[0].Verdict != TooFew ||
		!math.IsNaN(one.Changes[0].P) {
		t.Errorf("one value: %+v", one)
	}
}

// TestCompareLikeWithLike: of pairs of results from one distribution no more are called
// different than is promised; and a change of a fifth is mostly found.
func TestCompareLikeWithLike(t *testing.T) {
	const pairs = 100
	claims, found := 0, 0
	for seed := range uint64(pairs) {
		r := rand.New(rand.NewPCG(7, seed))
		var a, b []Figure
		for _, name := range []string{"1", "2"} {
			a, b = append(a, drawn(r, name, 10, 1, nil)), append(b, drawn(r, name, 10, 1, nil))
		}
		c := Compare(a, b, CompareOptions{})
		if c.Changes[0].Significant() || c.Changes[1].Significant() {
			claims++
		}
		if Compare(a[:1], []Figure{drawn(r, "1", 20, 1.2, nil)}, CompareOptions{}).Changes[0].Significant() {
			found++
		}
	}
	// Of 100 with a chance of 5 %, more than 11 are seen once in 200 times.
	if claims > 11 || found < 70 {
		t.Errorf("%d of %d like pairs are called different, %d of as many changes of 20 %% are found", claims, pairs, found)
	}
}
