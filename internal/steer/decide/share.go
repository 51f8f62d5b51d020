package decide

import (
	"fmt"
	"math"
	"slices"
)

// mayShare tells whether the pair's flows may share networks: bulk of so many flows, and no
// others, as those that wait for answers would find its queues wherever they went.
func (s *step) mayShare(ev PairEvidence, need Need, flows int) bool {
	return s.p.Share.On && need == Throughput && ev.Load.Connections >= flows &&
		!slices.ContainsFunc(ev.Paths, func(p PathEvidence) bool { return p.Answers })
}

// share is the decision that flows be on the networks that they share.
func (s *step) share(ev PairEvidence, format string, args ...any) Decision {
	with := s.Shared.With
	most := with.largest()
	return Decision{Kind: Share, From: ev.Active, To: most.Network, Buckets: most.Buckets, With: with,
		Reason: fmt.Sprintf(format, args...), Confidence: 1, Evidence: ev,
		PredictedGain: max(gain(s.Shared.Total, s.Shared.Alone), 0),
		ExpectedLoss:  ev.SwitchLoss.upper() * float64(with.total()) / Buckets}
}

// partner is the network that promises most of those that may be worth a portion, in addition
// to what is carried now.
func (s *step) partner(ev PairEvidence, f []figure, now float64) (best figure, ok bool) {
	for _, b := range f[1:] {
		m := s.memory(b.path.Network)
		one := Portions{{Network: b.path.Network, Buckets: s.p.Share.Buckets}}
		switch up := b.high / now; {
		case !s.usable(b.path) || ev.At < m.NextShare:
		case s.Shared.With.On(b.path.Network) > 0 || s.crowded(ev, b.path.Network):
		case now <= 0 || up <= s.worth(ev, one) || !s.pays(ev, up):
		case !ok || b.high > best.high:
			best, ok = b, true
		}
	}
	return best, ok
}

// beginShare gives another network a portion, to see whether it adds anything.
func (s *step) beginShare(ev PairEvidence, f []figure, need Need) (Decision, bool) {
	h := &s.Shared
	now := f[0].mid
	if h.on() {
		now = h.Total
	}
	if h.With.free() < 0 || ev.Pause || !s.mayShare(ev, need, s.p.Share.Flows) {
		return Decision{}, false
	}
	b, ok := s.partner(ev, f, now)
	if !ok {
		return Decision{}, false
	}
	if !h.on() {
		*h = Shared{Active: ev.Active, Alone: now, CheckedAt: ev.At, LastTraffic: ev.At}
	}
	h.try(Portion{b.path.Network, h.portion(s.memory(b.path.Network), &s.p.Share)}, now, ev.At)
	return s.shareTry(ev), true
}

func (s *step) shareTry(ev PairEvidence) Decision {
	h := &s.Shared
	return s.share(ev, "%d of %d buckets try whether %s adds to the %s that are carried without it",
		h.With.On(h.Trying), Buckets, h.Trying, bits(h.Before))
}

// runShare goes on with sharing, changes it, or ends it.
func (c CostAware) runShare(s *step, ev PairEvidence, f []figure, need Need) Decision {
	h := &s.Shared
	if !s.mayShare(ev, need, s.p.Share.Flows/2) {
		return s.endShare(ev, false, "the pair has not the flows that several networks are for, or others too")
	}
	if lost := s.lostPortion(ev); lost != "" {
		return s.dropPortion(ev, lost)
	}
	seen := h.carriedOn(ev)
	if seen.silent || ev.Pause {
		if ev.At-h.LastTraffic > s.p.Class.Gone {
			return s.endShare(ev, false, "no traffic: nothing to share")
		}
		if h.Check > 0 {
			h.Check = ev.At // what is seen afterwards is new
		}
		return s.holdShare(ev)
	}
	h.LastTraffic = ev.At
	switch {
	case h.Check > 0:
		return s.checkShare(ev, seen)
	case seen.blank || !h.settled(ev.At, &s.p.Share) || s.stalled(ev):
		return s.holdShare(ev)
	case h.Trying != "":
		return s.tryShare(ev, seen)
	}
	h.observe(seen, &s.p.Share)
	return s.keepShare(ev, f, need)
}

