package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// mostNot is how much is kept at most of what a packet is known not to be.
const mostNot = 12

// isNot reports whether packets are known not to be what a match wants.
func (c pair) isNot(m pipeline.Match) bool {
	return slices.ContainsFunc(c.not, func(n pipeline.Match) bool { return slices.Equal(m, n) }) ||
		!c.a.Meets(m) && !c.b.Meets(m)
}

// shared is what packets of both are known not to be.
func shared(c, d pair) (out []pipeline.Match) {
	for _, m := range c.not {
		if d.isNot(m) {
			out = append(out, m)
		}
	}
	for _, m := range d.not {
		twice := slices.ContainsFunc(out, func(n pipeline.Match) bool { return slices.Equal(m, n) })
		if c.isNot(m) && len(out) < mostNot && !twice {
			out = append(out, m)
		}
	}
	return out
}

// allNot reports whether all that some packets are known not to be, others are not either.
func (c pair) allNot(list []pipeline.Match) bool {
	return !slices.ContainsFunc(list, func(m pipeline.Match) bool { return !c.isNot(m) })
}

// excluded reports whether packets of which m is known are known not to be.
func (c pair) excluded(m pipeline.Match) bool {
	return slices.ContainsFunc(c.not, func(n pipeline.Match) bool { return n.Covers(m) })
}

// mostTTL is packets that dec_ttl leaves none of.
func mostTTL() pipeline.Match {
	const most = 255
	return pipeline.Match{{Base: pipeline.NWTTL, Value: pipeline.Value{Lo: most}, Mask: pipeline.Value{Lo: most}}}
}

// after forgets what packets are known not to be, as far as an action may write what that is
// about.
func (s *state) after(a *pipeline.Action) {
	if len(s.not) == 0 {
		return
	}
	switch a.Kind {
	case pipeline.Resubmit, pipeline.Goto, pipeline.Output, pipeline.NoteAction, pipeline.Controller, pipeline.Learn,
		pipeline.Push:
	case pipeline.Clone: // what it does, it does to a copy
	case pipeline.DecTTL:
		s.forgetNot(pipeline.NWTTL)
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta, pipeline.Move, pipeline.Pop, pipeline.CheckLarger:
		s.forgetNot(a.Dst.Field.Base)
	case pipeline.CT, pipeline.CTClear:
		for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
			s.forgetNot(b)
		}
		if a.Kind == pipeline.CT && a.Track.Table != pipeline.NoTable {
			s.forgetNot(fragment()...)
			s.forgetNot(pipeline.Translated()...)
		}
	default:
		s.not = nil
	}
}

// forgetNot forgets what packets are known not to be that is about some bases.
func (s *state) forgetNot(of ...pipeline.Base) {
	s.not = slices.DeleteFunc(slices.Clone(s.not), func(m pipeline.Match) bool {
		return slices.ContainsFunc(of, func(b pipeline.Base) bool { return !m.Get(b).Mask.IsZero() })
	})
}

// notes has packets that a flow takes not be what flows above it want, where that would decide
// about packets which flows take that the two have not in common, or, table by table, what others want.
func (l *lockstep) notes(c pair, inA bool, f *entry, p place, bits pipeline.Match) pair {
	if len(l.wanted)+len(l.often) == 0 || p.port != noPort || len(c.not) >= mostNot {
		return c
	}
	known := c.a
	if !inA {
		known = c.b
	}
	wanted := slices.DeleteFunc(slices.Clone(l.wanted), func(w pipeline.Match) bool { return !known.Meets(w) })
	if len(wanted)+len(l.often) == 0 {
		return c
	}
	for _, m := range l.above(l.side(inA).at(p.table), f) {
		if touches(m, bits) || c.isNot(m) || !known.Meets(m) {
			continue
		}
		again := l.often[matchKey(m)]
		if again || slices.ContainsFunc(wanted, func(w pipeline.Match) bool { return m.Covers(known.And(w)) }) {
			c.not = append(slices.Clip(c.not), m)
		}
		if len(c.not) >= mostNot {
			break
		}
	}
	return c
}

// matchKey is a match as a key.
func matchKey(m pipeline.Match) string {
	b := m.AppendKey(nil, func(t pipeline.Term) pipeline.Value { return t.Mask })
	return string(m.AppendKey(b, func(t pipeline.Term) pipeline.Value { return t.Value }))
}

