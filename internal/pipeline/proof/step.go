package proof

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// visit goes one step on from a spot, for all packets there: in both pipelines where they
// look up the same table or carry out actions, else in the one that is behind.
func (l *lockstep) visit(o *obligation) {
	a, b := o.spot.a, o.spot.b
	cases := o.cases[o.followed:]
	o.followed = len(o.cases)
	for _, c := range cases {
		s := o.state(c)
		switch {
		case a.look && b.look && a.table == b.table && a.port == b.port:
			l.together(s, a, b)
		case a.look && (!b.look || a.table < b.table):
			l.alone(s, true, a, b)
		case b.look:
			l.alone(s, false, b, a)
		default:
			l.lists(s, cursorOf(a.cont), cursorOf(b.cont))
		}
	}
}

// touches reports whether a match reads some of the bits.
func touches(m, bits pipeline.Match) bool {
	for _, t := range m {
		if !t.Mask.And(bits.Get(t.Base).Mask).IsZero() {
			return true
		}
	}
	return false
}

// even reports whether a flow takes the same packets of both, but for flows above it that
// are not.
func (e *entry) even(bits pipeline.Match) bool {
	return e.partner != nil && !touches(e.match, bits) && (e.flow == nil || len(e.flow.Carried) == 0)
}

// lookable notes what a table holds that nothing is concluded about.
func (l *lockstep) lookable(inA bool, id pipeline.Table, c *pair) bool {
	s, known := l.side(inA), c.a
	if !inA {
		known = c.b
	}
	ok := true
	for _, e := range s.at(id).doubtful {
		if known.Meets(e.match) {
			n := e.flow.Notes[0]
			fa, fb := e.flow, (*pipeline.Flow)(nil)
			if !inA {
				fa, fb = fb, fa
			}
			l.obstacle(fa, fb, c, "not understood: %s: %s", n.Text, n.Reason)
			ok = false
		}
	}
	return ok
}

// together looks up a table in both.
func (l *lockstep) together(s *state, a, b place) {
	ta, tb := l.a.at(a.table), l.b.at(b.table)
	if !l.lookable(true, a.table, &s.pair) || !l.lookable(false, b.table, &s.pair) {
		return
	}
	bits := s.reads()
	if !l.learntAlike(s, a, b, bits) || !l.sideways(s, a, b, bits) {
		return
	}
	var odd []*entry
	for _, f := range tb.flows {
		switch {
		case f.even(bits):
		case l.reenters(s, f, b.table):
			l.oneFlow(s, false, f, b, a)
		default:
			odd = append(odd, f)
		}
	}
	for _, f := range ta.flows {
		if !f.even(bits) && l.reenters(s, f, a.table) {
			l.oneFlow(s, true, f, a, b)
			continue
		}
		c, ok := l.takes(s.pair, true, ta, f, a, bits)
		if !ok {
			continue
		}
		candidates := odd
		if !f.even(bits) {
			candidates = tb.flows
		} else {
			l.bothTake(s, c, f, f.partner, a, b, bits)
		}
		for _, g := range candidates {
			switch {
			case f.even(bits) && g.priority < f.low, g.even(bits) && !f.even(bits) && g.low > f.priority,
				f.conjunct && g.conjunct && f.conj != g.conj, l.skips(s, g, b.table, bits):
			case f.conjunct && a.port == noPort && !g.conjunct && tb.outdone(f.conj, c.b, g.priority),
				g.conjunct && b.port == noPort && !f.conjunct && ta.outdone(g.conj, c.a, f.priority):
			default:
				l.bothTake(s, c, f, g, a, b, bits)
			}
		}
	}
}

// takes is the packets that a flow takes, unless one above hides it from all of them.
func (l *lockstep) takes(c pair, inA bool, t *table, f *entry, p place, bits pipeline.Match) (pair, bool) {
	l.steps++
	m, ok := f.wants(p)
	if !ok {
		return c, false
	}
	out, ok := c.meets(inA, m, bits)
	if !ok {
		return c, false
	}
	known := out.a
	if !inA {
		known = out.b
	}
	if p.port != noPort {
		known = known.With(pipeline.InPort, pipeline.Value{Lo: uint64(p.port)}, pipeline.Value{Lo: 0xffffffff})
	}
	if p.port == noPort && out.excluded(known) {
		return out, false
	}
	priority := f.priority
	if f.conjunct { // only a conjunction of a priority above that of a flow is looked for
		priority = min(priority, t.completes(f.conj, known)-1)
		if priority < -1 || p.port == noPort && out.excludes(t, f.conj, known) {
			return out, false
		}
	}
	if p.port != noPort {
		return out, !t.hides(known, priority)
	}
	more, ok := t.narrows(known, priority)
	if !ok || identical(more, known) {
		return out, ok
	}
	return out.meets(inA, more, bits)
}

