package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// conjunction is the parts of one that have one priority, by dimension: only such together
// make it complete.
type conjunction struct {
	priority int
	dims     [][]*entry
}

// mostOdd is how many parts that differ are looked at one by one, mostComplete in how many
// ways one of them may complete a conjunction.
const (
	mostOdd      = 64
	mostComplete = 256
)

func partial(f *pipeline.Flow) bool {
	return slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return a.Kind == pipeline.Conjunction })
}

// collect notes a part of conjunctions.
func (t *table) collect(e *entry) {
	t.parts = append(t.parts, e)
	if t.conjunctions == nil {
		t.conjunctions = map[uint64][]*conjunction{}
	}
	for _, a := range e.flow.Actions {
		if a.Kind != pipeline.Conjunction {
			continue
		}
		list := t.conjunctions[a.N]
		i := slices.IndexFunc(list, func(k *conjunction) bool { return k.priority == e.priority })
		if i < 0 {
			i, list = len(list), append(list, &conjunction{priority: e.priority})
			t.conjunctions[a.N] = list
		}
		k := list[i]
		for len(k.dims) < a.Clauses {
			k.dims = append(k.dims, nil)
		}
		k.dims[a.Clause-1] = append(k.dims[a.Clause-1], e)
	}
	for _, m := range e.match {
		t.partBits = t.partBits.With(m.Base, pipeline.Value{}, m.Mask)
	}
}

// completes is the highest priority at which packets of which m is known may complete a
// conjunction, or -1.
func (t *table) completes(id uint64, m pipeline.Match) int {
	best := -1
	for _, k := range t.conjunctions[id] {
		if k.priority > best && k.all(func(e *entry) bool { return e.match.Meets(m) }) {
			best = k.priority
		}
	}
	return best
}

// complete reports whether packets of which m is known complete a conjunction for sure.
func (t *table) complete(id uint64, m pipeline.Match) bool {
	return slices.ContainsFunc(t.conjunctions[id], func(k *conjunction) bool {
		return !t.fleeting[k.priority] &&
			k.all(func(e *entry) bool { return len(e.flow.Carried) == 0 && e.match.Covers(m) })
	})
}

// all reports whether each dimension has a part that is as is asked for.
func (k *conjunction) all(is func(*entry) bool) bool {
	for _, d := range k.dims {
		if !slices.ContainsFunc(d, is) {
			return false
		}
	}
	return len(k.dims) > 0
}

// outdone reports whether, of packets that complete a conjunction, those of which m is known
// are taken by a flow of it that has a priority above.
func (t *table) outdone(id uint64, m pipeline.Match, priority int) bool {
	return slices.ContainsFunc(t.byID[id], func(e *entry) bool {
		return e.low > priority && len(e.flow.Carried) == 0 && !t.fleeting[e.priority] && e.match.Covers(m)
	})
}

// whole reports whether a flow of a conjunction takes what completes that in both pipelines: it
// and all parts are in both, and read nothing that differs.
func (t *table) whole(e *entry, bits pipeline.Match) bool {
	return e.conjunct && e.even(bits) && !t.fleeting[e.priority] &&
		!slices.ContainsFunc(t.conjunctions[e.conj], func(k *conjunction) bool {
			return t.fleeting[k.priority] || slices.ContainsFunc(k.dims, func(d []*entry) bool {
				return slices.ContainsFunc(d, func(p *entry) bool { return !p.even(bits) || p.text != p.partner.text })
			})
		})
}

// rivalled reports whether another conjunction has parts of the same priority.
func (t *table) rivalled(id uint64, priority int) bool {
	for other, list := range t.conjunctions {
		if other != id && slices.ContainsFunc(list, func(k *conjunction) bool { return k.priority == priority }) {
			return true
		}
	}
	return false
}

// odd are the parts of conjunctions that the other pipeline has not, or that read what differs.
func (t *table) odd(bits pipeline.Match) []*entry {
	reading := touches(t.partBits, bits)
	if !reading {
		return t.oddParts
	}
	return slices.DeleteFunc(slices.Clone(t.parts), func(e *entry) bool {
		return e.even(bits) && e.text == e.partner.text
	})
}