// wantOften notes what flows of several tables want: packets that are not so in the one are not in the other.
func (l *lockstep) wantOften() {
	in := map[string]pipeline.Table{}
	l.often = map[string]bool{}
	for id, t := range l.a.tables {
		for _, e := range t.flows {
			if k := matchKey(e.match); e.flow != nil && len(e.match) > 0 {
				if other, known := in[k]; known && other != id {
					l.often[k] = true
				}
				in[k] = id
			}
		}
	}
}

// above is what packets are not that a flow takes: what plain flows above it want, and what
// completes conjunctions that come before it.
func (l *lockstep) above(t *table, f *entry) (out []pipeline.Match) {
	for _, g := range t.flows {
		if g.priority <= f.priority {
			break
		}
		if !g.conjunct && len(g.flow.Carried) == 0 && !t.fleeting[g.priority] {
			out = append(out, g.match)
		}
	}
	if f.conjunct || !t.certain {
		return out
	}
	for _, m := range t.completing {
		if m.priority > f.priority {
			out = append(out, m.match)
		}
	}
	return out
}

// completing is packets that complete a conjunction, and what priority its flow has then.
type completing struct {
	match    pipeline.Match
	priority int
}

// complement finds what completes conjunctions, as far as it is little. It says so for certain
// only where each conjunction that is complete has a flow that takes the packet.
func (t *table) complement() {
	t.certain = true
	for id, list := range t.conjunctions {
		flows := t.byID[id]
		if len(flows) != 1 || len(flows[0].flow.Carried) > 0 {
			t.certain = false
			return
		}
		f := flows[0]
		for _, k := range list {
			sure := slices.ContainsFunc(k.dims, func(d []*entry) bool {
				return !slices.ContainsFunc(d, func(e *entry) bool { return !f.match.Covers(e.match) })
			})
			if !sure || t.fleeting[k.priority] || t.fleeting[f.priority] {
				t.certain = false
				return
			}
			if slices.ContainsFunc(k.dims, func(d []*entry) bool {
				return slices.ContainsFunc(d, func(e *entry) bool { return len(e.flow.Carried) > 0 })
			}) {
				continue
			}
			ways, _ := k.ways(f.match)
			for _, m := range ways {
				t.completing = append(t.completing, completing{m, min(k.priority, f.priority)})
			}
		}
	}
}

// want notes what packets are that flows take which the two have not in common.
func (l *lockstep) want() {
	for _, o := range l.oddEntries() {
		t := l.side(o.inA).at(o.table)
		switch {
		case o.part:
			for _, a := range o.flow.Actions {
				if a.Kind == pipeline.Conjunction {
					l.wanted = append(l.wanted, t.completingWith(a.N, o.match)...)
				}
			}
		case o.conjunct:
			l.wanted = append(l.wanted, t.completingWith(o.conj, o.match)...)
		default:
			l.wanted = append(l.wanted, o.match)
		}
	}
}

// completingWith is what completes a conjunction and is wanted too, if it is little.
func (t *table) completingWith(id uint64, m pipeline.Match) (out []pipeline.Match) {
	for _, k := range t.conjunctions[id] {
		ways, whole := k.ways(m)
		if !whole {
			return nil
		}
		out = append(out, ways...)
	}
	return out
}

// ways is what completes a conjunction and is wanted too; not whole, if it is much.
func (k *conjunction) ways(m pipeline.Match) (out []pipeline.Match, whole bool) {
	const most = 64
	out = []pipeline.Match{m}
	for _, d := range k.dims {
		var next []pipeline.Match
		for _, w := range out {
			for _, e := range d {
				if !w.Meets(e.match) {
					continue
				}
				if next = append(next, w.And(e.match)); len(next) > most {
					return nil, false
				}
			}
		}
		out = next
	}
	return out, true
}

// excludes reports whether packets of which m is known complete no conjunction, for what they are
// known not to be.
func (c pair) excludes(t *table, id uint64, m pipeline.Match) bool {
	if len(c.not) == 0 {
		return false
	}
	for _, k := range t.conjunctions[id] {
		ways, whole := k.ways(m)
		if !whole || slices.ContainsFunc(ways, func(w pipeline.Match) bool { return !c.excluded(w) }) {
			return false
		}
	}
	return true
}
