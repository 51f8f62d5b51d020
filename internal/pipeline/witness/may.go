package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// may is what bits of bases that are zero as a packet comes may be later: one, and zero.
type may struct {
	one, zero map[pipeline.Base]pipeline.Value
}

func newMay() may {
	return may{map[pipeline.Base]pipeline.Value{}, map[pipeline.Base]pipeline.Value{}}
}

// join adds what others may be, and says whether that is more.
func (m may) join(o may) bool {
	more := false
	for _, p := range [][2]map[pipeline.Base]pipeline.Value{{m.one, o.one}, {m.zero, o.zero}} {
		for b, v := range p[1] {
			if !v.Without(p[0][b]).IsZero() {
				p[0][b], more = p[0][b].Or(v), true
			}
		}
	}
	return more
}

func (m may) clone() may {
	out := newMay()
	out.join(m)
	return out
}

// write has bits be of a value, or any where that is not known.
func (m may) write(b pipeline.Base, v, mask pipeline.Value, known, instead bool) {
	if !cleared(b) {
		return
	}
	if instead {
		m.one[b], m.zero[b] = m.one[b].Without(mask), m.zero[b].Without(mask)
	}
	if !known {
		m.one[b], m.zero[b] = m.one[b].Or(mask), m.zero[b].Or(mask)
		return
	}
	m.one[b], m.zero[b] = m.one[b].Or(v.And(mask)), m.zero[b].Or(mask.Without(v))
}

// does writes what an action does.
func (m may) does(a pipeline.Action, instead bool) {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta:
		at := a.Dst.Shift()
		m.write(a.Dst.Field.Base, a.Value.Left(at), a.Mask.Left(at).And(a.Dst.Mask()), true, instead)
	case pipeline.Move, pipeline.Pop, pipeline.CheckLarger, pipeline.BundleLoad, pipeline.Multipath:
		m.write(a.Dst.Field.Base, pipeline.Value{}, a.Dst.Mask(), false, instead)
	case pipeline.CT, pipeline.CTClear:
		for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
			m.write(b, pipeline.Value{}, all(), true, false)
		}
	}
}

// wants leaves what packets may be that a match wants.
func (m may) wants(match pipeline.Match) {
	for _, t := range match {
		if cleared(t.Base) && t.Base != pipeline.ConjID {
			m.one[t.Base] = m.one[t.Base].Without(t.Mask.Without(t.Value))
			m.zero[t.Base] = m.zero[t.Base].Without(t.Value)
		}
	}
}

// allows reports whether packets may be as a condition says.
func (m may) allows(cond pipeline.Match) bool {
	for _, t := range cond {
		if cleared(t.Base) && (!t.Value.Without(m.one[t.Base]).IsZero() ||
			!t.Mask.Without(t.Value).Without(m.zero[t.Base]).IsZero()) {
			return false
		}
	}
	return true
}

// spread finds what packets may be in each table.
type spread struct {
	*Maker
	flows map[pipeline.Table][]*pipeline.Flow
	at    map[pipeline.Table]may
	// writes is what is written in a table and in those that it leads to in the same pass.
	writes  map[pipeline.Table]may
	waiting []pipeline.Table
}

// mayBe is what packets may be in each table.
func (m *Maker) mayBe() map[pipeline.Table]may {
	if m.mays != nil {
		return m.mays
	}
	s := &spread{Maker: m, flows: map[pipeline.Table][]*pipeline.Flow{}, at: map[pipeline.Table]may{},
		writes: map[pipeline.Table]may{}}
	for _, f := range m.p.Flows {
		if m.kindOf[f] != nil {
			s.flows[f.Table] = append(s.flows[f.Table], f)
		}
	}
	s.written()
	come := newMay()
	for b := pipeline.Base(0); int(b) < pipeline.Bases; b++ {
		if cleared(b) {
			come.zero[b] = all()
		}
	}
	s.into(m.p.Entry(), come)
	for len(s.waiting) > 0 {
		t := s.waiting[0]
		s.waiting = s.waiting[1:]
		for _, f := range s.flows[t] {
			cur := s.at[t].clone()
			cur.wants(f.Match)
			s.list(cur, f.Actions, t, 0)
		}
	}
	m.mays = s.at
	return s.at
}

// written finds what is written in tables and those that they lead to.
func (s *spread) written() {
	for t, flows := range s.flows {
		s.writes[t] = newMay()
		for _, f := range flows {
			s.p.Each(f.Actions, func(a pipeline.Action) {
				s.writes[t].does(a, false)
				if a.Kind == pipeline.Learn {
					for _, does := range a.Learned.Does {
						if does.Bits.Field != nil && s.writes[a.Table].one != nil {
							s.writes[a.Table].write(does.Bits.Field.Base, pipeline.Value{}, does.Bits.Mask(), false, false)
						}
					}
				}
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for t, flows := range s.flows {
			for _, f := range flows {
				jumps, _ := s.p.Jumps(f.Actions, t)
				for _, j := range jumps {
					if j.Kind != pipeline.CT && s.writes[j.To].one != nil {
						changed = s.writes[t].join(s.writes[j.To]) || changed
					}
				}
			}
		}
	}
}

// into has packets come into a table.
func (s *spread) into(t pipeline.Table, m may) {
	if s.at[t].one == nil {
		s.at[t] = newMay()
	}
	if s.at[t].join(m) {
		s.waiting = append(s.waiting, t)
	}
}

// list carries out actions on what packets may be.
func (s *spread) list(cur may, list []pipeline.Action, in pipeline.Table, depth int) {
	const deepest = 4
	for _, a := range list {
		switch a.Kind {
		case pipeline.Resubmit, pipeline.Goto:
			to := a.Table
			if to == pipeline.NoTable {
				to = in
			}
			s.into(to, cur)
			if s.writes[to].one != nil {
				cur.join(s.writes[to])
			}
		case pipeline.CT:
			if a.Track.Table != pipeline.NoTable {
				next := cur.clone()
				for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
					next.write(b, pipeline.Value{}, all(), false, true)
				}
				s.into(a.Track.Table, next)
			}
		case pipeline.Clone:
			if depth < deepest {
				s.list(cur.clone(), a.Nested, in, depth+1)
			}
		case pipeline.GroupAction:
			if g := s.p.Group(uint32(a.N)); g != nil && depth < deepest {
				for _, b := range g.Buckets {
					s.list(cur.clone(), b.Actions, in, depth+1)
				}
			}
		}
		if a.Kind != pipeline.CT {
			cur.does(a, true)
		} else {
			cur.does(a, false)
		}
	}
}
