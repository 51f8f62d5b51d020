package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// reach is what packets may be that come to each table of one pipeline, found forwards from how they
// come in; in doubt they may be more.
type reach struct {
	*needs
	side *side
	at   map[pipeline.Table][]pipeline.Match
	// writes are the bits that may be written in a table and in those that it leads to in the same pass.
	writes  map[pipeline.Table]pipeline.Match
	waiting []pipeline.Table
	// clearing are tables in which, or in those that they lead to in the same pass, packets may be cleared
	// of the tracker's answer, copying those in which copies may be.
	clearing, copying map[pipeline.Table]bool
	// elsewise are the bits that lookups of a table may see otherwise than they are: in_port, or what is
	// of a connection's original direction.
	elsewise map[pipeline.Table]pipeline.Match
	// words are the registers, those that most flows read first. Where there are many kinds of packets in
	// a table, they are told apart only by so many of these.
	words  []pipeline.Match
	apart  map[pipeline.Table]int
	groups map[pipeline.Table]map[string]int
	steps  int
}

// Of more than manyKinds of packets in a table those are taken together that nothing tells apart which
// counts; of more than mostKinds also others.
const (
	manyKinds = 64
	mostKinds = 1000
)

// reached is what packets may be.
func (l *lockstep) reached() *reach {
	if l.need == nil { // see followed
		return nil
	}
	return l.came.reached()
}

// findReach finds what packets may be; nil if that is too much. All that the pipeline has is followed.
func (l *lockstep) findReach(s *side) *reach {
	r := &reach{needs: &needs{lockstep: l, most: mostKinds}, side: s,
		at: map[pipeline.Table][]pipeline.Match{}, writes: map[pipeline.Table]pipeline.Match{},
		clearing: map[pipeline.Table]bool{}, copying: map[pipeline.Table]bool{},
		elsewise: map[pipeline.Table]pipeline.Match{},
		apart:    map[pipeline.Table]int{}, groups: map[pipeline.Table]map[string]int{}}
	r.rank()
	r.written()
	var come pipeline.Match
	for _, b := range registers() {
		come = come.With(b, pipeline.Value{}, s.Words.Full(b))
	}
	b, bit := uncopied()
	r.into(s.Entry(), cleared(come).With(b, pipeline.Value{}, bit))
	for len(r.waiting) > 0 {
		id := slices.Min(r.waiting)
		r.waiting = slices.DeleteFunc(r.waiting, func(t pipeline.Table) bool { return t == id })
		list := r.at[id]
		for _, e := range s.at(id).flows {
			if e.flow == nil {
				continue
			}
			own := less(e.match, r.elsewise[id])
			for _, m := range list {
				if r.steps++; r.steps > mostLooked {
					return nil
				}
				if !wants(own, m) {
					continue
				}
				taken, ok := m.And(own), true
				if len(r.elsewise[id]) == 0 && !e.conjunct {
					taken, ok = s.at(id).narrows(taken, e.priority)
				}
				if ok {
					r.list(taken, e.flow.Actions, id)
				}
			}
		}
	}
	return r
}

// into has packets come to a table.
func (r *reach) into(t pipeline.Table, m pipeline.Match) {
	m = m.Without(pipeline.ActsetOutput, all()).Without(pipeline.RecircID, pipeline.Value{Lo: ^uint64(0)})
	m = less(m, r.elsewise[t])
	if reads := r.reads[0]; !reads.whole { // what nobody reads need not be told apart
		for _, b := range registers() {
			m = m.Without(b, all().Without(reads.at[t].Get(b).Mask))
		}
	}
	more := false
	if r.apart[t] == 0 {
		if r.at[t], more = r.include(r.at[t], m); len(r.at[t]) > manyKinds {
			r.apart[t] = len(r.words)
			r.regroup(t)
		}
	} else if more = r.group(t, m); len(r.at[t]) > mostKinds && r.apart[t] > 1 {
		r.apart[t]--
		r.regroup(t)
	}
	if more && !slices.Contains(r.waiting, t) {
		r.waiting = append(r.waiting, t)
	}
}

