package decide

import (
	"fmt"
	"strings"
)

// Static keeps a pair on one network.
type Static struct {
	Network string
	// Failover leaves it while it has failed.
	Failover bool
}

// Name of the policy.
func (p Static) Name() string { return "static:" + p.Network }

// Step decides.
func (p Static) Step(state State, ev PairEvidence) (State, Decision) {
	s := newStep(state, nil)
	s.observe(ev)
	if p.Failover {
		if d, ok := s.failover(ev); ok {
			return *s.State, d
		}
	}
	if ev.Active == p.Network {
		return *s.State, stay(ev, "%s is the only choice", p.Network)
	}
	home, ok := ev.path(p.Network)
	switch {
	case !ok:
		return *s.State, stay(ev, "%s is not among the pair's paths", p.Network)
	case home.State != Up:
		return *s.State, stay(ev, "%s is %s", p.Network, home.State)
	}
	return *s.State, move(Switch, ev, p.Network, "%s is the only choice", p.Network)
}

// Hysteresis is the usual rule, to compare with: it moves when another path is
// thought better by a fifth for three seconds. What it thinks of a path is what
// was last measured on it, or its prior.
type Hysteresis struct{}

const (
	hysteresisGain    = 0.2
	hysteresisSamples = 30
	// hysteresisTrusts a measurement for so many seconds.
	hysteresisTrusts = 30.0
)

// Name of the policy.
func (Hysteresis) Name() string { return "hysteresis" }

// Step decides.
func (Hysteresis) Step(state State, ev PairEvidence) (State, Decision) {
	s := newStep(state, nil)
	s.observe(ev)
	need := s.need(ev)
	s.observeOps(ev, need)
	if d, ok := s.failover(ev); ok {
		return *s.State, d
	}
	active, _ := ev.path(ev.Active)
	if s.demandMet(active, need) || active.Data.Blank {
		return *s.State, stay(ev, "%s carries all that is asked", ev.Active)
	}
	mine := s.unit(ev, active, figure{mid: s.activeRate(active, ev.Load)}, need)
	for _, p := range ev.Paths {
		if p.Network == ev.Active || p.State != Up {
			continue
		}
		m := s.memory(p.Network)
		f := figure{mid: s.prior(p, ev.Load)}
		if m.Measured && (ev.At-m.HealthAt).Seconds() < hysteresisTrusts {
			f.mid *= m.Health
		}
		f = s.unit(ev, p, f, need)
		if gain(f.mid, mine.mid) <= hysteresisGain {
			m.Lead = Lead{}
			continue
		}
		m.Lead.N++
		if m.Lead.N >= hysteresisSamples {
			return *s.State, move(Switch, ev, p.Network, "%s was better by over %s for %d samples", p.Network,
				percent(hysteresisGain), hysteresisSamples)
		}
	}
	return *s.State, stay(ev, "no path is better by over %s", percent(hysteresisGain))
}

// ParsePolicy finds a policy by its name: "static:NAME", "table", "hysteresis"
// or "cost-aware".
func ParsePolicy(name string, table Table, seed uint64) (Policy, error) {
	network, static := strings.CutPrefix(name, "static:")
	switch {
	case static && network != "":
		return Static{Network: network}, nil
	case name == "table":
		return TablePolicy{Table: table}, nil
	case name == "hysteresis":
		return Hysteresis{}, nil
	case name == "cost-aware":
		return CostAware{Seed: seed}, nil
	}
	return nil, fmt.Errorf("unknown policy %q: expected static:NETWORK, table, hysteresis or cost-aware", name)
}
