package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// learntAlike goes on with packets that flows take which are learnt into a table, and says
// whether that could be shown. Both switches learn the same: what a packet has them learn is
// shown to be alike, as all else that is observed. So both have the same such flows, which
// take the same packets where they read nothing that differs, and no flow comes before them in
// one pipeline alone.
func (l *lockstep) learntAlike(s *state, a, b place, bits pipeline.Match) bool {
	if l.dive != nil {
		return true // no packet that is made meets what others have had a switch learn
	}
	for _, k := range slices.Concat(l.a.learnt[a.table], l.b.learnt[b.table]) {
		if !s.a.Meets(k.Wants) && !s.b.Meets(k.Wants) {
			continue
		}
		why := ""
		e, inA := l.rival(s, k, a, b, bits)
		switch { // in this order: the last goes on with what they do
		case e != nil:
			why = "what one pipeline has alone may come before flows that are learnt into table %s, or be replaced by one"
		case slices.ContainsFunc(k.Match, func(f pipeline.Subfield) bool {
			return touches(pipeline.Match{{Base: f.Field.Base, Mask: f.Mask()}}, bits)
		}):
			why = "flows that are learnt into table %s read what differs"
		case !l.learnt(s, k, a, b):
			why = "packets that flows learnt into table %s send out may differ"
		default:
			continue
		}
		fa, fb := l.a.learner(a.table), l.b.learner(b.table)
		if e != nil && inA {
			fa, fb = e.flow, nil
		} else if e != nil {
			fa, fb = nil, e.flow
		}
		l.obstacle(fa, fb, &s.pair, why, l.a.Names.FormatTable(a.table))
		return false
	}
	return true
}

// learner is the first flow that has others learnt into a table, or nil.
func (s *side) learner(id pipeline.Table) *pipeline.Flow {
	if all := s.learnt[id]; len(all) > 0 {
		return all[0].By
	}
	return nil
}

// flee has flows of priorities that flows are learnt with, or that some have which may time out, hide
// nothing: they come and go.
func (l *lockstep) flee() {
	for _, from := range []*side{l.a, l.b} {
		for id, learnt := range from.learnt {
			for _, k := range learnt {
				l.flees(id, k.Priority)
			}
		}
		for _, f := range from.Flows {
			if from.Fleeting(f) {
				l.timed = true
				l.flees(f.Table, f.Priority)
			}
		}
	}
}

// flees has flows of one priority of a table hide nothing.
func (l *lockstep) flees(id pipeline.Table, priority int) {
	for _, s := range []*side{l.a, l.b} {
		t := s.at(id)
		if t.fleeting == nil {
			t.fleeting = map[int]bool{}
		}
		if !t.fleeting[priority] {
			t.fleeting[priority] = true
			t.index()
		}
	}
}

// rival is a flow that may take packets in one pipeline alone which flows that are learnt take in the
// other, or whose place one of these may take; nil if there is none.
func (l *lockstep) rival(s *state, k pipeline.Lesson, a, b place, bits pipeline.Match) (e *entry, inA bool) {
	for _, inA := range []bool{true, false} {
		t, p := l.a.at(a.table), a
		if !inA {
			t, p = l.b.at(b.table), b
		}
		comes := func(e *entry) bool {
			return e.flow != nil && e.priority >= k.Priority && e.match.Meets(k.Wants)
		}
		for _, e := range t.odd(bits) {
			if comes(e) {
				return e, inA
			}
		}
		for _, e := range t.flows {
			both := e.even(bits) && (e.priority > k.Priority || e.partner.text == e.text)
			if both || !comes(e) {
				continue
			}
			if _, takes := l.takes(s.pair, inA, t, e, p, bits); takes {
				return e, inA
			}
		}
	}
	return nil, false
}

// learnt carries out in both what a flow that was learnt does. What it loads is not known, but
// the same.
func (l *lockstep) learnt(s *state, k pipeline.Lesson, a, b place) bool {
	next := *s
	next.not = nil
	for _, does := range k.Does {
		if does.Kind == pipeline.Output {
			if !next.leavesAlike() {
				return false
			}
			continue
		}
		to, mask := does.Bits.Field.Base, does.Bits.Mask()
		next.a, next.b = next.a.Without(to, mask), next.b.Without(to, mask)
		if always(does.Bits.Field) {
			next.dirty = next.dirty.Without(to, mask)
		}
		next.uncertain(does.Bits.Field)
		next.wrote(to)
	}
	l.lists(&next, cursor{in: a.table, cont: a.cont}, cursor{in: b.table, cont: b.cont})
	return true
}