// holdShare changes nothing.
func (s *step) holdShare(ev PairEvidence) Decision {
	h := &s.Shared
	switch {
	case h.Check > 0:
		return stay(ev, "what %s carries alone is looked at", ev.Active)
	case h.Trying != "":
		return s.shareTry(ev)
	}
	return s.share(ev, "%s, together %s where one carries %s", h.names(), bits(h.Total), bits(h.Alone))
}

// names are the networks with their buckets, for people.
func (h *Shared) names() string {
	text := fmt.Sprintf("%s has %d buckets", h.Active, Buckets-h.With.total())
	for _, one := range h.With {
		if one.Network != "" {
			text += fmt.Sprintf(", %s %d", one.Network, one.Buckets)
		}
	}
	return text
}

// lostPortion is a network that can have a portion no more; "" where there is none.
func (s *step) lostPortion(ev PairEvidence) string {
	for _, one := range s.Shared.With {
		if one.Network == "" {
			continue
		}
		p, ok := ev.path(one.Network)
		if !ok || p.State == Failed || p.State == Ineligible || p.State == Suspect && p.Data.silent() {
			return one.Network
		}
	}
	return ""
}

// dropPortion has the flows of a network be on the active one at once.
func (s *step) dropPortion(ev PairEvidence, network string) Decision {
	h := &s.Shared
	m := s.memory(network)
	if m.NextShare = max(m.NextShare, after(ev.At, s.p.Share.FirstWait/2)); h.Trying == network {
		h.Trying = ""
	}
	h.Undo = h.Undo.without(network)
	h.changed(h.With.without(network), ev.At)
	p, _ := ev.path(network)
	if !h.on() {
		return s.endShare(ev, false, "%s is %s: its flows are on %s", network, p.State, ev.Active)
	}
	return s.share(ev, "%s is %s: its flows are on the others", network, p.State)
}

// tryShare judges whether the portion that came last adds anything to what was carried before.
func (s *step) tryShare(ev PairEvidence, seen carried) Decision {
	h, by := &s.Shared, &s.p.Share
	m := s.memory(h.Trying)
	place := slices.IndexFunc(h.With[:], func(p Portion) bool { return p.Network == h.Trying })
	if seen.each[place+1] <= 0 {
		if h.Quiet++; h.Quiet < by.Samples {
			return s.shareTry(ev)
		}
		m.Empty = min(m.Empty+1, s.p.Canary.EmptyMost) // no flow is in its buckets: more of them the next time
		return s.undoTry(ev, "no flow is in the buckets that try %s", h.Trying)
	}
	noise := s.Track.noise(&s.p.Track)
	h.N++
	h.Sum += s.addedBy(seen.total, h.Before)
	h.Theirs += (seen.each[place+1] - h.Theirs) / float64(h.N)
	n := float64(h.N)
	deviation := noise * math.Sqrt(1/n+s.p.Track.MeanWeight/2)
	// The best that one network gives may be what the new one does.
	added := h.Sum/n - max(math.Log(max(h.Theirs, 1)/h.Before), 0)
	over := added - math.Log1p(s.worth(ev, h.With))
	switch {
	case h.N >= by.Samples && over > by.AcceptAt*deviation, h.N >= by.SamplesMost && over > deviation:
		return s.acceptShare(ev, added)
	case seen.limited && h.N >= by.Samples:
		return s.undoTry(ev, "the senders have no more to send")
	case h.N >= by.Samples && over < -by.RejectAt*deviation, h.N >= by.SamplesMost:
		return s.undoTry(ev, "%s moved what is carried and added %s", h.Trying, percent(math.Exp(added)-1))
	}
	return s.shareTry(ev)
}

