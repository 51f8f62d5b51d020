package rank

import (
	"testing"

	"pathwise.dev/pathwise/internal/sample"
)

// TestKernelsAreRankedApart: a network that is fast on a slow kernel must not
// lose to one that is slow on a fast kernel, nor share its baseline.
func TestKernelsAreRankedApart(t *testing.T) {
	const guest = "uml-6.1.176"
	on := func(trials []sample.Trial) []sample.Trial {
		for i := range trials {
			trials[i].Scenario.Kernel, trials[i].Kernel = guest, guest
		}
		return trials
	}
	trials := append(throughputs("host", 20, 20.1, 20.2), throughputs("bridge", 10, 10.1, 10.2)...)
	trials = append(trials, on(throughputs("host", 4, 4.1, 4.2))...)
	trials = append(trials, on(throughputs("bridge", 3, 3.1, 3.2))...)
	trials = append(trials, on(throughputs("ipvlan", 3.6, 3.7, 3.8))...)
	var overall []Ranking
	for _, r := range Rank(trials, Options{}) {
		if r.Scope == Overall {
			overall = append(overall, r)
		}
	}
	if len(overall) != 2 || overall[0].Scenario.Kernel != "" || overall[1].Scenario.Kernel != guest ||
		overall[1].Name != "overall/two-hosts,kernel="+guest {
		t.Fatalf("got %+v", overall)
	}
	if first := row(t, overall[0], "bridge"); first.Rank != 1 || len(overall[0].Rows) != 2 {
		t.Errorf("on the host: %+v", overall[0].Rows)
	}
	if first := row(t, overall[1], "ipvlan"); first.Rank != 1 || row(t, overall[1], "bridge").Rank != 2 {
		t.Errorf("on the guest: %+v", overall[1].Rows)
	}
	for _, want := range []struct {
		r     Ranking
		ratio float64
	}{{overall[0], 10.1 / 20.1}, {overall[1], 3.1 / 4.1}} {
		f := row(t, want.r, "bridge").Features[0]
		if f.ToBaseline == nil || f.ToBaseline.Center < want.ratio*0.99 || f.ToBaseline.Center > want.ratio*1.01 {
			t.Errorf("%s: bridge is %v of its kernel's host network, want %v", want.r.Name, f.ToBaseline, want.ratio)
		}
	}
	for _, s := range Summarize(trials, Options{}) {
		for _, w := range s.Warnings {
			t.Errorf("%v: %v", s.Cell, w)
		}
	}
}