// apart reports whether two flows take packets of different conjunctions.
func apart(f, g *entry) bool { return f.conjunct != g.conjunct || f.conj != g.conj }

// sideways goes on with packets that complete a conjunction in one pipeline, and in the other
// another or none. Each of them is one that a part wants which differs, and which completes
// it in one of the two.
func (l *lockstep) sideways(s *state, a, b place, bits pipeline.Match) bool {
	ta, tb := l.a.at(a.table), l.b.at(b.table)
	for _, inA := range []bool{true, false} {
		t, p := ta, a
		if !inA {
			t, p = tb, b
		}
		n := 0
		for _, e := range t.odd(bits) {
			m, ok := e.wants(p)
			if !ok {
				continue
			}
			c, ok := s.meets(inA, m, bits)
			if !ok {
				continue
			}
			if n++; n > mostOdd {
				l.obstacle(nil, nil, &s.pair, "too many parts of conjunctions of table %s differ, or read what differs",
					l.a.Names.FormatTable(a.table))
				return false
			}
			seen := map[uint64]bool{}
			for _, x := range e.flow.Actions {
				if x.Kind == pipeline.Conjunction && !seen[x.N] {
					seen[x.N] = true
					l.onlyIn(s, inA, c, e, x.N, a, b, bits)
				}
			}
		}
	}
	return true
}

// onlyIn goes on with packets that a part has complete a conjunction in one pipeline, but not
// in the other.
func (l *lockstep) onlyIn(s *state, inA bool, c pair, part *entry, id uint64, a, b place, bits pipeline.Match) {
	own, other, at := l.a.at(a.table), l.b.at(b.table), a
	if !inA {
		own, other, at = other, own, b
	}
	for _, c := range l.ways(c, inA, own, part, id, at, bits) {
		mine, others := c.a, c.b
		if !inA {
			mine, others = others, mine
		}
		if at.port == noPort && other.complete(id, others) {
			continue
		}
		for _, x := range own.flows {
			if x.conjunct && x.conj != id || !x.conjunct && at.port == noPort && own.outdone(id, mine, x.priority) ||
				!x.match.Meets(mine) && at.port == noPort || l.skips(s, x, at.table, bits) {
				continue
			}
			for _, y := range other.flows {
				switch {
				case !apart(x, y), y.conjunct && y.conj == id, l.skips(s, y, at.table, bits),
					x.conjunct && y.low > part.priority && other.whole(y, bits),
					!y.conjunct && y.even(bits) && y.priority > x.priority,
					!x.conjunct && x.even(bits) && x.priority > y.priority:
				case inA:
					l.bothTake(s, c, x, y, a, b, bits)
				default:
					l.bothTake(s, c, y, x, a, b, bits)
				}
			}
		}
	}
}

// skips reports whether a flow is looked at in one pipeline alone.
func (l *lockstep) skips(s *state, e *entry, id pipeline.Table, bits pipeline.Match) bool {
	return !e.even(bits) && l.reenters(s, e, id)
}

// ways is the packets that a part wants, by the parts with which it completes a conjunction, as
// far as these are few.
func (l *lockstep) ways(c pair, inA bool, t *table, part *entry, id uint64, p place, bits pipeline.Match) []pair {
	i := slices.IndexFunc(t.conjunctions[id], func(k *conjunction) bool { return k.priority == part.priority })
	k := t.conjunctions[id][i]
	out := []pair{c}
	for _, d := range k.dims {
		if slices.Contains(d, part) {
			continue
		}
		var next []pair
		for _, c := range out {
			for _, e := range d {
				m, ok := e.wants(p)
				if !ok {
					continue
				}
				if c, ok := c.meets(inA, m, bits); ok {
					next = append(next, c)
				}
			}
		}
		if len(next) > mostComplete {
			continue // as they are
		}
		out = next
	}
	return out
}

// wants is what an entry asks of packets in a place, and false if none there are so.
func (e *entry) wants(p place) (pipeline.Match, bool) {
	if p.port == noPort {
		return e.match, true
	}
	in := e.match.Get(pipeline.InPort)
	if (pipeline.Value{Lo: uint64(p.port)}).And(in.Mask) != in.Value {
		return nil, false
	}
	return e.match.Without(pipeline.InPort, all()), true
}
