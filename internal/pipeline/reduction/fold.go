package reduction

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Folds save lookups, which only the first packet of a flow pays for: where a flow sends
// packets on into a table, it does at once what the table would do with them.

// mostFolds bounds how many pairs of tables are looked at.
const mostFolds = 40

// fold makes the fold that saves most, if there is one.
func (r *reducer) fold() bool {
	now := r.sample.cost()
	type scored struct {
		change
		cost Cost
	}
	var list []scored
	for _, c := range append(r.reentries(), r.folds()...) {
		if r.refused[fmt.Sprintf("%d %s", c.line, c.what)] {
			continue
		}
		cost, worse := r.sample.against(c.next)
		if !worse && cost.less(now) {
			list = append(list, scored{c, cost})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int {
		switch {
		case a.cost.less(b.cost):
			return -1
		case b.cost.less(a.cost):
			return 1
		}
		return 0
	})
	for _, c := range list {
		if r.try(c.change) {
			return true
		}
	}
	return false
}

// folds lists a change for each pair of tables of which flows of one lead into the other.
func (r *reducer) folds() (out []change) {
	n := newNet(r.now)
	for _, to := range r.order() {
		from := map[pipeline.Table]bool{}
		for _, f := range n.into[to] {
			if len(out) == mostFolds {
				return out
			}
			if f.Table == to || from[f.Table] {
				continue
			}
			from[f.Table] = true
			if c, ok := r.foldInto(n, f.Table, to); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// order is the tables in the order of the input.
func (r *reducer) order() (out []pipeline.Table) {
	seen := map[pipeline.Table]bool{}
	for _, f := range r.now.Flows {
		if !seen[f.Table] {
			seen[f.Table] = true
			out = append(out, f.Table)
		}
	}
	return out
}

// foldInto has flows of a table do what another does with their packets. It makes for no more
// flows and no more masks than there were, but for as many as are allowed.
func (r *reducer) foldInto(n *net, from, to pipeline.Table) (c change, ok bool) {
	if !foldable(n.Pipeline, n.tables[to]) {
		return c, false
	}
	by := map[*pipeline.Flow][]*pipeline.Flow{}
	var lines []int
	for _, f := range n.tables[from] {
		if flows, ok := r.folded(n, f, to); ok {
			by[f] = flows
			lines = append(lines, f.Line)
		}
	}
	if len(by) == 0 {
		return c, false
	}
	rest := slices.ContainsFunc(n.into[to], func(f *pipeline.Flow) bool { return by[f] == nil })
	gone := !rest && to != r.now.Entry() && !n.unsure
	var flows []*pipeline.Flow
	for _, f := range r.now.Flows {
		switch others, ok := by[f]; {
		case ok:
			flows = append(flows, others...)
		case !gone || f.Table != to:
			flows = append(flows, f)
		}
	}
	next := r.now.With(flows)
	if len(flows) > len(r.now.Flows)+r.Growth || Masks(next) > Masks(r.now)+r.Growth {
		return c, false
	}
	name := r.now.Names.FormatTable
	return change{from: r.now, next: next, line: lines[0], lines: lines, rests: nil,
		what: fmt.Sprintf("do in table %s what table %s does: a lookup less for the first packet of a flow; %s",
			name(from), name(to), r.masks(next))}, true
}

// masks says how many masks there are before and after.
func (r *reducer) masks(next *pipeline.Pipeline) string {
	return fmt.Sprintf("%d masks, then %d", Masks(r.now), Masks(next))
}

// Masks is how many different masks the tables' matches have: a lookup tries each mask of a
// table.
func Masks(p *pipeline.Pipeline) int {
	seen := map[string]bool{}
	for _, f := range p.Flows {
		k := f.Match.Key(func(t pipeline.Term) pipeline.Value { return t.Mask })
		seen[fmt.Sprint(f.Table, string(k))] = true
	}
	return len(seen)
}

// foldable reports whether a table is one of flows that can be carried out elsewhere.
func foldable(p *pipeline.Pipeline, flows []*pipeline.Flow) bool {
	for _, f := range flows {
		if !lasting(p, f) || len(f.Flags) > 0 || !f.Match.Get(pipeline.ConjID).Mask.IsZero() || p.Any(f.Actions, local) {
			return false
		}
	}
	return true
}

// local reports whether an action does something else in another table.
func local(a pipeline.Action) bool {
	switch a.Kind {
	case pipeline.Conjunction, pipeline.Controller, pipeline.Learn:
		return true
	case pipeline.WriteMeta, pipeline.WriteActions, pipeline.ClearActions, pipeline.Meter:
		return true // instructions, whose order is OpenFlow's
	case pipeline.Resubmit:
		return a.Table == pipeline.NoTable
	}
	return false
}

// folded is the flows in the place of one whose last action leads into a table, one for each
// flow of the table that takes its packets.
func (r *reducer) folded(n *net, f *pipeline.Flow, to pipeline.Table) (out []*pipeline.Flow, ok bool) {
	last := len(f.Actions) - 1
	if last < 0 || !foldable(n.Pipeline, []*pipeline.Flow{f}) || !leads(f.Actions[last], to) {
		return nil, false
	}
	known, written := after(r.now.Words, f)
	takers, ok := takers(n.tables[to], known, written)
	if !ok {
		return nil, false
	}
	for i, g := range takers {
		one := *f
		one.Counted, one.Packets, one.Bytes = false, 0, 0
		one.Actions, one.Priority = slices.Clone(f.Actions[:last]), f.Priority+len(takers)-1-i
		if g != nil {
			one.Actions = append(one.Actions, onwards(g.Actions, f.Table)...)
			for _, t := range g.Match {
				if written.Get(t.Base).Mask.And(t.Mask).IsZero() {
					one.Match = one.Match.With(t.Base, t.Value, t.Mask)
				} else if left := t.Mask.Without(written.Get(t.Base).Mask); !left.IsZero() {
					one.Match = one.Match.With(t.Base, t.Value.And(left), left)
				}
			}
		}
		if one.Priority > 65535 || one.Priority > f.Priority && crowded(n.tables[f.Table], f, &one) {
			return nil, false
		}
		out = append(out, &one)
	}
	return out, true
}

// onwards is a list for a flow of a table, of which goto_table leads to later ones only.
func onwards(list []pipeline.Action, from pipeline.Table) []pipeline.Action {
	out := slices.Clone(list)
	for i, a := range out {
		if a.Kind == pipeline.Goto && a.Table <= from {
			out[i] = pipeline.Action{Kind: pipeline.Resubmit, Port: pipeline.PortIn, Table: a.Table}
		}
	}
	return out
}

// leads reports whether an action does nothing but look up the table.
func leads(a pipeline.Action, to pipeline.Table) bool {
	return a.Table == to && (a.Kind == pipeline.Goto ||
		a.Kind == pipeline.Resubmit && a.Port == pipeline.PortIn && !a.Original)
}

// after is what is known of a flow's packets before its last action, and which bits it has
// written by then.
func after(words *pipeline.Vocabulary, f *pipeline.Flow) (known, written pipeline.Match) {
	known = slices.Clone(f.Match)
	for _, a := range f.Actions[:len(f.Actions)-1] {
		var b pipeline.Base
		var v, mask pipeline.Value
		ok := false
		switch {
		case (a.Kind == pipeline.Load || a.Kind == pipeline.SetField || a.Kind == pipeline.WriteMeta) && plain(a):
			at := a.Dst.Shift()
			b, mask, ok = a.Dst.Field.Base, a.Mask.Left(at).And(a.Dst.Mask()), true
			v = a.Value.Left(at).And(mask)
		case plain(a) && a.Dst.Field != nil && a.Kind != pipeline.Push:
			b, mask = a.Dst.Field.Base, a.Dst.Mask()
		case plain(a):
			continue
		default: // it may write anything
			for b := range pipeline.Base(pipeline.Bases) {
				written = written.With(b, pipeline.Value{}, words.Full(b))
			}
			return nil, written
		}
		known = known.Without(b, mask)
		written = written.With(b, pipeline.Value{}, mask)
		if ok {
			known = known.With(b, v, mask)
		}
	}
	return known, written
}

// takers are the flows of a table that take packets of which that much is known, the highest
// priority first, and nil for no flow in the end where some may be left. It is not known where
// one reads bits that were written with what is not known.
func takers(flows []*pipeline.Flow, known, written pipeline.Match) (out []*pipeline.Flow, ok bool) {
	const most = 64
	sorted := slices.Clone(flows)
	slices.SortStableFunc(sorted, func(a, b *pipeline.Flow) int { return b.Priority - a.Priority })
	for _, g := range sorted {
		if !known.Meets(g.Match) {
			continue
		}
		for _, t := range g.Match {
			if !t.Mask.And(written.Get(t.Base).Mask).Without(known.Get(t.Base).Mask).IsZero() {
				return nil, false
			}
		}
		out = append(out, g)
		if g.Match.Covers(known) {
			return out, true
		}
		if len(out) > most {
			return nil, false
		}
	}
	return append(out, nil), true
}

// crowded reports whether another flow of the table has a priority between that of a flow and
// that of the one in its place, and wants some of its packets.
func crowded(flows []*pipeline.Flow, f, one *pipeline.Flow) bool {
	return slices.ContainsFunc(flows, func(g *pipeline.Flow) bool {
		return g != f && g.Priority > f.Priority && g.Priority <= one.Priority && g.Match.Meets(one.Match)
	})
}

// reentries list changes to flows that have packets tracked and look up their own table again:
// the flows that take them then have them tracked on the way into the next one.
func (r *reducer) reentries() (out []change) {
	n := newNet(r.now)
	for _, f := range r.now.Flows {
		if len(f.Actions) != 1 || !lasting(r.now, f) || !quiet(f.Actions[0]) || f.Actions[0].Track.Table != f.Table {
			continue
		}
		base, _, ok := r.without(f, f.Actions[0])
		if !ok {
			continue
		}
		for _, class := range n.classes(f) {
			sites, ok := onward(n.Pipeline, n.tables[f.Table], f, class)
			if !ok {
				continue
			}
			next, lines, _, ok := inserted(base, sites, class, f.Actions[0])
			if !ok || len(next.Flows) > len(r.now.Flows)+r.Growth {
				continue
			}
			table := r.now.Names.FormatTable(f.Table)
			out = append(out, change{from: r.now, next: next, line: f.Line, lines: append(lines, f.Line),
				what: fmt.Sprintf("ask zone %s on the way out of table %s, which is not looked up again then; %s",
					f.Actions[0].Track.ZoneText(), table, r.masks(next)), rests: []string{unobserved}})
			break
		}
	}
	return out
}

// onward are the flows of a table but one that take packets of a class, all of which send them
// on into another table, or drop them.
func onward(p *pipeline.Pipeline, flows []*pipeline.Flow, but *pipeline.Flow, class pipeline.Match) (
	out []*pipeline.Flow, ok bool) {
	for _, g := range flows {
		if g == but || !g.Match.Meets(class) {
			continue
		}
		last := len(g.Actions) - 1
		if last < 0 {
			continue
		}
		if !lasting(p, g) || !slices.ContainsFunc(g.Actions, func(a pipeline.Action) bool { return !plain(a) }) {
			return nil, false
		}
		for _, a := range g.Actions[:last] {
			if !plain(a) {
				return nil, false
			}
		}
		if a := g.Actions[last]; !leads(a, a.Table) || a.Table == pipeline.NoTable {
			return nil, false
		}
		out = append(out, g)
	}
	return out, len(out) > 0
}
