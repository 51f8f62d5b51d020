package decide

import (
	"cmp"
	"slices"
)

// discountOutages takes out of the probes' loss what an outage that is over has left in
// it. Probes look back over a minute (256 of them, package probe), through which a
// path that is well again would seem to lose every third packet. What is lost
// again counts.
func (s *step) discountOutages(ev PairEvidence) PairEvidence {
	if !s.p.Failure.OutageDiscounted {
		return ev
	}
	ev.Paths = slices.Clone(ev.Paths)
	for i := range ev.Paths {
		p := &ev.Paths[i]
		m := s.memory(p.Network)
		if p.State != Up {
			m.TroubledAt = ev.At
		}
		if p.State != Up || m.TroubledAt > 0 && ev.At-m.TroubledAt < s.p.Failure.ReportedAfter {
			m.OutageLoss = max(m.OutageLoss, p.Probe.Loss)
		} else {
			m.OutageLoss = min(m.OutageLoss, p.Probe.Loss)
		}
		if !m.Down {
			p.Probe.Loss = max(p.Probe.Loss-m.OutageLoss, 0)
		}
	}
	return ev
}

// failover leaves an active path that has failed or may not be used: without
// canary or delay. ok is false when there is no reason.
func (s *step) failover(ev PairEvidence) (Decision, bool) {
	active, _ := ev.path(ev.Active)
	var why string
	switch {
	case active.State == Failed:
		why = "has failed"
	case active.State == Ineligible:
		why = "may not be used"
	case s.p.Failure.SilentSamples > 0 && s.Silent >= s.p.Failure.SilentSamples:
		why = "sends and receives nothing, timeouts went off"
	default:
		return Decision{}, false
	}
	if active.Reason != "" {
		why += " (" + active.Reason + ")"
	}
	if d, ok := s.inherit(ev, why); ok {
		return d, true
	}
	if to, ok := s.backup(ev); ok {
		d := move(Failover, ev, to.Network, "%s %s: %s answers", ev.Active, why, to.Network)
		d.PredictedGain = 1
		return d, true
	}
	down := active.State == Failed || active.State == Ineligible
	if p, ok := ev.path(ev.Default); ok && ev.Default != ev.Active && p.State == Suspect && down {
		return move(Fallback, ev, ev.Default, "%s %s and no path is known to be up: %s is the default", ev.Active, why,
			ev.Default), true
	}
	if !down {
		// The silence is no fault of the path as far as probes know, and
		// there is nowhere to go.
		return Decision{}, false
	}
	return stay(ev, "%s %s, but so have all others", ev.Active, why), true
}

// backup is the best path that is up: one that answers probes rather than one
// that is merely not known to be down, then by score.
func (s *step) backup(ev PairEvidence) (PathEvidence, bool) {
	need := s.need(ev)
	var candidates []figure
	for _, p := range ev.Paths {
		if p.Network != ev.Active && p.State == Up {
			candidates = append(candidates, s.unit(ev, p, s.rate(ev, p, 0), need))
		}
	}
	if len(candidates) == 0 {
		return PathEvidence{}, false
	}
	score(candidates, need)
	return slices.MinFunc(best(candidates), func(a, b figure) int {
		return cmp.Compare(s.unanswered(a.path), s.unanswered(b.path))
	}).path, true
}

// unanswered is 1 for a path, which is up, that does not answer probes, and 0 for one that does.
func (s *step) unanswered(p PathEvidence) int {
	if !s.usable(p) || p.Probe.Samples == 0 {
		return 1
	}
	return 0
}
