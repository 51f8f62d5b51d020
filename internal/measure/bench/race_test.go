package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// study is an experiment of pairs of networks of which a claim says that the first one is
// faster, on a machine that is simulated.
type study struct {
	exp   experiment.Experiment
	truth map[string]float64 // logarithm of the ratio, by claim
	cells map[string]float64 // logarithm of the throughput, by network
	noise map[string]float64 // its deviation, by network
	r     *rand.Rand
}

func newStudy(seed uint64, claims int, raced bool, ratio func(*rand.Rand) float64) *study {
	s := &study{truth: map[string]float64{}, cells: map[string]float64{}, noise: map[string]float64{},
		r: rand.New(rand.NewPCG(seed, 1))}
	s.exp = experiment.Experiment{Name: "t", Budget: 8 * time.Minute,
		Repeat: experiment.Repeat{Min: 2, Max: 40, Width: 0.1, Raced: raced}}
	s.exp.Entries = []experiment.Entry{{Workload: "tcp-stream", Loads: []sample.Load{{}},
		Scenarios: []topo.Scenario{{Placement: topo.OneHost, Pairs: 1, MTU: 1500}},
		Window:    workload.Window{Warmup: 200 * time.Millisecond, Duration: 800 * time.Millisecond}}}
	for i := range claims {
		a, b, id := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i)
		s.truth[id] = ratio(s.r)
		s.cells[a], s.cells[b] = 20+s.truth[id], 20
		for _, n := range []string{a, b} {
			s.noise[n] = 0.03 * math.Exp2(s.r.NormFloat64())
			s.exp.Networks = append(s.exp.Networks, experiment.Network{Name: n})
		}
		s.exp.Claims = append(s.exp.Claims,
			claim.Claim{ID: id, Metric: sample.Throughput, Where: claim.Where{Workload: "tcp-stream"},
				Test: claim.Test{Order: claim.Order{{a}, {b}}}})
	}
	return s
}

// measure runs the study on a simulated clock.
func (s *study) measure() []claim.Judged {
	infos := map[string]network.Info{}
	for n := range s.cells {
		infos[n] = network.Info{Name: n, Row: network.Quality{ReachIntra: true, ReachInter: true}}
	}
	now := time.Unix(0, 0)
	r := &runner{Config: Config{Experiment: s.exp, Seed: 7, Now: func() time.Time { return now },
		Workloads: map[string]workload.Workload{"tcp-stream": throughput{}},
		Doubts: func(trials []sample.Trial) (out []Doubt) {
			for _, d := range claim.Doubts(s.exp.Claims, trials, Level) {
				out = append(out, Doubt(d))
			}
			return out
		}},
		values: map[sample.Cell][]float64{}, had: map[sample.Cell]int{}, ran: map[trialKey]bool{}, began: now,
		cells: s.exp.Cells(infos)}
	for rep := 1; rep <= s.exp.Repeat.Max; rep++ {
		block := 0.1 * s.r.NormFloat64()
		due := r.due(rep)
		ran := false
		for _, c := range due {
			if rep > c.Least && r.overBudget(c) {
				continue
			}
			ran = true
			now = now.Add(Estimate(c))
			v := math.Exp(s.cells[c.Network] + block + s.noise[c.Network]*s.r.NormFloat64())
			r.note(sample.Trial{Cell: c.Cell, Repetition: rep, Status: sample.OK, Kernel: "host",
				Metrics: map[string]float64{sample.Throughput: v}})
		}
		if !ran && rep >= r.least() {
			break
		}
	}
	return claim.Judge(s.exp.Claims, r.trials, claim.Rule{Level: Level, Raced: s.exp.Repeat.Raced}, nil)
}

// throughput is a workload of which the name of its metric is all that is asked.
type throughput struct{ workload.Workload }

func (throughput) Info() workload.Info { return workload.Info{Metrics: []string{sample.Throughput}} }