// acceptShare keeps the portion that was tried.
func (s *step) acceptShare(ev PairEvidence, added float64) Decision {
	h := &s.Shared
	m := s.memory(h.Trying)
	m.ShareFails, m.Empty, m.Proven = 0, 0, true
	d := s.share(ev, "%s adds %s to the %s that were carried without it: %s", h.Trying, percent(math.Exp(added)-1),
		bits(h.Before), h.names())
	d.PredictedGain = math.Exp(added) - 1
	h.Trying, h.CheckedAt = "", ev.At
	return d
}

// undoTry takes the portion back that was tried, and has it wait for longer each time.
func (s *step) undoTry(ev PairEvidence, format string, args ...any) Decision {
	h := &s.Shared
	s.failShare(ev, h.Trying)
	with := h.Undo
	h.Trying = ""
	if h.changed(with, ev.At); !h.on() {
		s.Shared = Shared{}
		return stay(ev, format, args...)
	}
	return s.share(ev, format, args...)
}

// failShare notes that sharing a network did not pay.
func (s *step) failShare(ev PairEvidence, network string) {
	m := s.memory(network)
	m.ShareFails++
	m.NextShare = after(ev.At, s.p.Share.sharesWait(m.ShareFails))
}

// keepShare looks whether sharing still pays, and whether flows get alike on each network.
func (s *step) keepShare(ev PairEvidence, f []figure, need Need) Decision {
	h, by := &s.Shared, &s.p.Share
	since := ev.At - h.CheckedAt
	switch {
	case h.Limited >= by.Samples && h.Total < by.Room*h.Alone:
		return s.endShare(ev, false, "%s carries all that is asked, %s", ev.Active, bits(h.Total))
	case h.Short >= by.Samples && h.Total < (1+by.Margin)*max(h.Each[1], h.Each[2]):
		return s.endShare(ev, true, "one network carries nearly all of %s", bits(h.Total))
	case h.Short >= by.Samples && since >= by.CheckAgain, since >= by.checkWait(h.Checks):
		h.Check, h.Checked, h.CheckSum, h.Since = ev.At, 0, 0, ev.At
		return s.holdShare(ev)
	}
	if h.Limited == 0 && ev.At-h.Since >= by.WeighEvery/2 {
		s.measureShared(ev)
	}
	if with := h.weights(by); ev.At-h.Since >= by.WeighEvery && h.With.uneven(with, by.Even) {
		h.changed(with, ev.At)
		return s.share(ev, "flows are to get alike: %s", h.names())
	}
	if ev.At-h.Since >= by.WeighEvery/2 {
		if d, ok := s.beginShare(ev, f, need); ok {
			return d
		}
	}
	return s.holdShare(ev)
}

// measureShared takes what each network carries for what it can: its flows want more.
func (s *step) measureShared(ev PairEvidence) {
	h := &s.Shared
	for i, network := range h.networks() {
		if p, ok := ev.path(network); ok && h.Each[i] > 0 {
			s.measure(p, ev.Load, h.Each[i], s.Track.noise(&s.p.Track)*math.Sqrt(s.p.Share.Weight/2), ev.At)
		}
	}
}

// shareTrial has a canary that adds to what is carried, rather than to move it, be a portion.
func (s *step) shareTrial(ev PairEvidence, need Need) (Decision, bool) {
	t, by := s.Trial, &s.p.Share
	n := float64(t.Rates.N)
	if !s.mayShare(ev, need, by.Flows) || t.Rates.N < by.Samples || 2*t.Limited > t.Rates.N ||
		s.crowded(ev, t.To) || t.Buckets > Buckets/2 || t.Before <= 0 {
		return Decision{}, false
	}
	with := Portions{{t.To, t.Buckets}}
	added := t.Added/n - max(math.Log(max(t.Total/n, 1)/t.Before), 0)
	deviation := s.Track.noise(&s.p.Track) * math.Sqrt(1/n+s.p.Track.MeanWeight/2)
	if added-math.Log1p(s.worth(ev, with)) <= by.AcceptAt*deviation {
		return Decision{}, false
	}
	s.Shared = Shared{Active: ev.Active, Alone: t.Before, Before: t.Before, LastTraffic: ev.At, Trying: t.To}
	s.Shared.changed(with, ev.At)
	s.Trial = Trial{}
	return s.acceptShare(ev, added), true
}

