package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// prune leaves out flows that the two have not in common and that take no packet, as others of
// higher priority together take all that they want; it says whether there were any.
func (l *lockstep) prune() bool {
	n := 0
	for _, o := range l.oddEntries() {
		s := l.side(o.inA)
		t := s.at(o.table)
		if o.part || o.conjunct || len(t.leaves(o.entry)) > 0 {
			continue
		}
		if o.partner != nil {
			o.partner.partner = nil
		}
		t.drop(o.entry)
		n++
	}
	return n > 0
}

// drop takes an entry out of a table.
func (t *table) drop(e *entry) {
	is := func(o *entry) bool { return o == e }
	t.all, t.flows = slices.DeleteFunc(t.all, is), slices.DeleteFunc(t.flows, is)
	t.doubtful = slices.DeleteFunc(t.doubtful, is)
	t.index()
}

// leaves is what those of higher priority leave for an entry to take, no two pieces of which meet;
// all that it wants, if that would be much.
func (t *table) leaves(e *entry) []pipeline.Match {
	const most = 256
	left := []pipeline.Match{e.match}
	for _, g := range t.flows {
		if g.priority <= e.priority {
			break
		}
		if g.flow == nil || g.conjunct || len(g.flow.Carried) > 0 || t.fleeting[g.priority] || !g.match.Meets(e.match) {
			continue
		}
		var next []pipeline.Match
		for _, m := range left {
			for _, piece := range m.Less(g.match) {
				if s := piece.Get(pipeline.CTState); s.Mask.IsZero() || answerable(s.Value.Lo, s.Mask.Lo) {
					next = append(next, piece)
				}
			}
		}
		if len(next) > most {
			return []pipeline.Match{e.match}
		}
		left = next
	}
	return left
}

// narrows is what is known of packets that no flow of a priority above takes, if so much is known of
// them before; false if one takes them all. A flow that takes all but those of which one bit is other
// than it wants leaves these.
func (t *table) narrows(m pipeline.Match, priority int) (pipeline.Match, bool) {
	for changed := true; changed; {
		changed = false
		for _, k := range t.kinds {
			if k.top <= priority {
				continue
			}
			b, bit, open := k.open(m)
			switch open {
			case 0:
				if k.values[valuesOf(k.match, m)]-1 > priority {
					return m, false
				}
			case 1:
				off, on := m.With(b, pipeline.Value{}, bit), m.With(b, bit, bit)
				tookOff := k.values[valuesOf(k.match, off)]-1 > priority
				tookOn := k.values[valuesOf(k.match, on)]-1 > priority
				switch {
				case tookOff && tookOn:
					return m, false
				case tookOff:
					m, changed = on, true
				case tookOn:
					m, changed = off, true
				}
			}
		}
	}
	if s := m.Get(pipeline.CTState); !answerable(s.Value.Lo, s.Mask.Lo) {
		return m, false
	}
	return m, true
}

// open is how many bits that entries of a kind want are not known, up to two, and the last of them.
func (k *kind) open(m pipeline.Match) (b pipeline.Base, bit pipeline.Value, n int) {
	for _, w := range k.match {
		rest := w.Mask.Without(m.Get(w.Base).Mask)
		if rest.IsZero() {
			continue
		}
		if n += known(pipeline.Match{{Mask: rest}}); n > 1 {
			return b, bit, n
		}
		b, bit = w.Base, rest
	}
	return b, bit, n
}