// settled counts verdicts, and those that are wrong.
func (s *study) settled(judged []claim.Judged) (told, wrong int) {
	for _, j := range judged {
		d := s.truth[j.ID]
		switch v := j.Verdict(); {
		case v == claim.Open:
			continue
		case v == claim.Holds && d <= 0, v == claim.Fails && d >= 0, v == claim.Equal && math.Abs(d) > math.Log(claim.Same):
			wrong++
		}
		told++
	}
	return told, wrong
}

// TestRace: in the same time a race settles more claims than equal repetitions, and claims
// falsely in fewer than 5 of 100 cases, also where no two networks differ at all.
func TestRace(t *testing.T) {
	const studies, claims = 12, 17
	for name, ratio := range map[string]func(*rand.Rand) float64{
		"mixed": func(r *rand.Rand) float64 {
			return []float64{0, 0.01, 0.04, 0.1, 0.3}[r.IntN(5)] * float64(1-2*r.IntN(2))
		},
		"no difference": func(*rand.Rand) float64 { return 0 },
		"at the border": func(r *rand.Rand) float64 { return math.Log(claim.Same) + 1e-9 },
	} {
		t.Run(name, func(t *testing.T) {
			var told, wrong [2]int
			for seed := range uint64(studies) {
				for i, raced := range []bool{false, true} {
					s := newStudy(seed, claims, raced, ratio)
					a, b := s.settled(s.measure())
					told[i], wrong[i] = told[i]+a, wrong[i]+b
				}
			}
			const all = studies * claims
			t.Logf("equal repetitions: %d of %d told, %d wrong; raced: %d told, %d wrong", told[0], all, wrong[0], told[1], wrong[1])
			if told[1] <= told[0] {
				t.Error("the race tells no more")
			}
			// Three deviations of what 5 % of all would be.
			if limit := 0.05*all + 3*math.Sqrt(0.05*0.95*all); float64(wrong[1]) > limit {
				t.Errorf("%d of %d are wrong, expected %.0f at most", wrong[1], all, limit)
			}
		})
	}
}

// TestAffordable: the cheapest doubts are bought first, and what two of them share once.
func TestAffordable(t *testing.T) {
	s := newStudy(1, 4, true, func(*rand.Rand) float64 { return 0 })
	infos := map[string]network.Info{}
	for n := range s.cells {
		infos[n] = network.Info{Name: n, Row: network.Quality{ReachIntra: true, ReachInter: true}}
	}
	r := &runner{Config: Config{Experiment: s.exp}, had: map[sample.Cell]int{}, cells: s.exp.Cells(infos)}
	cell := func(network string) sample.Cell {
		return r.cells[slices.IndexFunc(r.cells, func(c experiment.Planned) bool { return c.Network == network })].Cell
	}
	trial := Estimate(r.cells[0])
	dear := Doubt{[]sample.Cell{cell("a0"), cell("b0")}, 30}
	cheap := Doubt{[]sample.Cell{cell("a1"), cell("b1")}, 2}
	shared := Doubt{[]sample.Cell{cell("a1"), cell("b2")}, 2}
	for _, tc := range []struct {
		left time.Duration
		want []string
	}{
		{3 * trial, nil},
		{4 * trial, []string{"a1", "b1"}},
		{6 * trial, []string{"a1", "b1", "b2"}},
		{65 * trial, []string{"a1", "b1", "b2"}},
		{66 * trial, []string{"a0", "a1", "b0", "b1", "b2"}},
	} {
		o := r.affordable([]Doubt{dear, cheap, shared}, tc.left)
		var got []string
		for _, c := range o.within {
			got = append(got, c.Network)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, tc.want) {
			t.Errorf("%v trials: got %v, want %v", tc.left/trial, got, tc.want)
		}
		if len(o.cheapest) != 2 || o.cheapest[1].Network != "b1" {
			t.Errorf("cheapest %v", o.cheapest)
		}
	}
	r.had[cell("a1")] = s.exp.Repeat.Max
	if o := r.affordable([]Doubt{cheap}, time.Hour); o.cheapest != nil {
		t.Errorf("a cell that has had all its repetitions is chosen: %v", o)
	}
}
