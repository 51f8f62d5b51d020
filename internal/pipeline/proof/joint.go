package proof

import (
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// joint carries out an action that is written alike in both. It says whether the lists go
// on, and whether it could: if not, the two are looked at one by one.
func (l *lockstep) joint(s *state, ca, cb cursor) (goOn, handled bool) {
	a := ca.head()
	switch a.Kind {
	case pipeline.Resubmit, pipeline.Goto:
		if a.Original {
			l.differ(s, ca, cb, "the original direction of a connection is not known")
			return false, true
		}
		return false, false
	case goBack:
		l.comesBack(s, ca, cb)
		return false, true
	case pipeline.CT:
		return l.trackBoth(s, ca, cb), true
	case pipeline.Clone:
		if l.uses[pipeline.Exit] { // it would end the original too
			l.differ(s, ca, cb, "an exit may be met in the copy")
			return false, true
		}
		l.copyBoth(s, a.Nested, cb.head().Nested, ca.in, cb.in)
		return true, true
	case pipeline.GroupAction:
		return l.groupBoth(s, ca, cb), true
	case pipeline.DecTTL:
		return l.ttlBoth(s, ca, cb), true
	case pipeline.Exit:
		l.ends(&state{}) // the action set is not carried out
		return false, true
	}
	if silent(a.Kind) {
		s.jointly(l.a.Words, *a)
		s.collect(l.a, true, a)
		s.collect(l.b, false, cb.head())
		return true, true
	}
	return l.eventBoth(s, ca, cb), true
}

// copyBoth carries out lists on copies of the packets.
func (l *lockstep) copyBoth(s *state, la, lb []pipeline.Action, inA, inB pipeline.Table) {
	s.forked = true
	next := *s
	l.lists(&next, cursor{rest: la, in: inA}, cursor{rest: lb, in: inB})
}

// copyOne carries out a list on a copy of one packet, of which nobody may see anything. If it clears the copy of the
// tracker's answer, a switch may not clear the packet later, as it does in the other pipeline.
func (l *lockstep) copyOne(s *state, inA bool, c cursor) {
	if inA {
		l.copyBoth(s, c.head().Nested, nil, c.in, c.in)
	} else {
		l.copyBoth(s, nil, c.head().Nested, c.in, c.in)
	}
	switch {
	case inA && s.askedA != never:
		s.askedA = "copied, in A"
	case !inA && s.askedB != never:
		s.askedB = "copied, in B"
	}
}

// trackBoth has both packets tracked, by questions that are written alike but for the
// table.
func (l *lockstep) trackBoth(s *state, ca, cb cursor) bool {
	a, b := ca.head(), cb.head()
	qa, qb := l.question(s, true, a), l.question(s, false, b)
	if !l.quiet(*a) && (qa != qb || !s.headerAlike()) {
		l.differ(s, ca, cb, "what the tracker is told may differ")
		return false
	}
	if t := a.Track.Table; t != pipeline.NoTable {
		s.forked = s.forked || !ca.last() || !cb.last()
		next := *s
		next.track(true, qa)
		next.track(false, qb)
		if a.Track.NAT != "" {
			next.translated()
		}
		next.trail = l.dive.led(s.trail, a, b)
		l.add(&next, place{look: true, table: t, port: noPort}, place{look: true, table: b.Track.Table, port: noPort})
	}
	s.untrack(true)
	s.untrack(false)
	return true
}

// translated forgets what of a header the tracker may rewrite.
func (s *state) translated() {
	for _, b := range pipeline.Translated() {
		s.a, s.b = s.a.Without(b, all()), s.b.Without(b, all())
	}
}

// groupBoth carries out a group that both have.
func (l *lockstep) groupBoth(s *state, ca, cb cursor) bool {
	id := uint32(ca.head().N)
	switch {
	case !sameBuckets(l.a, l.b, id):
		l.differ(s, ca, cb, "the groups are not known to choose alike")
		return false
	case !s.headerAlike():
		l.differ(s, ca, cb, "the header by which the group chooses may differ")
		return false
	case l.a.remains(id) || l.b.remains(id):
		l.differ(s, ca, cb, "what a bucket pushes, or adds to the action set, stays")
		return false
	case deepGroup(l.a.Pipeline, id) || deepGroup(l.b.Pipeline, id):
		l.differ(s, ca, cb, "groups within groups are not looked into")
		return false
	}
	s.forked = true
	ga, gb := l.a.Group(id), l.b.Group(id)
	for i := range ga.Buckets {
		next := *s
		next.setA, next.setB = "", ""
		l.lists(&next, cursor{rest: ga.Buckets[i].Actions, in: ca.in}, cursor{rest: gb.Buckets[i].Actions, in: cb.in})
	}
	return true
}

// remains reports whether a bucket of a group, or a flow that it leads to in the same pass,
// may push, pop, or write into the action set. A pass that a tracker's answer begins has a
// stack of its own.
func (s *side) remains(id uint32) bool {
	if is, known := s.remain[id]; known {
		return is
	}
	remains, seen := false, map[pipeline.Table]bool{}
	var waiting []pipeline.Table
	look := func(list []pipeline.Action, in pipeline.Table) {
		s.Each(list, func(a pipeline.Action) {
			switch a.Kind {
			case pipeline.Push, pipeline.Pop, pipeline.WriteActions, pipeline.ClearActions:
				remains = true
			}
		})
		ways, sure := s.Jumps(list, in)
		remains = remains || !sure
		for _, j := range ways {
			switch {
			case j.Kind == pipeline.CT || seen[j.To]:
			case j.To == pipeline.NoTable: // the table that the group is used in, which is not known here
				remains = true
			default:
				seen[j.To] = true
				waiting = append(waiting, j.To)
			}
		}
	}
	for _, b := range s.Group(id).Buckets {
		look(b.Actions, pipeline.NoTable)
	}
	for len(waiting) > 0 && !remains {
		t := waiting[0]
		waiting = waiting[1:]
		for _, e := range s.at(t).flows {
			if e.flow != nil {
				look(e.flow.Actions, t)
			}
		}
	}
	s.remain[id] = remains
	return remains
}

// deepGroup reports whether a group leads to others, or holds what an action set carries
// out in another order than it is written in.
func deepGroup(p *pipeline.Pipeline, id uint32) bool {
	deep := false
	for _, b := range p.Group(id).Buckets {
		for i, a := range b.Actions {
			last := i == len(b.Actions)-1
			switch a.Kind {
			case pipeline.Load, pipeline.SetField, pipeline.Move:
				deep = deep || last
			case pipeline.Output, pipeline.Resubmit, pipeline.CT:
				deep = deep || !last
			default:
				deep = true
			}
		}
	}
	return deep
}

// ttlBoth: a packet whose TTL runs out goes to the controller, and this list ends.
func (l *lockstep) ttlBoth(s *state, ca, cb cursor) bool {
	ttl := !s.dirty.Get(pipeline.NWTTL).Mask.IsZero()
	if ttl || !s.leavesAlike() && !untold(ca.head()) {
		l.differ(s, ca, cb, "the packets may differ")
		return false
	}
	if ends, ok := s.meets(true, expired(), s.reads()); ok || !s.ip(true) {
		next := *s
		if s.ip(true) {
			next.pair = ends
		}
		l.lists(&next, cursor{cont: ca.cont}, cursor{cont: cb.cont})
	}
	if s.ip(true) && expired().Covers(s.a) {
		return false
	}
	s.a, s.b = s.a.Without(pipeline.NWTTL, all()), s.b.Without(pipeline.NWTTL, all())
	s.not = append(slices.Clip(s.not), mostTTL())
	s.rewritten()
	return true
}

// eventBoth is an action that is observed, or whose outcome the switch knows alone.
func (l *lockstep) eventBoth(s *state, ca, cb cursor) bool {
	a := ca.head()
	switch a.Kind {
	case pipeline.Output:
		if !l.sameOutput(s, a, cb.head()) {
			l.differ(s, ca, cb, "the packets, or the port, may differ")
			return false
		}
		return true
	case pipeline.CheckLarger, pipeline.BundleLoad, pipeline.Multipath:
		if !s.headerAlike() {
			l.differ(s, ca, cb, "the packets may differ")
			return false
		}
		if a.Kind == pipeline.CheckLarger && (ca.cont != nil || cb.cont != nil) {
			l.differ(s, ca, cb, "what comes after a list that asks for the length does not see the answer")
			return false
		}
		b := a.Dst.Field.Base
		s.a, s.b = s.a.Without(b, a.Dst.Mask()), s.b.Without(b, a.Dst.Mask())
		s.dirty = s.dirty.Without(b, a.Dst.Mask())
		s.wrote(b)
		return true
	case pipeline.OutputTrunc, pipeline.Controller, pipeline.Enqueue, pipeline.Meter, pipeline.Sample, pipeline.Bundle,
		pipeline.SetQueue, pipeline.PopQueue:
		if !s.leavesAlike() || strings.Contains(a.Text, "pause") {
			l.differ(s, ca, cb, "the packets may differ")
			return false
		}
		return true
	case pipeline.Learn:
		differs := func(from pipeline.Subfield) bool {
			return touches(pipeline.Match{{Base: from.Field.Base, Mask: from.Mask()}}, s.reads())
		}
		if a.Dst.Field != nil || a.Learned == nil || slices.ContainsFunc(a.Learned.From, differs) {
			l.differ(s, ca, cb, "what is learnt may differ")
			return false
		}
		return true
	}
	l.differ(s, ca, cb, "nothing is concluded about this action")
	return false
}