// group takes packets together that are told apart by nothing that counts, and says whether they are more.
func (r *reach) group(t pipeline.Table, m pipeline.Match) bool {
	key := r.key(r.words[r.apart[t]-1], m)
	i, known := r.groups[t][key]
	switch {
	case !known:
		r.groups[t][key] = len(r.at[t])
		r.at[t] = append(slices.Clip(r.at[t]), m)
	case r.at[t][i].Covers(m):
		return false
	default:
		r.at[t] = slices.Clone(r.at[t])
		r.at[t][i] = common(r.at[t][i], m)
	}
	return true
}

// key is which of the bits packets are known to be, and as what.
func (r *reach) key(bits, m pipeline.Match) string {
	var room [17 * 10]byte
	b := bits.AppendKey(room[:0], func(t pipeline.Term) pipeline.Value { return m.Get(t.Base).Mask.And(t.Mask) })
	return string(bits.AppendKey(b, func(t pipeline.Term) pipeline.Value {
		k := m.Get(t.Base)
		return k.Value.And(k.Mask).And(t.Mask)
	}))
}

// comes reports whether packets that a match wants may come to a table.
func (r *reach) comes(id pipeline.Table, match pipeline.Match) bool {
	return slices.ContainsFunc(r.at[id], func(m pipeline.Match) bool { return wants(match, m) })
}

// regroup takes packets in a table together until they are few.
func (r *reach) regroup(t pipeline.Table) {
	for ; ; r.apart[t]-- {
		list := r.at[t]
		r.at[t], r.groups[t] = nil, map[string]int{}
		for _, m := range list {
			r.group(t, m)
		}
		if len(r.at[t]) < mostKinds/2 || r.apart[t] == 1 {
			return
		}
	}
}

