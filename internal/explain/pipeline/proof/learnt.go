package proof

import (
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/explain/pipeline"
)

// learntAlike goes on with packets that flows take which are learnt into a table, and says
// whether that could be shown. Both switches learn the same: what a packet has them learn is
// shown to be alike, as all else that is observed. So both have the same such flows, which
// take the same packets where they read nothing that differs.
func (l *lockstep) learntAlike(s *state, a, b place, bits pipeline.Match) bool {
	for _, from := range []*side{l.a, l.b} {
		for _, line := range slices.Sorted(maps.Keys(from.learnt[a.table])) {
			k := from.learnt[a.table][line]
			if l.taken(a.table, k.Priority) {
				l.obstacle(nil, nil, &s.pair, "line %d learns flows into table %s, which may take the place of others", line,
					from.Names.FormatTable(a.table))
				return false
			}
			for _, f := range k.Match {
				if touches(pipeline.Match{{Base: f.Field.Base, Mask: f.Mask()}}, bits) {
					l.obstacle(nil, nil, &s.pair, "line %d learns flows into table %s, which read what differs", line,
						from.Names.FormatTable(a.table))
					return false
				}
			}
			if !l.learnt(s, k, a, b) {
				return false
			}
		}
	}
	return true
}

// flee has flows of priorities that flows are learnt with hide nothing: they come and go.
func (l *lockstep) flee() {
	for _, from := range []*side{l.a, l.b} {
		for id, learnt := range from.learnt {
			for _, in := range []*side{l.a, l.b} {
				t := in.at(id)
				for _, k := range learnt {
					if t.fleeting == nil {
						t.fleeting = map[int]bool{}
					}
					t.fleeting[k.Priority] = true
				}
				t.index()
			}
		}
	}
}

// taken reports whether a table has flows of a priority that only one pipeline has: one that
// is learnt may take their place, and then they are gone.
func (l *lockstep) taken(id pipeline.Table, priority int) bool {
	own := func(e *entry) bool {
		return e.flow != nil && e.priority == priority && (e.partner == nil || e.partner.text != e.text)
	}
	return slices.ContainsFunc(l.a.at(id).all, own) || slices.ContainsFunc(l.b.at(id).all, own)
}

// learnt carries out in both what a flow that was learnt does. What it loads is not known, but
// the same.
func (l *lockstep) learnt(s *state, k *pipeline.Learned, a, b place) bool {
	if l.dive != nil {
		return true // no packet that is made meets what others have had a switch learn
	}
	next := *s
	next.not = nil
	for _, does := range k.Does {
		if does.Kind == pipeline.Output {
			if !next.leavesAlike() {
				l.obstacle(nil, nil, &s.pair, "packets that flows learnt into table %s send out may differ",
					l.a.Names.FormatTable(a.table))
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