// addedBy is by how much, as a logarithm within bounds, networks carry more than one did.
func (s *step) addedBy(total, before float64) float64 {
	most := s.p.Canary.RatioClip * s.Track.noise(&s.p.Track)
	return min(max(math.Log(max(total, 1)/max(before, 1)), -most), math.Log(s.p.Share.AddsMost))
}

// checkShare judges what the active network carries alone against what all did together.
func (s *step) checkShare(ev PairEvidence, seen carried) Decision {
	h, by := &s.Shared, &s.p.Share
	if seen.blank || ev.At-h.Check < by.Settle {
		return s.holdShare(ev)
	}
	h.Checked++
	h.CheckSum += seen.each[0]
	if h.Checked < by.Samples {
		return s.holdShare(ev)
	}
	alone := h.CheckSum / float64(h.Checked)
	paid := h.Total > (1+s.worth(ev, h.With))*alone
	h.Check, h.Alone, h.CheckedAt = 0, alone, ev.At
	switch {
	case seen.limited && alone >= h.Total/(1+by.Margin):
		return s.endShare(ev, false, "%s carries all that is asked, %s", ev.Active, bits(alone))
	case !paid:
		return s.endShare(ev, true, "%s carries %s alone, all together %s", ev.Active, bits(alone), bits(h.Total))
	}
	h.Checks++
	together := h.Total
	h.changed(h.With, ev.At)
	return s.share(ev, "all together carry %s, %s alone %s", bits(together), ev.Active, bits(alone))
}

// endShare has all flows be on one network: the active one, or the one that carried most by
// far. failed says that sharing did not pay.
func (s *step) endShare(ev PairEvidence, failed bool, format string, args ...any) Decision {
	h := s.Shared
	s.Shared, s.Track = Shared{}, Track{}
	alone := max(h.Alone, h.Each[0])
	to, most := "", (1+s.p.Gain.Margin)*alone
	for i, one := range h.With {
		if one.Network == "" {
			continue
		}
		if failed {
			s.failShare(ev, one.Network)
		} else {
			m := s.memory(one.Network)
			m.NextShare = max(m.NextShare, after(ev.At, s.p.Canary.LeastWait))
		}
		p, _ := ev.path(one.Network)
		if h.Each[i+1] > most && p.State == Up {
			to, most = one.Network, h.Each[i+1]
		}
	}
	if to == "" || !failed {
		return stay(ev, format, args...)
	}
	s.failShare(ev, ev.Active) // where the pair comes from
	d := move(Switch, ev, to, format, args...)
	d.PredictedGain = gain(most, alone)
	return d
}

// heir is the network that gets the flows of an active one that has failed: of those that share
// it and are well, the one that carried most.
func (s *step) heir(ev PairEvidence) (to string, with Portions) {
	h := &s.Shared
	most := -1.0
	for _, one := range h.With {
		p, ok := ev.path(one.Network)
		if ok && h.Check == 0 && s.usable(p) && !p.Data.silent() && p.Data.Goodput > most {
			to, most = one.Network, p.Data.Goodput
		}
	}
	with = h.With.without(to)
	for _, one := range with {
		if p, ok := ev.path(one.Network); !ok || p.State != Up {
			with = with.without(one.Network)
		}
	}
	return to, with
}

// inherit has flows that share networks leave the active one, which has failed, for the others.
func (s *step) inherit(ev PairEvidence, why string) (Decision, bool) {
	if !s.Shared.on() {
		return Decision{}, false
	}
	to, with := s.heir(ev)
	if to == "" {
		return Decision{}, false
	}
	d := move(Failover, ev, to, "%s %s: its flows are on %s, which has some already", ev.Active, why, to)
	d.PredictedGain, d.With = 1, with
	s.Shared = Shared{Active: to, CheckedAt: ev.At, LastTraffic: ev.At}
	s.Shared.changed(with, ev.At)
	return d, true
}
