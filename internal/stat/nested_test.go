package stat

import (
	"math/rand/v2"
	"testing"
)

func TestComponents(t *testing.T) {
	// Box, Hunter and Hunter's way by hand: builds {1, 3} and {5, 7} have means 2 and 6; within
	// 2, mean square between 16, so that a build varies by (16 - 2) / 2.
	c := ComponentsOf([]Nested{{{1, 3}, {5, 7}}})
	near(t, "within", c.Within, 2, 1e-12)
	near(t, "between", c.Between, 7, 1e-12)
	if c = ComponentsOf([]Nested{{{1, 3}}, {{5, 7}}}); c.Between != 0 || c.Within < 1.999 || c.Within > 2.001 ||
		c.Builds != 0 || c.Windows != 2 {
		t.Errorf("cells of one build each: %+v", c)
	}
	if c = ComponentsOf([]Nested{{{1}, {3}, {8}}}); c.Within != 0 || c.Windows != 0 || c.Builds != 2 {
		t.Errorf("builds of one window each: %+v", c)
	}
	r := rand.New(rand.NewPCG(15, 16))
	var cells []Nested
	for range 400 {
		var n Nested
		for b := range 3 {
			build := 0.3 * r.NormFloat64()
			windows := make([]float64, 1+b)
			for i := range windows {
				windows[i] = build + 0.1*r.NormFloat64()
			}
			n = append(n, windows)
		}
		cells = append(cells, n)
	}
	c = ComponentsOf(cells)
	near(t, "within, unbalanced", c.Within, 0.01, 0.001)
	near(t, "between, unbalanced", c.Between, 0.09, 0.01)
}

// TestSplit: the chosen number of windows gives means at least as precise as any other
// number for the time spent, but for what rounding costs.
func TestSplit(t *testing.T) {
	for _, c := range []Components{{Within: 1, Between: 1}, {Within: 9, Between: 1}, {Within: 1, Between: 9}, {Within: 1},
		{Between: 1}, {}} {
		for _, build := range []float64{0.5, 2, 8} {
			cost := func(k int) float64 { return (c.Between + c.Within/float64(k)) * (build + float64(k)) }
			chosen := c.Split(build, 1, 8)
			for k := 1; k <= 8; k++ {
				if cost(k) < 0.97*cost(chosen) {
					t.Errorf("%+v, build %g: %d windows cost %g, %d would %g", c, build, chosen, cost(chosen), k, cost(k))
				}
			}
		}
	}
	if k := (Components{}).Split(0, 0, 8); k != 1 {
		t.Errorf("nothing known: %d windows", k)
	}
}
