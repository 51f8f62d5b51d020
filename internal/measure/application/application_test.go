package application_test

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/workload/catalogue"
	"pathwise.dev/pathwise/internal/sample"
)

// Every shipped workload belongs to an application, once, or the reason is said;
// what an application names is told by the workload.
func TestEveryWorkloadBelongs(t *testing.T) {
	tells := map[string][]string{}
	for _, w := range catalogue.All(catalogue.Options{}) {
		i := w.Info()
		tells[i.Name] = i.Metrics
		if why := application.Own(i.Name); why != "" && i.Name != "first-packet" {
			t.Errorf("%s belongs to no application: %s", i.Name, why)
		}
	}
	seen := map[string]bool{}
	for _, a := range application.Shipped() {
		for _, p := range a.Parts {
			if seen[p.Workload] {
				t.Errorf("%s is given twice", p.Workload)
			}
			seen[p.Workload] = true
			if p.Weight != 1 {
				t.Errorf("%s, %s: weight %v", a.Name, p.Workload, p.Weight)
			}
			for _, m := range slices.Concat(p.Metrics, p.Offered) {
				if !slices.Contains(tells[p.Workload], m.Name) {
					t.Errorf("%s: %s tells no %s", a.Name, p.Workload, m.Name)
				}
			}
		}
	}
	for _, name := range []string{"uperf:web", "first-packet"} {
		if application.Own(name) == "" {
			t.Errorf("%s is said to belong", name)
		}
	}
}

func TestWebIsJudgedByLatencyAtARate(t *testing.T) {
	for _, tt := range []struct {
		load sample.Load
		want []string
	}{
		{sample.Load{Connections: 8}, []string{sample.Rate}},
		{sample.Load{Connections: 8, Rate: 1000}, []string{sample.LatencyP50, sample.LatencyP99, sample.Rate}},
	} {
		for _, w := range []string{"http", "http-close"} {
			if got := application.Named(application.Shipped(), w, tt.load); !slices.Equal(got, tt.want) {
				t.Errorf("%s at %v: %v, want %v", w, tt.load, got, tt.want)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	least, most := 2e9, 0.005
	for _, tt := range []struct {
		bound application.Bound
		text  string
		keep  map[float64]bool
	}{
		{application.Bound{Workload: "http", Metric: sample.LatencyP99, Most: &most}, "latency_p99 of http at most 5ms",
			map[float64]bool{0.0049: true, 0.005: true, 0.0051: false}},
		{application.Bound{Workload: "tcp-stream", Metric: sample.Throughput, Least: &least},
			"throughput of tcp-stream at least 2G", map[float64]bool{1.9e9: false, 3e9: true}},
		{application.Bound{Workload: "udp-stream", Metric: sample.Loss, Most: &most}, "loss of udp-stream at most 0.5%",
			map[float64]bool{0: true, 0.01: false}},
	} {
		if got := tt.bound.String(); got != tt.text {
			t.Errorf("%s, want %s", got, tt.text)
		}
		for v, want := range tt.keep {
			if tt.bound.Keeps(v) != want {
				t.Errorf("%s: %v keeps it: %t", tt.text, v, !want)
			}
		}
	}
}
