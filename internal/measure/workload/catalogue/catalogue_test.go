package catalogue_test

import (
	"math"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/workload/catalogue"
	"pathwise.dev/pathwise/internal/sample"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range catalogue.All(catalogue.Options{}) {
		i := w.Info()
		if i.Name == "" || i.Summary == "" || i.Tool == "" || len(i.Needs) == 0 || len(i.Metrics) == 0 {
			t.Errorf("%+v does not say what it is", i)
		}
		if seen[i.Name] {
			t.Errorf("%s is given twice", i.Name)
		}
		seen[i.Name] = true
		for _, name := range i.Metrics {
			if _, ok := sample.MetricByName(name); !ok {
				t.Errorf("%s promises %s, which is no metric", i.Name, name)
			}
		}
		if err := i.Check(i.Default); err != nil {
			t.Errorf("%s cannot take its own default: %v", i.Name, err)
		}
		if got, err := catalogue.ByName(i.Name, catalogue.Options{}); err != nil || got.Info().Name != i.Name {
			t.Errorf("ByName(%q): %v, %v", i.Name, got, err)
		}
	}
	if _, err := catalogue.ByName("warp", catalogue.Options{}); err == nil ||
		!strings.Contains(err.Error(), `"warp": "pathwise workloads" lists`) {
		t.Errorf("unknown name: got %v, want the command that lists what there is", err)
	}
}

// TestLoadsOutOfRange: a load that the workload cannot take is refused by the
// key that is wrong, and the ends of the range are not.
func TestLoadsOutOfRange(t *testing.T) {
	for _, w := range catalogue.All(catalogue.Options{}) {
		i := w.Info()
		for key, k := range map[string]struct {
			min, max float64
			load     func(float64) sample.Load
		}{
			"connections": {float64(i.Min.Connections), float64(i.Max.Connections),
				func(v float64) sample.Load { return sample.Load{Connections: int(v)} }},
			"size": {float64(i.Min.Size), float64(i.Max.Size),
				func(v float64) sample.Load { return sample.Load{Size: int(v)} }},
			"rate": {i.Min.Rate, i.Max.Rate, func(v float64) sample.Load { return sample.Load{Rate: v} }},
		} {
			bad := []float64{-1, k.max + 1}
			if k.min > 1 {
				bad = append(bad, k.min-1)
			}
			if key == "rate" {
				bad = append(bad, math.NaN(), math.Inf(1))
			}
			for _, v := range bad {
				if err := i.Check(k.load(v)); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
					t.Errorf("%s: %s %g: got %v, want an error that names the key", i.Name, key, v, err)
				}
			}
			for _, v := range []float64{k.min, k.max} {
				if v == 0 {
					continue
				}
				if err := i.Check(k.load(v)); err != nil {
					t.Errorf("%s: %s %g: %v", i.Name, key, v, err)
				}
			}
		}
	}
}
