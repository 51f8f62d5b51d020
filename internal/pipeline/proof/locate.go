package proof

import (
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// divesLocally looks for a packet that fares differently by single ways from a table that the two
// have not in common to where they part; how a packet comes to that table is planned backwards.
func (l *lockstep) divesLocally(s *search, came *reach, budget int) *Witness {
	tables, ok := l.oddTables()
	if !ok || l.need == nil || len(tables) == 0 || l.uses[pipeline.WriteActions] || l.a.Entry() != l.b.Entry() {
		return nil
	}
	l.dive = &dive{random: s.Random, far: l.far(), rounds: mostRounds}
	l.local = [2]map[pipeline.Table]pipeline.Match{l.reads[0].returns(), l.reads[1].returns()}
	l.reads[0].ret, l.reads[1].ret = l.local[0], l.local[1]
	defer func() { l.dive, l.local = nil, [2]map[pipeline.Table]pipeline.Match{} }()
	if came != nil {
		s.makers[0].Within(came.comes)
	}
	partners := l.partners()
	var id pipeline.Table
	l.dive.may = func(t *trail) bool {
		inA, inB := t.lookups()
		return s.makers[0].May(id, inA, s.makers[1], inB, !s.limits)
	}
	return l.diveFrom(s, budget, func() pipeline.Table {
		id = tables[s.Random.IntN(len(tables))]
		return id
	}, func(id pipeline.Table) { l.comesTo(id, came) }, func(t *trail) (*Witness, bool) {
		inA, inB := t.lookups()
		for range mostPlanned {
			looked := s.makers[0].Looked()
			c, ok, again := s.makers[0].Toward(id, inA, s.makers[1], inB, partners, !s.limits)
			l.steps += stepsPerTrail + stepsPerLook*(s.makers[0].Looked()-looked)
			switch {
			case ok:
				if w := s.vary(c); w != nil {
					return w, true
				}
			case !again:
				return nil, false
			}
		}
		return nil, true
	})
}

// Bounds: what it costs to look at a table to plan backwards, and to look whether a packet may go by a
// trail; how often all ways are gone from a table,
// and how often it is planned how to come there, for each way.
const (
	stepsPerLook  = 10
	stepsPerTrail = 100
	mostRounds    = 40
	mostPlanned   = 12
)

// partners are the flows of B, and their actions, in place of those of A that do the same.
func (l *lockstep) partners() witness.Partner {
	flows, actions := map[*pipeline.Flow]*pipeline.Flow{}, map[*pipeline.Action]*pipeline.Action{}
	groups := map[uint64]bool{}
	var pair func(a, b []pipeline.Action)
	pair = func(a, b []pipeline.Action) {
		for i := range a {
			if i >= len(b) || a[i].Kind != b[i].Kind {
				return
			}
			actions[&a[i]] = &b[i]
			pair(a[i].Nested, b[i].Nested)
			g, h := l.a.Group(uint32(a[i].N)), l.b.Group(uint32(a[i].N))
			if a[i].Kind != pipeline.GroupAction || groups[a[i].N] || g == nil || h == nil {
				continue
			}
			groups[a[i].N] = true
			for j := range min(len(g.Buckets), len(h.Buckets)) {
				pair(g.Buckets[j].Actions, h.Buckets[j].Actions)
			}
		}
	}
	for _, t := range l.a.tables {
		for _, e := range t.flows {
			if e.flow != nil && e.partner != nil && e.partner.text == e.text {
				flows[e.flow] = e.partner.flow
				pair(e.flow.Actions, e.partner.flow.Actions)
			}
		}
	}
	return func(f *pipeline.Flow, a *pipeline.Action) (*pipeline.Flow, *pipeline.Action) {
		return flows[f], actions[a]
	}
}
