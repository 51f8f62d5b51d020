package decide

import "testing"

// mixedPair has a fast network with much delay and a slow one with little.
func mixedPair() Schedule {
	s := Schedule{Name: "mixed", Need: Throughput, Bare: true, Loss: 0.005, Networks: []SimNetwork{
		{Name: "near", Capacity: 70e6, Many: 1, RTT: 1e-3, Noise: 0.03, Queue: 5e-3},
		{Name: "far", Capacity: 281e6, Many: 1, RTT: 20e-3, Noise: 0.03, Queue: 5e-3}}}
	s.Phases = []Phase{{For: 200 * Period, Load: Load{Connections: 8}, Answers: 1},
		{For: 400 * Period, Load: Load{Connections: 8}, Answers: 1}}
	return s
}

// Each class of flows gets nearly what it would have alone, and a path for both does not
// give both that.
func TestMixedPair(t *testing.T) {
	s := mixedPair()
	for seed := range uint64(5) {
		r := Play(s, CostAware{Seed: seed}, seed)
		bulk, other := r.Classes[0], r.Classes[1]
		if bulk.Class != Bulk || bulk.OfHindsight() < 0.95 || bulk.StaticNetworks[0] != "far" {
			t.Errorf("seed %d: %s %.3f of %v", seed, bulk.Class, bulk.OfHindsight(), bulk.StaticNetworks)
		}
		if other.Class != Interactive || other.OfHindsight() < 0.9 || other.StaticNetworks[0] != "near" ||
			other.Slower50 > 1.1 {
			t.Errorf("seed %d: %s %.3f of %v, %.2f times the median", seed, other.Class, other.OfHindsight(),
				other.StaticNetworks, other.Slower50)
		}
		if r.OfStatic() < 1.5 || r.Hindsight != 2 {
			t.Errorf("seed %d: %.3f of one network for both, hindsight %v", seed, r.OfStatic(), r.Hindsight)
		}
		together := s
		together.Together = true
		r = Play(together, CostAware{Seed: seed}, seed)
		if r.Classes[0].OfHindsight() > 0.9 && r.Classes[1].OfHindsight() > 0.5 || r.OfStatic() > 1.1 {
			t.Errorf("seed %d: one path for both gives %.3f and %.3f", seed, r.Classes[0].OfHindsight(),
				r.Classes[1].OfHindsight())
		}
	}
}

// Bulk delays other flows where it fills a network, and nowhere else: the longer, the slower
// the network is.
func TestQueuesOfBulk(t *testing.T) {
	s := mixedPair()
	w := newWorld(s, 1)
	if got := w.queues(s.Phases[0]); len(got) != 0 {
		t.Errorf("without traffic: %v", got)
	}
	at := Assignment{Active: "far"}
	w.play(s.Phases[0], at, at)
	got := w.queues(s.Phases[0])
	if len(got) != 1 || got[0] != (Impairment{"far", Delay, 2.5e-3}) {
		t.Errorf("got %v", got)
	}
	slow := s.Phases[0]
	slow.Impairments = []Impairment{{"far", RateLimit, 0.5}}
	if got := w.queues(slow); len(got) != 1 || got[0].Factor != 5e-3 {
		t.Errorf("at half of the capacity: %v", got)
	}
	pause := s.Phases[0]
	pause.Pause = true
	w.play(pause, at, at)
	if got := w.queues(pause); len(got) != 0 {
		t.Errorf("in a pause: %v", got)
	}
	p := pause.answering([]Impairment{{"far", Delay, 1}})
	if p.Pause || p.Load.Connections != 1 || len(p.Impairments) != 1 {
		t.Errorf("others find %+v", p)
	}
}

// The rate of a simulation is per second, as are the answers that a class is learned by.
func TestSimulatedRate(t *testing.T) {
	s := mixedPair()
	r := newSimulation(s, Static{Network: "near"}, 1)
	d := Decision{Kind: Stay, From: "near", To: "near"}
	if got := r.play(s.Phases[0], s.Phases[0], d); got != 70e6 || r.rate != got {
		t.Errorf("played %v, rate %v", got, r.rate)
	}
}
