package decide

import (
	"slices"
	"time"
)

const (
	// hold is how long a path must have been up after a failure before it is
	// used for gain; it doubles with each failure, up to maxHold.
	hold, maxHold = time.Second, time.Minute
	// silence is the number of samples without any answer that count as failure.
	silence = 2
)

// held tells whether a path is too soon after a failure.
func (s *State) held(m *Memory, at time.Duration) bool {
	return m.Failures > 0 && at-m.UpSince < holdOf(m.Failures)
}

func holdOf(failures int) time.Duration {
	d := hold
	for i := 1; i < failures && d < maxHold; i++ {
		d *= 2
	}
	return min(d, maxHold)
}

// lateNews is by when what was lost in an outage has been told: a probe is given
// up after its deadline, and agents sum their probes up once a second.
const lateNews = 2 * time.Second

// excuse takes out of the probes' loss what an outage that is over has left in
// it. Probes look back over a minute (256 of them, package probe), through which a
// path that is well again would seem to lose every third packet. What is lost
// anew counts.
func (s *State) excuse(ev PairEvidence) PairEvidence {
	ev.Paths = slices.Clone(ev.Paths)
	for i := range ev.Paths {
		p := &ev.Paths[i]
		m := s.memory(p.Network)
		if m.Down || m.UpSince > 0 && ev.At-m.UpSince < lateNews {
			m.Excused = max(m.Excused, p.Probe.Loss)
		} else {
			m.Excused = min(m.Excused, p.Probe.Loss)
		}
		if !m.Down {
			p.Probe.Loss = max(p.Probe.Loss-m.Excused, 0)
		}
	}
	return ev
}

// flee leaves an active path that has failed or may not be used: without
// dwell, canary or delay. ok is false when there is nothing to flee from.
func (s *State) flee(ev PairEvidence) (Decision, bool) {
	active, _ := ev.path(ev.Active)
	var why string
	switch {
	case active.State == Failed:
		why = "has failed"
	case active.State == Ineligible:
		why = "may not be used"
	case s.Silent >= silence:
		why = "sends and hears nothing, timeouts went off"
	default:
		return Decision{}, false
	}
	if active.Reason != "" {
		why += " (" + active.Reason + ")"
	}
	if to, ok := s.refuge(ev); ok {
		d := move(Failover, ev, to.Network, "%s %s: %s answers", ev.Active, why, to.Network)
		d.PredictedGain = 1
		return d, true
	}
	if p, ok := ev.path(ev.Default); ok && ev.Default != ev.Active && p.State == Suspect && active.State != Up {
		return move(Fallback, ev, ev.Default, "%s %s and no path is known to be up: %s is the default", ev.Active, why, ev.Default), true
	}
	if active.State == Up {
		// The silence is no fault of the path as far as probes know, and
		// there is nowhere to go.
		return Decision{}, false
	}
	return stay(ev, "%s %s, but so have all others", ev.Active, why), true
}

// refuge is the best path that is up: one that answers probes rather than one
// that is merely not known to be down, one without recent failure rather than
// one with, then by score.
func (s *State) refuge(ev PairEvidence) (PathEvidence, bool) {
	need := s.need(ev)
	var candidates []figure
	for _, p := range ev.Paths {
		if p.Network != ev.Active && p.State == Up {
			candidates = append(candidates, s.unit(ev, p, s.rate(ev, p, 0), need))
		}
	}
	score(candidates, need)
	for i := range candidates {
		// z-scores of a few paths stay below 10: these rank before them.
		if !fresh(candidates[i].path) || candidates[i].path.Probe.Samples == 0 {
			candidates[i].score -= 1000
		}
		if s.held(s.memory(candidates[i].path.Network), ev.At) {
			candidates[i].score -= 100
		}
	}
	if len(candidates) == 0 {
		return PathEvidence{}, false
	}
	return best(candidates)[0].path, true
}
