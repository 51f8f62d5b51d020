package decide

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// feed makes the evidence of a pair on networks "a" (default, active first)
// and "b", "c", which tests bend before each step.
type feed struct {
	ev    PairEvidence
	state State
	last  Decision
	at    Assignment
	r     *rand.Rand
}

// usual are the parameters that agents use.
func usual() *Params {
	p := DefaultParams()
	return &p
}

// in makes a step of a state, which it changes.
func in(s *State) *step { return &step{s, usual()} }

func newFeed(need Need) *feed {
	f := &feed{r: rand.New(rand.NewPCG(1, 2)), at: Assignment{Active: "a"}}
	f.ev = PairEvidence{Pair: "p>q", Need: need, Default: "a", Load: Load{Connections: 32},
		SwitchLoss: LossEstimate{Mean: 0.001, Upper: 0.002, N: 9}}
	for _, n := range []string{"a", "b"} {
		f.ev.Paths = append(f.ev.Paths, PathEvidence{Network: n, State: Up, Prior: 1e9,
			Probe: Probe{RTT: 100e-6, Jitter: 10e-6, Samples: 10, Age: 0.01}})
	}
	f.carry("a", 1e9)
	return f
}

// newDialogue is the feed of a pair that waits for answers, and sends little.
func newDialogue() *feed {
	f := newFeed(Latency)
	for _, n := range []string{"a", "b"} {
		f.carry(n, 1e6)
		f.path(n).Data.AppLimited = true
	}
	return f
}

func (f *feed) path(n string) *PathEvidence {
	return &f.ev.Paths[slices.IndexFunc(f.ev.Paths, func(p PathEvidence) bool { return p.Network == n })]
}

// carry says what a path carries while flows are on it.
func (f *feed) carry(n string, rate float64) {
	f.path(n).Data = Data{Goodput: rate, SRTT: 500e-6, Tx: max(rate/8, 1), Rx: rate / 160}
}

// prove makes a path one that was measured a moment ago, as it gave its prior.
func (f *feed) prove(network string) {
	m := f.state.memory(network)
	m.Proven, m.Measured, m.Health, m.HealthAt, m.NextTrial = true, true, 1, f.ev.At, f.ev.At+time.Hour
}

// step decides once and applies the decision. Paths without flows show no data.
func (f *feed) step(policy Policy) Decision {
	ev := f.ev
	ev.Active = f.at.Active
	ev.Paths = slices.Clone(f.ev.Paths)
	for i := range ev.Paths {
		p := &ev.Paths[i]
		p.Buckets = int(f.at.Share(p.Network) * Buckets)
		if p.Buckets == 0 {
			p.Data = Data{}
		} else if p.Data.Goodput > 0 {
			p.Data.Goodput *= math.Exp(0.02 * f.r.NormFloat64())
		}
	}
	f.state, f.last = policy.Step(f.state, ev)
	f.at = f.at.Apply(f.last)
	f.ev.At += Period
	return f.last
}

// run steps n times and returns the first decision of one of the kinds.
func (f *feed) run(policy Policy, n int, kinds ...Kind) (Decision, int) {
	for i := range n {
		if d := f.step(policy); slices.Contains(kinds, d.Kind) {
			return d, i + 1
		}
	}
	return Decision{}, 0
}

// calm runs until the policy has a baseline.
func (f *feed) calm(t *testing.T, policy Policy) {
	t.Helper()
	if d, n := f.run(policy, 100, Switch, Failover, Fallback); n > 0 {
		t.Fatalf("moved in calm: %+v", d)
	}
	f.path("b").Probe.Age = 0.01
	if f.at.Canary != "" {
		f.run(policy, 20, Stay)
	}
}

// limit bends path n as a rate limit does that is felt on the path.
func (f *feed) limit(n string, rate float64) {
	f.carry(n, rate)
	f.path(n).Data.SRTT = 10e-3
	f.path(n).Data.Retrans = 0.03
}

func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got > want {
		t.Errorf("%s: after %v of evidence, want at most %v", what, got, want)
	}
}

// Simulate is Play with a trace, and the records of the run, which Replay reads.
func Simulate(s Schedule, policy Policy, seed uint64) (Result, Recording) {
	rec := Recording{Header: Header{Format: Format, Version: Version, Name: s.Name, Unit: "bit/s", Loss: s.Loss}}
	if s.Need == Latency {
		rec.Header.Unit = "ops/s"
	}
	var trace []Traced
	out := simulate(s, policy, seed, func(t Traced, r Record) {
		trace, rec.Records = append(trace, t), append(rec.Records, r)
	})
	out.Trace = trace
	return out, rec
}

// familyNamed is a family of schedules.
func familyNamed(t *testing.T, name string) Family {
	t.Helper()
	found, err := Named(Families(), func(f Family) string { return f.Name }, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}
