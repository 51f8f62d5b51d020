package rank

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

var twoHosts = topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: topo.DefaultMTU}

// published is a table of Atici and Boluk (2020): operations per second by
// threads and network. They stand as the rate of the workload connect, which
// is the application "connections".
type published struct {
	threads  []int
	networks []string
	rows     [][]float64
}

// Table 4: Docker cluster.
func table4() published {
	return published{
		threads:  []int{1, 5, 50, 100, 200},
		networks: []string{"calico", "weave"},
		rows: [][]float64{
			{1480.2, 1458.44},
			{12024.84, 10675.06},
			{20480.5, 20604.12},
			{19992.06, 20183.7},
			{19663.32, 20070.28},
		},
	}
}

// Table 5: Kubernetes, with the column of their manager, which switches.
func table5() published {
	return published{
		threads:  []int{1, 5, 40, 50, 100, 125},
		networks: []string{"weave", "calico", "sim"},
		rows: [][]float64{
			{3002.00, 3089.88, 3089.88},
			{9317.51, 9402.50, 9402.50},
			{10385.06, 10416.74, 10416.74},
			{10061.23, 10182.48, 10182.48},
			{9850.16, 9854.25, 9854.25},
			{9646.20, 9348.62, 9520.75},
		},
	}
}

// trials has one repetition of each figure, as published.
func (p published) trials(networks ...string) (out []sample.Trial) {
	for i, threads := range p.threads {
		for j, n := range p.networks {
			if !slices.Contains(networks, n) {
				continue
			}
			out = append(out, sample.Trial{
				Cell: sample.Cell{Network: n, Scenario: twoHosts, Workload: "connect",
					Load: sample.Load{Connections: threads}},
				Repetition: 1, Order: len(out) + 1, Status: sample.OK, Kernel: "host",
				Metrics: map[string]float64{sample.Rate: p.rows[i][j]},
			})
		}
	}
	return out
}

// byThreads returns the question rankings by number of threads.
func byThreads(trials []sample.Trial) map[int]Ranking {
	out := map[int]Ranking{}
	for _, r := range Rank(trials, Options{}) {
		if r.Scope == OfQuestion {
			out[r.Question.Load.Connections] = r
		}
	}
	return out
}

func TestPublishedBestNetworks(t *testing.T) {
	for name, tt := range map[string]struct {
		table published
		want  map[int]string
	}{
		"table 4": {table4(), map[int]string{1: "calico", 5: "calico", 50: "weave", 100: "weave", 200: "weave"}},
		"table 5": {table5(), map[int]string{1: "calico", 5: "calico", 40: "calico", 50: "calico", 100: "calico",
			125: "weave"}},
	} {
		got := byThreads(tt.table.trials("calico", "weave"))
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d rankings, want %d", name, len(got), len(tt.want))
		}
		for threads, best := range tt.want {
			r := got[threads]
			if r.Rows[0].Network != best || r.Rows[0].Rank != 1 || r.Rows[1].Rank != 2 {
				t.Errorf("%s, %d threads: got %+v, want %s first", name, threads, r.Rows, best)
			}
			// Two values are always one deviation from their mean.
			if math.Abs(r.Rows[0].Score-1) > 1e-12 || math.Abs(r.Rows[1].Score+1) > 1e-12 {
				t.Errorf("%s, %d threads: scores %v, %v, want 1 and -1", name, threads, r.Rows[0].Score, r.Rows[1].Score)
			}
		}
	}
}

// One repetition orders the networks but proves nothing, and must say so.
func TestPublishedUncertainty(t *testing.T) {
	for threads, r := range byThreads(table4().trials("calico", "weave")) {
		for _, row := range r.Rows {
			if row.RankLow != 1 || row.RankHigh != 2 || row.Tie != 1 {
				t.Errorf("%d threads, %s: rank interval [%d, %d], tie %d; want the full range and one tie",
					threads, row.Network, row.RankLow, row.RankHigh, row.Tie)
			}
			if row.Features[0].Value.Bounded() {
				t.Errorf("%d threads, %s: one value has an interval: %+v", threads, row.Network, row.Features[0].Value)
			}
		}
		if !warned(r.Warnings, "repetitions", "calico, weave") {
			t.Errorf("%d threads: no warning about one repetition: %v", threads, r.Warnings)
		}
	}
}

func warned(warnings []sample.Warning, gate, text string) bool {
	return slices.ContainsFunc(warnings, func(w sample.Warning) bool {
		return w.Gate == gate && strings.Contains(w.Text, text)
	})
}

