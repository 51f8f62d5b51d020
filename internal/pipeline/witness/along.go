package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// run has it go through the pipeline, pass after pass.
func (t *thread) run() {
	t.runFrom(t.p.Entry())
}

// runFrom has it go on from a table.
func (t *thread) runFrom(id pipeline.Table) {
	t.waiting = []resumed{{id, t.packet, nil}}
	for len(t.waiting) > 0 && t.budget > 0 && !t.failed {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.packet, t.exit, t.by = next.packet, false, next.by
		t.look(next.table, 0)
	}
}

// Lookup is one that a packet is to come to, and the flow that is to take it, nil for none. Via is the
// action that leads there, nil if any may.
type Lookup struct {
	Table pipeline.Table
	Flow  *pipeline.Flow
	Via   *pipeline.Action
}

// Along makes a packet that goes by such lookups in this pipeline, and by others in another one, if
// it finds one: what both ask of it is solved at once.
// alone says that no other flow of their priorities is to want it.
func (m *Maker) Along(own []Lookup, other *Maker, theirs []Lookup, alone bool) (Case, bool) {
	t := m.thread()
	t.pieces = m.random.IntN(oneInPieces) == 0
	if !t.both(other, own, theirs, m.p.Entry(), alone) {
		return Case{}, false
	}
	return t.made()
}

// made is the packet, if all that is asked of it can be.
func (t *thread) made() (Case, bool) {
	budget := 400
	if !t.solve(&budget) {
		return Case{}, false
	}
	return t.caseOf(), true
}

// both has the packet go by lookups in two pipelines, from a table on; false if it cannot.
func (t *thread) both(other *Maker, own, theirs []Lookup, from pipeline.Table, alone bool) bool {
	t.exact, t.alone, t.came = true, alone, true
	m := t.Maker
	defer func() { t.Maker = m }()
	for _, way := range []struct {
		through *Maker
		by      []Lookup
	}{{m, own}, {other, theirs}} {
		t.Maker, t.packet, t.stack, t.budget = way.through, &words{}, nil, 400
		t.through = way.through
		t.fragmented(t.pieces)
		if !t.want(t.entry) {
			return false
		}
		t.plan = nil
		for _, l := range way.by {
			t.plan = append(t.plan, step{table: l.Table, flow: l.Flow, via: l.Via})
		}
		t.runFrom(from)
		if t.failed {
			return false
		}
	}
	return true
}

// Partner is the flow of the other pipeline in place of one of this, and its action in place of one;
// nil if it has none.
type Partner func(*pipeline.Flow, *pipeline.Action) (*pipeline.Flow, *pipeline.Action)

// May reports whether a packet that comes to a table may go from there by such lookups in this
// pipeline and by others in another one.
func (m *Maker) May(id pipeline.Table, own []Lookup, other *Maker, theirs []Lookup, alone bool) bool {
	t := m.thread()
	t.anywhere = true
	return t.both(other, own, theirs, id, alone) && t.propagate() && m.mayBe()[id].allows(t.condition()) &&
		m.comes(id, t.condition())
}

// Within has ways be planned only by tables to which packets may come that are as they must be.
func (m *Maker) Within(within func(pipeline.Table, pipeline.Match) bool) { m.within = within }

// comes reports whether packets that a match wants may come to a table.
func (m *Maker) comes(id pipeline.Table, match pipeline.Match) bool {
	return m.within == nil || m.within(id, match)
}

// Toward makes a packet that comes to a table, and goes from there by such lookups in this pipeline
// and by others in another one. How it comes there is planned backwards, through flows that both have.
// If it makes none it says whether to try again may help.
func (m *Maker) Toward(id pipeline.Table, own []Lookup, other *Maker, theirs []Lookup, partner Partner,
	alone bool) (c Case, ok, again bool) {
	if m.looked > mostLooked-m.spared || len(own) == 0 || len(theirs) == 0 {
		return Case{}, false, false
	}
	t := m.thread()
	t.anywhere = true
	if !t.both(other, own, theirs, id, alone) || !t.propagate() {
		return Case{}, false, true
	}
	cond := t.condition()
	p := m.planner(m.inPieces(cond))
	for range 2 {
		if m.hopeless[digest(p.planned(id, true, cond))] < oftenEnough {
			again = true
			break
		}
		p.pieces = !p.pieces
	}
	if !again {
		return Case{}, false, false
	}
	steps, via, ok := p.back(id, cond, true, 0)
	if !ok {
		return Case{}, false, true
	}
	if c, ok = m.onward(p, steps, via, own, other, theirs, partner, alone); !ok {
		return Case{}, false, true
	}
	return c, true, true
}

// onward makes a packet that goes by lookups that were planned, and then by others.
func (m *Maker) onward(p *planner, steps []step, via *pipeline.Action, own []Lookup, other *Maker,
	theirs []Lookup, partner Partner, alone bool) (Case, bool) {
	var inA, inB []Lookup
	for _, s := range steps {
		f, by := partner(s.flow, s.via)
		if f == nil || s.via != nil && by == nil {
			return Case{}, false
		}
		inA, inB = append(inA, Lookup{s.table, s.flow, s.via}), append(inB, Lookup{s.table, f, by})
	}
	inA, inB = append(inA, own...), append(inB, theirs...)
	if n := len(steps); n > 0 {
		_, by := partner(nil, via)
		if by == nil {
			return Case{}, false
		}
		inA[n].Via, inB[n].Via = via, by
	}
	t := m.thread()
	t.pieces, t.entry = p.pieces, p.entry
	ok := t.both(other, inA, inB, m.p.Entry(), alone)
	if came := min(len(steps), len(inA)-len(t.plan)); came > 0 && t.through == m { // how far it came
		m.rate(steps, len(steps)-came, !ok && came < len(steps))
	}
	if !ok {
		return Case{}, false
	}
	return t.made()
}

// planner is one that may look at few tables, or at more: most plans are found soon, or not at all; a few
// want long.
func (m *Maker) planner(pieces bool) *planner {
	p := &planner{Maker: m, failed: map[string]bool{}, mays: m.mayBe(), modest: m.random.IntN(2) == 0,
		direct: m.random.IntN(2) == 0, budget: 200, pieces: pieces}
	if m.random.IntN(3) == 0 {
		p.budget = 1500
	}
	return p
}

// condition is what is known of the packet where it is.
func (t *thread) condition() (out pipeline.Match) {
	for base, k := range t.known {
		b := pipeline.Base(base)
		if base >= pipeline.Bases || k.Mask.IsZero() || b == pipeline.ConjID || b == pipeline.RecircID {
			continue
		}
		out = out.With(b, k.Value.And(k.Mask), k.Mask)
	}
	return out
}

// missed has no flow of a table take the packet.
func (t *thread) missed(id pipeline.Table) bool {
	for _, k := range t.tables[id] {
		if k.conjunctive {
			continue
		}
		if f, whole := t.decided(k); whole {
			if f != nil {
				return false
			}
			continue
		}
		for _, f := range k.flows {
			if !t.not(f.Match) {
				return false
			}
		}
	}
	return t.propagate()
}
