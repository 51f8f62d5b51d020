package rank

import (
	"math"
	"math/rand/v2"
	"testing"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// drifting simulates runs of one experiment on a machine that drifts: within a run from block
// to block with memory, from run to run as a whole, and for each cell of a run by itself.
type drifting struct {
	r *rand.Rand
	// own is the scatter of a trial, walk the innovation of the block's speed, keep its memory.
	own, walk, keep float64
	// whole is what a run shares, cell what all repetitions of a cell in a run share.
	whole, cell float64
	// planted is what the throughput of network "c" is multiplied by.
	planted float64
	speed   float64
	// questions is how many loads there are, 0 for six.
	questions int
}

func (m *drifting) run(repetitions int) (out []sample.Trial) {
	networks, connections := []string{"host", "a", "b", "c"}, []int{1, 4, 8, 16, 64, 128}
	if m.questions > 0 {
		connections = connections[:m.questions]
	}
	run := m.whole * m.r.NormFloat64()
	cells := map[string][]float64{}
	for _, n := range networks {
		for range connections {
			cells[n] = append(cells[n], m.cell*m.r.NormFloat64())
		}
	}
	for rep := 1; rep <= repetitions; rep++ {
		m.speed = m.keep*m.speed + m.walk*m.r.NormFloat64()
		for i, n := range networks {
			for k, c := range connections {
				v := math.Exp(run + m.speed + cells[n][k] + m.own*m.r.NormFloat64())
				if n == "c" && m.planted != 0 {
					v *= m.planted
				}
				out = append(out, trial(n, "tcp-stream", c, rep, map[string]float64{
					sample.Throughput: v * 1e9 * float64(20-i), sample.CPUPerGB: math.Exp(m.own*m.r.NormFloat64()) / v,
				}))
			}
		}
	}
	return out
}

// covered counts, over ten runs of the same thing, the intervals of change that hold none,
// and the intervals of figures that hold the figure's mean over all runs: as compare gives
// them, and as the repetitions of a run alone do.
type covered struct{ change, changeOf, figure, figureOf, plain int }

func (m *drifting) coverage(repetitions int) (out covered) {
	const runs = 10
	var all [][]sample.Trial
	means := map[sample.Cell]map[string]float64{}
	for range runs {
		t := m.run(repetitions)
		all = append(all, t)
		for _, s := range Summarize(t, Options{}) {
			if means[s.Cell] == nil {
				means[s.Cell] = map[string]float64{}
			}
			for _, f := range s.Figures {
				means[s.Cell][f.Metric.Name] += f.Interval.Center / runs
			}
		}
	}
	for i := range runs {
		for _, r := range Compare(all[i], all[(i+1)%runs], CompareOptions{}).Changes {
			if r.Network == "host" {
				continue
			}
			mean := means[r.Cell][r.Metric.Name]
			out.changeOf++
			out.figureOf++
			out.change += one(r.Relative.Contains(1))
			out.figure += one(r.A.Contains(mean))
			plain := stat.MeanT(valuesOf(all[i], r), 0.95)
			out.plain += one(plain.Contains(mean))
		}
	}
	return out
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func valuesOf(trials []sample.Trial, r Change) (out []float64) {
	for _, t := range trials {
		if t.Cell == r.Cell {
			out = append(out, t.Metrics[r.Metric.Name])
		}
	}
	return out
}

// At least 93 % of the intervals of runs that are compared hold the truth where the machine
// drifts, though a run's own repetitions know nothing of it.
func TestCompareCoversDrift(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    drifting
	}{
		{"still", drifting{own: 0.03, walk: 0.02}},
		{"runs differ", drifting{own: 0.03, walk: 0.02, whole: 0.015}},
		{"runs differ much", drifting{own: 0.02, walk: 0.02, whole: 0.05}},
		{"blocks remember", drifting{own: 0.03, walk: 0.02, keep: 0.8}},
		{"cells differ", drifting{own: 0.03, walk: 0.02, whole: 0.01, cell: 0.015}},
	} {
		for _, repetitions := range []int{5, 10} {
			var sum covered
			r := rand.New(rand.NewPCG(61, uint64(repetitions)))
			for range 4 {
				m := tt.m
				m.r = r
				c := m.coverage(repetitions)
				sum.change += c.change
				sum.changeOf += c.changeOf
				sum.figure += c.figure
				sum.figureOf += c.figureOf
				sum.plain += c.plain
			}
			change, figure := float64(sum.change)/float64(sum.changeOf), float64(sum.figure)/float64(sum.figureOf)
			t.Logf("%s, %d repetitions: changes %.3f, figures %.3f, without drift %.3f", tt.name, repetitions, change, figure,
				float64(sum.plain)/float64(sum.figureOf))
			if change < 0.93 || figure < 0.93 {
				t.Errorf("%s, %d repetitions: intervals cover %.3f and %.3f", tt.name, repetitions, change, figure)
			}
		}
	}
}

// A change of 15 % in one network is found in nine of ten questions with ten repetitions, at
// the noise of a machine that is not quite still, and nothing else is.
func TestCompareFindsPlanted(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    drifting
		// most families, in percent, with a false claim.
		most int
	}{
		{"trials scatter by 3 %", drifting{own: 0.03, walk: 0.03, keep: 0.5, whole: 0.02}, 6},
		{"trials scatter by 4 %", drifting{own: 0.04, walk: 0.03, keep: 0.5, whole: 0.02}, 6},
		{"three questions", drifting{own: 0.03, walk: 0.03, keep: 0.5, whole: 0.02, questions: 3}, 6},
		{"cells drift", drifting{own: 0.03, walk: 0.03, keep: 0.5, whole: 0.02, cell: 0.01}, 12},
	} {
		for _, planted := range []float64{0.85, 1.15} {
			const tries = 20
			asked, found, wrong, families := 0, 0, 0, 0
			m := tt.m
			m.r = rand.New(rand.NewPCG(71, 72))
			for range tries {
				m.planted = 1
				before := m.run(10)
				m.planted = planted
				c := Compare(before, m.run(10), CompareOptions{})
				for _, r := range c.Changes {
					if r.Network == "c" && r.Metric.Name == sample.Throughput {
						asked++
						found += one(r.Significant && (r.Verdict == Better) == (planted > 1))
					}
				}
				called := map[sample.Question]bool{}
				for _, r := range c.Changes {
					if r.Network != "c" && r.Verdict != Reference {
						called[r.Question()] = called[r.Question()] || r.Significant
					}
				}
				for _, falsely := range called {
					families++
					wrong += one(falsely)
				}
			}
			t.Logf("%s, x%.2f: found in %d of %d, a false claim in %d of %d families", tt.name, planted, found, asked, wrong, families)
			if found < asked*9/10 || wrong > families*tt.most/100 {
				t.Errorf("%s, x%.2f: found in %d of %d, a false claim in %d of %d families", tt.name, planted, found, asked, wrong,
					families)
			}
		}
	}
}