func TestPublishedOptimumLoads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		table   published
		optimum int
		best    string
		high    int
		highest string
	}{
		{"docker", table4(), 50, "weave", 200, "weave"},
		{"kubernetes", table5(), 40, "calico", 125, "weave"},
	} {
		trials := tt.table.trials("calico", "weave")
		for _, point := range []struct {
			load    LoadPoint
			threads int
			best    string
		}{{Optimum, tt.optimum, tt.best}, {High, tt.high, tt.highest}} {
			got, err := Recommend(trials, Need{App: "connections", Load: point.load, Scenario: twoHosts}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Asked[0].Load.Connections != point.threads {
				t.Errorf("%s, %s: %d threads, want %d", tt.name, point.load, got.Asked[0].Load.Connections, point.threads)
			}
			if len(got.Chosen) != 2 || got.Chosen[0] != point.best {
				t.Errorf("%s, %s: chose %v, want %s and, with one repetition, its tie", tt.name, point.load, got.Chosen, point.best)
			}
			if !slices.Equal(got.Chosen, got.Scored) {
				t.Errorf("%s, %s: chose %v, by z-scores %v", tt.name, point.load, got.Chosen, got.Scored)
			}
			if lead := got.Ranking.Outlook.Lead; !strings.Contains(got.Why, "one repetition cannot tell it from") ||
				!math.IsInf(lead.High, 1) {
				t.Errorf("%s, %s: certain after one repetition: %s, lead %+v", tt.name, point.load, got.Why, lead)
			}
			if point.load == Optimum && !warned(got.Warnings, "load", "one repetition") {
				t.Errorf("%s: the optimum load is certain: %v", tt.name, got.Warnings)
			}
		}
	}
}

// Choosing per load is what the paper's manager does: Calico up to 100
// threads, Weave at 125. There it got 172 operations per second more than
// Calico alone, 1.84 %, of the 298 that Weave alone shows: switching took the rest.
func TestPublishedManager(t *testing.T) {
	choice := map[int]string{}
	for threads, r := range byThreads(table5().trials("calico", "weave")) {
		choice[threads] = r.Rows[0].Network
	}
	want := map[int]string{1: "calico", 5: "calico", 40: "calico", 50: "calico", 100: "calico", 125: "weave"}
	for threads := range want {
		if choice[threads] != want[threads] {
			t.Errorf("%d threads: chose %s, want %s", threads, choice[threads], want[threads])
		}
	}
	// With calico as the yardstick its raw ratio is next to every score.
	for _, r := range Rank(table5().trials("calico", "weave", "sim"), Options{Baseline: "calico"}) {
		if r.Scope != OfQuestion {
			continue
		}
		for _, row := range r.Rows {
			f := row.Features[0]
			gain := f.ToBaseline.Center - 1
			switch threads := f.Question.Load.Connections; {
			case row.Network == "sim" && threads <= 100 && gain != 0:
				t.Errorf("%d threads: sim gains %v over calico, which it uses", threads, gain)
			case row.Network == "sim" && threads == 125:
				if math.Abs(gain-0.0184) > 0.00005 || math.Abs(gain*9348.62-172) > 0.5 {
					t.Errorf("sim gains %.4f, %.1f operations per second; want 0.0184 and 172", gain, gain*9348.62)
				}
			case row.Network == "weave" && threads == 125 && math.Abs(gain*9348.62-297.58) > 1e-6:
				t.Errorf("weave gains %v", gain*9348.62)
			}
		}
	}
}

// The whole grid of Table 4's figures: no robustness data, so robust and
// unrobust agree and the former says why.
func TestPublishedGrid(t *testing.T) {
	grids := Table(table4().trials("calico", "weave"), Options{})
	if len(grids) != 1 || len(grids[0].Rows) != 1 || grids[0].Rows[0].App != "connections" {
		t.Fatalf("got %+v", grids)
	}
	row := grids[0].Rows[0]
	for _, r := range []Recommendation{row.HighRobust, row.HighUnrobust, row.OptimumRobust, row.OptimumUnrobust} {
		if r.Chosen[0] != "weave" {
			t.Errorf("%+v: chose %v", r.Need, r.Chosen)
		}
		if missing := warned(r.Warnings, "robustness", "not considered"); missing != r.Robust {
			t.Errorf("%+v: missing robustness data told: %v", r.Need, missing)
		}
	}
}
