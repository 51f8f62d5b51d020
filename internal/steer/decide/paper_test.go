package decide

import (
	"math"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Replaying Table 5 yields the SIM column. At 125 threads the paper prints
// 9520.75 and this reading gives 9520.742, see PaperRecording.
func TestPaperTable5(t *testing.T) {
	rec, err := PaperRecording()
	if err != nil {
		t.Fatal(err)
	}
	got := Replay(TablePolicy{Table: PaperTable5()}, rec)
	for i, r := range PaperRows() {
		if d := math.Abs(got.Trace[i].Rate - r.SIM); d > 0.01 {
			t.Errorf("%d threads: %.3f, published %.2f", r.Threads, got.Trace[i].Rate, r.SIM)
		}
		if rec.Records[i].Truth["weave"] != r.Weave || rec.Records[i].Truth["calico"] != r.Calico {
			t.Errorf("%d threads: record has %v", r.Threads, rec.Records[i].Truth)
		}
	}
	if got.Switches != 1 || got.Failovers != 0 || got.False != 0 {
		t.Errorf("%d switches, %d failovers, %d false; want one switch", got.Switches, got.Failovers, got.False)
	}
	last := got.Trace[5].Rate
	if math.Abs(last-9348.62-172) > 0.5 || math.Abs(100*(last/9348.62-1)-1.84) > 0.005 {
		t.Errorf("gain %.2f ops/s, %.3f %%; published 172 and 1.84 %%", last-9348.62, 100*(last/9348.62-1))
	}
	// No other course of switches would have done better.
	if math.Abs(got.Achieved-got.Hindsight) > 1e-6 {
		t.Errorf("achieved %v of %v", got.Achieved, got.Hindsight)
	}
}

func TestPaperTable7(t *testing.T) {
	for _, r := range PaperTable7() {
		// The last row is printed without digits: 155.
		if math.Abs(r.Reckoned-r.Loss) > 0.00501 {
			t.Errorf("%d switches: %.4f ms, published %v", r.Switches, r.Reckoned, r.Loss)
		}
	}
}

func TestPaperBreakEven(t *testing.T) {
	for _, b := range PaperBreakEven() {
		if b.Threads == 125 && (b.To != "weave" || math.Abs(b.Loss-125.458) > 0.001 || math.Abs(b.Seconds-0.4216) > 0.001) ||
			b.Threads == 100 && b.Seconds < 30 {
			t.Errorf("%+v", b)
		}
	}
}

// The scores are those of the bench: on the same figures rank gives the same.
func TestScoresAreTheBenchs(t *testing.T) {
	rates := map[string]float64{"a": 9e9, "b": 7e9, "c": 8.5e9}
	var trials []sample.Trial
	var f []figure
	for _, n := range []string{"a", "b", "c"} {
		trials = append(trials, sample.Trial{
			Cell: sample.Cell{Network: n, Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1,
				MTU: topo.DefaultMTU}, Workload: "tcp-stream", Load: sample.Load{Connections: 1}},
			Repetition: 1, Order: len(trials) + 1, Status: sample.OK, Kernel: "host",
			Metrics: map[string]float64{sample.Throughput: rates[n]},
		})
		f = append(f, figure{path: PathEvidence{Network: n}, mid: rates[n]})
	}
	score(f, Throughput)
	for _, r := range rank.Rank(trials, rank.Options{}) {
		if r.Scope != rank.OfQuestion {
			continue
		}
		for _, row := range r.Rows {
			for _, g := range f {
				if g.path.Network == row.Network && math.Abs(g.score-row.Score) > 1e-12 {
					t.Errorf("%s: %v, the bench says %v", row.Network, g.score, row.Score)
				}
			}
		}
	}
}

func TestTableOfARecommendation(t *testing.T) {
	var trials []sample.Trial
	for _, c := range []int{1, 8} {
		for i, n := range []string{"bgp", "vxlan"} {
			for rep := range 4 {
				v := 9e9 - float64(i)*3e9*float64(9-c)/8 + 2e9*float64(i*(c-1))/7 + 1e6*float64(rep)
				trials = append(trials, sample.Trial{
					Cell: sample.Cell{Network: n, Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1,
						MTU: topo.DefaultMTU}, Workload: "tcp-stream", Load: sample.Load{Connections: c}},
					Repetition: rep + 1, Order: len(trials) + 1, Status: sample.OK, Kernel: "host",
					Metrics: map[string]float64{sample.Throughput: v},
				})
			}
		}
	}
	table := TableOf(rank.Table(trials, rank.Options{})[0])
	row, ok := table.Look("bulk", Load{Connections: 10}, false)
	if !ok || row.Level != 8 || row.Choice[0] != "vxlan" {
		t.Errorf("at 10 connections: %+v, %v", row, ok)
	}
}