// rank has the registers be told apart by that most flows read: first by one, then by two, and so on.
func (r *reach) rank() {
	reads := map[pipeline.Base][4]int{}
	for _, f := range r.side.Flows {
		for _, t := range f.Match {
			n := reads[t.Base]
			for i := range n {
				if register(t.Base) && !t.Mask.And(word(i)).IsZero() {
					n[i]++
				}
			}
			reads[t.Base] = n
		}
	}
	type ranked struct {
		base pipeline.Base
		i, n int
	}
	var all []ranked
	for _, b := range registers() {
		for i, n := range reads[b] {
			if n > 0 {
				all = append(all, ranked{b, i, n})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y ranked) int { return y.n - x.n })
	b, bit := uncopied()
	bits := pipeline.Match{}.With(pipeline.EthType, pipeline.Value{}, r.side.Words.Full(pipeline.EthType))
	bits = bits.With(b, pipeline.Value{}, bit)
	r.words = append(r.words, bits)
	for _, k := range all {
		bits = bits.With(k.base, pipeline.Value{}, word(k.i))
		r.words = append(r.words, bits)
	}
	const tracked = walk.Tracked
	r.words = append(r.words, bits.With(pipeline.CTState, pipeline.Value{}, pipeline.Value{Lo: tracked}))
}

// word is the bits of one of four registers that a base holds.
func word(i int) pipeline.Value {
	const width, ones = 32, 0xffffffff
	return pipeline.Value{Lo: ones}.Left(width * i)
}

// list has packets go through actions, and is what they are afterwards.
func (r *reach) list(m pipeline.Match, list []pipeline.Action, in pipeline.Table) {
	for _, a := range list {
		r.steps++
		switch a.Kind {
		case pipeline.Resubmit, pipeline.Goto:
			to := a.Table
			if to == pipeline.NoTable {
				to = in
			}
			r.into(to, m)
			if m = less(m, r.writes[to]); r.copying[to] {
				m = m.Without(uncopied())
			}
		case pipeline.CT:
			if a.Track.Table != pipeline.NoTable {
				r.into(a.Track.Table, r.afterTrack(m, a))
			}
			m = cleared(m)
		case pipeline.CTClear:
			m = r.cleared(m)
		case pipeline.Clone:
			if r.list(m, a.Nested, in); r.clears(a.Nested, in) {
				m = m.Without(uncopied())
			}
		case pipeline.GroupAction:
			for _, b := range r.side.Group(uint32(a.N)).Buckets {
				r.list(m, b.Actions, in)
			}
			if m = less(m, r.writesOf([]pipeline.Action{a})); r.clears([]pipeline.Action{a}, in) {
				m = m.Without(uncopied())
			}
			ways, _ := r.side.Jumps([]pipeline.Action{a}, in)
			for _, j := range ways {
				m = less(m, r.writes[j.To])
			}
		default:
			m = r.wrote(m, a)
		}
	}
}

// afterTrack is packets once they were tracked.
func (r *reach) afterTrack(m pipeline.Match, a pipeline.Action) pipeline.Match {
	const tracked = walk.Tracked
	b, bit := uncopied()
	m = less(m, ctBits()).With(pipeline.CTState, pipeline.Value{Lo: tracked}, pipeline.Value{Lo: tracked})
	m = m.Without(b, bit).With(b, pipeline.Value{}, bit)
	for _, b := range fragment() {
		m = m.Without(b, all())
	}
	if a.Track.NAT != "" {
		for _, b := range pipeline.Translated() {
			m = m.Without(b, all())
		}
	}
	return m
}

// wrote is packets once an action has written into them.
func (r *reach) wrote(m pipeline.Match, a pipeline.Action) pipeline.Match {
	if b, v, mask, ok := constant(r.side.Words, a); ok {
		return m.Without(b, mask).With(b, v.And(mask), mask)
	}
	if a.Kind == pipeline.Move && always(a.Dst.Field) && always(a.Src.Field) {
		s := state{pair: pair{a: m}}
		s.move(true, a)
		return s.a
	}
	m = less(m, r.writesOf([]pipeline.Action{a}))
	if b, bit := decremented(); a.Kind == pipeline.DecTTL {
		m = m.With(b, bit, bit)
	}
	return m
}

// less is packets of which nothing is known about some bits.
func less(m, bits pipeline.Match) pipeline.Match {
	for _, t := range bits {
		m = m.Without(t.Base, t.Mask)
		if t.Base == pipeline.NWTTL {
			m = m.Without(decremented())
		}
	}
	return m
}

// looksUp notes what lookups to which an action leads may see otherwise.
func (r *reach) looksUp(a pipeline.Action, in pipeline.Table) {
	if a.Kind != pipeline.Resubmit {
		return
	}
	to := a.Table
	if to == pipeline.NoTable {
		to = in
	}
	if a.Port != pipeline.PortIn {
		r.elsewise[to] = r.elsewise[to].With(pipeline.InPort, pipeline.Value{}, all())
	}
	if a.Original {
		bits := joined(ctBits(), pipeline.Match{}.With(pipeline.NWProto, pipeline.Value{}, all()))
		for _, b := range pipeline.Translated() {
			bits = bits.With(b, pipeline.Value{}, all())
		}
		r.elsewise[to] = joined(r.elsewise[to], bits)
	}
}

// written finds what may be written, bit by bit where that is known.
func (r *reach) written() {
	leads := map[pipeline.Table]map[pipeline.Table]bool{}
	for _, f := range r.side.Flows {
		if leads[f.Table] == nil {
			leads[f.Table] = map[pipeline.Table]bool{}
		}
		for _, a := range f.Actions {
			if a.Kind == pipeline.Clone { // on a copy
				continue
			}
			ways, _ := r.side.Jumps([]pipeline.Action{a}, f.Table)
			for _, j := range ways {
				if j.Kind != pipeline.CT {
					leads[f.Table][j.To] = true
				}
			}
			bits := r.writesOf([]pipeline.Action{a})
			if b, _, mask, ok := constant(r.side.Words, a); ok {
				bits = bits.Without(b, all()).With(b, pipeline.Value{}, mask)
			}
			r.writes[f.Table] = joined(r.writes[f.Table], bits)
		}
		r.side.Each(f.Actions, func(a pipeline.Action) {
			learnt(r.writes, a)
			r.looksUp(a, f.Table)
		})
	}
	onward(r.writes, leads)
	for changed := true; changed; {
		changed = false
		for _, f := range r.side.Flows {
			if !r.clearing[f.Table] && r.clears(f.Actions, f.Table) {
				r.clearing[f.Table], changed = true, true
			}
			if !r.copying[f.Table] && r.copies(f.Actions, f.Table) {
				r.copying[f.Table], changed = true, true
			}
		}
	}
}
