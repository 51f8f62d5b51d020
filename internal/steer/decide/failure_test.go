package decide

import (
	"slices"
	"testing"
	"time"
)

// An hour ago's loss says nothing of a path that is well again, though probes
// look back far enough to remember it.
func TestOutageIsExcused(t *testing.T) {
	for _, need := range []Need{Throughput, Latency, Robust} {
		f := newFeed(need)
		b := f.path("b")
		f.carry("a", 0.8e9)
		f.carry("b", 1e9)
		b.Probe.RTT = 60e-6
		b.State = Failed
		for range 100 {
			b.Probe.Loss += 0.4 / 100
			f.step(CostAware{})
		}
		b.State = Up
		back := f.ev.At
		// Where probes forget at once, there is nothing to excuse.
		none := f.ev
		none.Paths = slices.Clone(f.ev.Paths)
		none.Paths[1].Probe.Loss = 0
		s := newStep(f.state, nil)
		s.observe(none)
		if got := s.discountOutages(none).Paths[1].Probe.Loss; got != 0 {
			t.Errorf("%s: loss %v of none", need, got)
		}
		if _, n := f.run(CostAware{}, 100, Switch); n == 0 || f.at.Active != "b" {
			t.Errorf("%s: still on %s %v after b was well again: %s", need, f.at.Active, f.ev.At-back, f.last.Reason)
		}
		// What is lost again counts in full, what is forgotten is not excused twice.
		for _, loss := range []float64{0.4, 0.5, 0.1, 0.3} {
			b.Probe.Loss = loss
			f.ev.At += time.Minute
			f.step(CostAware{})
		}
		ev := f.ev
		if got := in(&f.state).discountOutages(ev).Paths[1].Probe.Loss; got < 0.199 || got > 0.201 {
			t.Errorf("%s: loss %v, want 0.2 of the 0.3: 0.1 is left of the outage", need, got)
		}
		if ev.Paths[1].Probe.Loss != 0.3 {
			t.Error("the evidence was changed")
		}
	}
}

// Flows that drown a path's probes show that it is slow. It is tried again for
// that, but not at once.
func TestFloodIsNoFailure(t *testing.T) {
	f := newFeed(Throughput)
	f.ev.Load.Connections = 4
	f.carry("b", 0.1e9)
	f.path("b").Prior = 1.2e9
	floods := 0
	var last, least time.Duration
	for range 600 {
		f.path("b").State = Up
		if f.at.Canary == "b" {
			f.path("b").State = Failed
		}
		if d := f.step(CostAware{}); d.Kind != Canary {
			continue
		}
		if floods++; floods > 1 && (least == 0 || f.ev.At-last < least) {
			least = f.ev.At - last
		}
		last = f.ev.At
	}
	if m := f.state.memory("b"); !m.FailedUnderCanary || floods < 3 || least < usual().Canary.LeastWait {
		t.Errorf("under a canary %v, %d canaries, %v apart", m.FailedUnderCanary, floods, least)
	}
	// Now it carries.
	f.carry("b", 1.2e9)
	f.path("b").State = Up
	back := f.ev.At
	if f.run(CostAware{}, 200, Switch); f.at.Active != "b" {
		t.Errorf("still on %s after %v: %s", f.at.Active, f.ev.At-back, f.last.Reason)
	}
	// Without a canary it is a failure.
	f.path("a").State = Failed
	f.step(CostAware{})
	if m := f.state.memory("a"); !m.Down || m.FailedUnderCanary {
		t.Errorf("a is down %v, under a canary %v", m.Down, m.FailedUnderCanary)
	}
}

// faults is the course of the same name that drills play: the first network is
// slowed to a tenth, then well again while the second is gone, then gone itself.
func faults(span time.Duration) Schedule {
	const first, second, third = "routed-bgp", "vxlan", "macvlan"
	phase := func(network string, fault Fault, factor float64) Phase {
		p := Phase{For: span, Load: Load{Connections: 4}}
		if network != "" {
			p.Impairments = []Impairment{{Network: network, Fault: fault, Factor: factor}}
		}
		return p
	}
	return Schedule{
		Name: "faults", Need: Throughput, Bare: true, Loss: 0.01,
		Networks: []SimNetwork{
			{Name: first, Capacity: 3.35e8, Many: 1, RTT: 1e-4, Noise: 0.04},
			{Name: second, Capacity: 3.1e8, Many: 1, RTT: 1e-4, Noise: 0.04},
			{Name: third, Capacity: 3.0e8, Many: 1, RTT: 5e-5, Noise: 0.04},
		},
		Phases: []Phase{phase("", "", 0), phase(first, RateLimit, 0.1), phase(second, BlackHole, 0),
			phase(first, BlackHoleReverse, 0)},
	}
}

// It stayed on the third network, since a path that had been slow was held down
// for failing under canaries, or tried too seldom, or thought to lose packets.
func TestGoesBackToAPathThatIsWellAgain(t *testing.T) {
	const seeds = 600 // 40 of them scatter by 0.2 %
	mean, back := 0.0, 0
	for seed := range uint64(seeds) {
		r, _ := Simulate(faults(12*time.Second), CostAware{Seed: seed}, seed)
		mean += r.OfHindsight() / seeds
		for _, x := range r.Trace {
			if x.At == 35*time.Second && x.After.Active == "routed-bgp" {
				back++
			}
		}
		if r.OfStatic() < 0.98 {
			t.Errorf("seed %d: %.4f of the best static network", seed, r.OfStatic())
		}
	}
	t.Logf("%.4f of hindsight, back in %d of %d", mean, back, seeds)
	if mean < 0.965 || back < seeds*9/10 {
		t.Errorf("%.4f of hindsight, back on the best network in %d of %d", mean, back, seeds)
	}
}