// bothTake goes on with packets that one flow takes in A and another in B.
func (l *lockstep) bothTake(s *state, c pair, fa, fb *entry, a, b place, bits pipeline.Match) {
	c, ok := l.takes(c, false, l.b.at(b.table), fb, b, bits)
	if ok { // what the flow of B wants may be what one above that of A takes
		c, ok = l.takes(c, true, l.a.at(a.table), fa, a, bits)
	}
	if !ok || overlap(fa, fb, bits) {
		return
	}
	c = l.notes(l.notes(c, true, fa, a, bits), false, fb, b, bits)
	left := leftBy([]pair{c}, true, l.a.at(a.table), a, fa.priority, bits)
	for _, c := range leftBy(left, false, l.b.at(b.table), b, fb.priority, bits) {
		next := *s
		next.pair = c
		next.trail = l.dive.trail(c.trail, a.table, fa, fb)
		l.lists(&next, fa.cursor(a), fb.cursor(b))
	}
}

// overlap reports whether two flows of one priority, which both are in both pipelines, want the
// packet in both: both switches take the same one then, and that the same is done is shown of
// these. If one reads what differs it may want the packet in one pipeline alone.
func overlap(f, g *entry, bits pipeline.Match) bool {
	return f.partner != g && f.priority == g.priority && f.flow != nil && g.flow != nil && f.even(bits) && g.even(bits) &&
		!f.conjunct && !g.conjunct
}

// cursor is at the beginning of a flow's actions.
func (e *entry) cursor(p place) cursor {
	c := cursor{in: p.table, cont: p.cont}
	if e.flow != nil {
		c.rest = e.flow.Actions
	}
	return c
}

// leftBy is what flows above a priority that only one pipeline has leave of packets, as far
// as it is few pieces.
func leftBy(cases []pair, inA bool, t *table, p place, priority int, bits pipeline.Match) []pair {
	const most = 16
	if p.port != noPort {
		return cases
	}
	for _, g := range t.flows {
		if g.priority <= priority {
			break
		}
		if g.partner != nil || g.conjunct || len(g.flow.Carried) > 0 {
			continue
		}
		var out []pair
		for _, c := range cases {
			own := c.a
			if !inA {
				own = c.b
			}
			pieces := own.Less(g.match)
			if len(pieces) > most {
				return cases
			}
			for _, m := range pieces {
				if d, ok := c.meets(inA, m, bits); ok {
					out = append(out, d)
				}
			}
		}
		if len(out) > most {
			return cases
		}
		cases = out
	}
	return cases
}

// alone looks up a table in one pipeline, while the packet waits in the other.
func (l *lockstep) alone(s *state, inA bool, p, waits place) {
	own := l.side(inA)
	if !l.lookable(inA, p.table, &s.pair) {
		return
	}
	if len(own.learnt[p.table]) > 0 && l.dive == nil { // no packet that is made meets what others have had it learn
		l.obstacle(l.a.learner(p.table), l.b.learner(p.table), &s.pair,
			"flows are learnt into table %s, which is looked up in one pipeline alone", own.Names.FormatTable(p.table))
		return
	}
	for _, f := range own.at(p.table).flows {
		l.oneFlow(s, inA, f, p, waits)
	}
}

func (l *lockstep) side(inA bool) *side {
	if inA {
		return l.a
	}
	return l.b
}

// oneFlow goes on with packets that a flow takes in one pipeline.
func (l *lockstep) oneFlow(s *state, inA bool, f *entry, p, waits place) {
	c, ok := l.takes(s.pair, inA, l.side(inA).at(p.table), f, p, s.reads())
	if !ok {
		return
	}
	next := *s
	next.pair = c
	if inA {
		next.trail = l.dive.trail(c.trail, p.table, f, nil)
	} else {
		next.trail = l.dive.trail(c.trail, p.table, nil, f)
	}
	l.ahead(&next, inA, f.cursor(p), waits)
}

// reenters reports whether a flow does nothing but have the packet tracked and look up its
// own table again.
func (l *lockstep) reenters(s *state, f *entry, id pipeline.Table) bool {
	if s.forked || f.flow == nil || len(f.flow.Actions) == 0 {
		return false
	}
	n := len(f.flow.Actions) - 1
	last := f.flow.Actions[n]
	for _, a := range f.flow.Actions[:n] {
		if !silent(a.Kind) {
			return false
		}
	}
	return last.Kind == pipeline.CT && last.Track.Table == id && l.quiet(last)
}

// quiet reports whether a question to the tracker is not observed.
func (l *lockstep) quiet(a pipeline.Action) bool {
	return a.Kind == pipeline.CT && !a.Track.Commit && a.Track.NAT == "" && !l.strict && len(a.Nested) == 0
}
