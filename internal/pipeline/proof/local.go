package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// goBack is what an action is called that goes back to where a table was looked up, wherever that was.
const goBack pipeline.Kind = "back"

// locally tries to show that the two do the same table by table: that a packet which is the same in
// both, and comes to a table that is not, has the same seen of it there, and is the same again
// afterwards, but for what nobody reads. As soon as it is the same again on the way, and is to go the
// same way in both, it is left: less is left to do of it then, so that it fares alike if all that
// come to a table do which have less to do. It says whether that was shown; if not, nothing is.
func (l *lockstep) locally(came *reach) bool {
	tables, ok := l.oddTables()
	if !ok || l.need == nil || l.uses[pipeline.WriteActions] || l.a.Entry() != l.b.Entry() {
		return false
	}
	l.local = [2]map[pipeline.Table]pipeline.Match{l.reads[0].returns(), l.reads[1].returns()}
	l.wantOften()
	defer func() {
		l.often = nil
		l.local = [2]map[pipeline.Table]pipeline.Match{}
		l.again()
	}()
	l.reads[0].ret, l.reads[1].ret = l.local[0], l.local[1]
	for _, id := range tables {
		l.again()
		l.comesTo(id, came)
		l.follow()
		if len(l.obstacles) > 0 {
			return false
		}
	}
	return true
}

// oddTables are those with flows that the two have not in common; false if one of them may be looked
// up with something else in place of what the packet is.
func (l *lockstep) oddTables() (out []pipeline.Table, ok bool) {
	for _, o := range l.oddEntries() {
		if !slices.Contains(out, o.table) {
			out = append(out, o.table)
		}
	}
	ok = true
	for _, s := range []*side{l.a, l.b} {
		for _, f := range s.Flows {
			s.Each(f.Actions, func(a pipeline.Action) {
				to := a.Table
				if to == pipeline.NoTable {
					to = f.Table
				}
				if a.Kind == pipeline.Resubmit && (a.Original || a.Port != pipeline.PortIn) && slices.Contains(out, to) {
					ok = false
				}
			})
		}
	}
	return out, ok
}

// comesTo has packets that are the same in both come to a table, as far as they may meet what the two
// have not in common, wherever they come from.
func (l *lockstep) comesTo(id pipeline.Table, came *reach) {
	of := []pipeline.Match{nil}
	if came != nil {
		of = came.at[id]
	}
	in := func(own *side) place {
		marker := []pipeline.Action{{Kind: goBack, Table: id}}
		return place{look: true, table: id, port: noPort, cont: own.then(marker, id, nil)}
	}
	a, b := in(l.a), in(l.b)
	for _, m := range of {
		s := &state{askedA: "the same", askedB: "the same", forked: true}
		if b, bit := decremented(); !m.Get(b).Value.And(bit).IsZero() {
			s.not = []pipeline.Match{mostTTL()}
		}
		m = m.Without(uncopied()).Without(decremented())
		s.a, s.b = m, m
		for _, next := range l.need.narrowed(s, a) {
			l.forget(next, a, b)
			l.put(next, a, b)
		}
	}
}

// comesBack is whether a packet is the same where both go back to where a table was looked up.
func (l *lockstep) comesBack(s *state, ca, cb cursor) {
	id := ca.head().Table
	if !l.reads[0].goesOn[id] && !l.reads[1].goesOn[id] {
		return // nothing comes after it
	}
	l.forget(s, l.a.waits(ca), l.b.waits(cb))
	if !s.same() {
		l.differ(s, ca, cb, "the packets may differ once the table is done with")
	}
}

// returns are the bits of registers that are read after a table, wherever it was looked up.
func (v *live) returns() map[pipeline.Table]pipeline.Match {
	out := map[pipeline.Table]pipeline.Match{}
	v.goesOn = map[pipeline.Table]bool{}
	for changed := true; changed; {
		changed = false
		after := func(to pipeline.Table, m pipeline.Match, more bool) {
			if now := joined(out[to], m); !slices.Equal(now, out[to]) {
				out[to], changed = now, true
			}
			if more && !v.goesOn[to] {
				v.goesOn[to], changed = true, true
			}
		}
		for _, f := range v.Flows {
			v.calls(f.Actions, f.Table, out[f.Table], v.goesOn[f.Table], after)
		}
	}
	return out
}

// calls tells of each table that a list looks up what is read once it is done with, and whether
// anything but writing comes after it.
func (v *live) calls(list []pipeline.Action, in pipeline.Table, end pipeline.Match, more bool,
	after func(pipeline.Table, pipeline.Match, bool)) {
	now := end
	for _, a := range slices.Backward(list) {
		switch a.Kind {
		case pipeline.Resubmit, pipeline.Goto:
			to := a.Table
			if to == pipeline.NoTable {
				to = in
			}
			after(to, now, more)
		case pipeline.Clone:
			v.calls(a.Nested, in, nil, false, after)
		case pipeline.GroupAction:
			if g := v.Group(uint32(a.N)); g != nil {
				for _, b := range g.Buckets {
					v.calls(b.Actions, in, nil, false, after)
				}
			}
		}
		now, more = v.before(a, in, now, end), more || !silent(a.Kind)
	}
}
