package proof

import (
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// live is which bits of registers and metadata are read from a table on, before they are written
// again. What the others are makes no difference: they leave with no packet.
type live struct {
	*side
	at    map[pipeline.Table]pipeline.Match
	after map[*cont]pipeline.Match
	// ret is what is read after a table, wherever it was looked up, where that is asked (see locally).
	ret map[pipeline.Table]pipeline.Match
	// goesOn says whether anything but writing may come after a table.
	goesOn map[pipeline.Table]bool
	// whole says that it is not known what is read where.
	whole bool
}

// registers are what a switch keeps of a packet, and nobody sees.
func registers() []pipeline.Base {
	return []pipeline.Base{pipeline.Reg0, pipeline.Reg4, pipeline.Reg8, pipeline.Reg12, pipeline.Metadata}
}

func register(b pipeline.Base) bool { return slices.Contains(registers(), b) }

// anything is all bits of registers.
func anything() (out pipeline.Match) {
	for _, b := range registers() {
		out = out.With(b, pipeline.Value{}, all())
	}
	return out
}

func newLive(s *side) *live {
	v := &live{side: s, at: map[pipeline.Table]pipeline.Match{}, after: map[*cont]pipeline.Match{}}
	into := v.into()
	if v.whole = into == nil; v.whole {
		return v
	}
	waiting := map[pipeline.Table]bool{}
	for id := range s.tables {
		waiting[id] = true
	}
	for len(waiting) > 0 {
		last := pipeline.Table(0)
		for id := range waiting {
			last = max(last, id)
		}
		delete(waiting, last)
		if now := v.read(last); !slices.Equal(now, v.at[last]) {
			v.at[last] = now
			for id := range into[last] {
				waiting[id] = true
			}
		}
	}
	return v
}

// into is from which tables each is looked up, or nil if that is not known.
func (v *live) into() map[pipeline.Table]map[pipeline.Table]bool {
	out := map[pipeline.Table]map[pipeline.Table]bool{}
	if len(v.Lost) > 0 {
		return nil
	}
	for _, f := range v.Flows {
		ways, sure := v.Jumps(f.Actions, f.Table)
		if !sure || !f.Understood() || len(f.Carried) > 0 || v.collects(f.Actions) {
			return nil
		}
		for _, j := range ways {
			if out[j.To] == nil {
				out[j.To] = map[pipeline.Table]bool{}
			}
			out[j.To][f.Table] = true
		}
	}
	return out
}

// collects reports whether an action set may read registers: it does so where the walk ends.
func (v *live) collects(list []pipeline.Action) (reads bool) {
	v.Each(list, func(a pipeline.Action) {
		if a.Kind != pipeline.WriteActions {
			return
		}
		reads = reads || slices.ContainsFunc(a.Nested, func(n pipeline.Action) bool {
			plain := n.Kind == pipeline.Output || n.Kind == pipeline.SetField || n.Kind == pipeline.Load ||
				len(modified(n.Kind)) > 0 || n.Kind == pipeline.DecTTL || n.Kind == pipeline.SetQueue
			return !plain || n.Src.Field != nil
		})
	})
	return reads
}

// read is what a table reads, and what its flows lead to.
func (v *live) read(id pipeline.Table) (out pipeline.Match) {
	match := func(b pipeline.Base, mask pipeline.Value) {
		if register(b) {
			out = out.With(b, pipeline.Value{}, mask)
		}
	}
	for _, k := range v.learnt[id] {
		if k.Learned == nil {
			return anything()
		}
		for _, f := range k.Match {
			match(f.Field.Base, f.Mask())
		}
	}
	for _, e := range v.tables[id].all {
		if e.flow == nil {
			continue
		}
		for _, t := range e.flow.Match {
			match(t.Base, t.Mask)
		}
		out = joined(out, v.list(e.flow.Actions, id, nil))
	}
	return out
}

// list is what is read from a list of actions on, if so much is after it.
func (v *live) list(list []pipeline.Action, in pipeline.Table, after pipeline.Match) pipeline.Match {
	end := after
	for _, a := range slices.Backward(list) {
		after = v.before(a, in, after, end)
	}
	return after
}

// before is what is read from an action on, if so much is after it, and so much after its list.
func (v *live) before(a pipeline.Action, in pipeline.Table, after, end pipeline.Match) pipeline.Match {
	switch a.Kind {
	case goBack:
		return v.ret[a.Table]
	case pipeline.DecTTL: // where the TTL runs out, the list ends
		return joined(after, end)
	case pipeline.Resubmit, pipeline.Goto:
		to := a.Table
		if to == pipeline.NoTable {
			to = in
		}
		return joined(after, v.at[to])
	case pipeline.CT:
		after = reading(after, a.Track.From)
		for _, n := range a.Nested {
			after = reading(after, n.Src)
		}
		if a.Track.Table == pipeline.NoTable {
			return after
		}
		return joined(after, v.at[a.Track.Table])
	case pipeline.WriteActions: // see collects
		return after
	case pipeline.Clone:
		return joined(after, v.list(a.Nested, in, nil))
	case pipeline.GroupAction:
		g := v.Group(uint32(a.N))
		if g == nil || in == pipeline.NoTable || within(v.Pipeline, g) {
			return anything()
		}
		for _, b := range g.Buckets {
			after = joined(after, v.list(b.Actions, in, nil))
		}
		return after
	case pipeline.Learn:
		if a.Learned == nil || a.Dst.Field != nil {
			return anything()
		}
		for _, from := range a.Learned.From {
			after = reading(after, from)
		}
		return after
	}
	return v.written(a, after)
}

// within reports whether a group holds others, perhaps itself.
func within(p *pipeline.Pipeline, g *pipeline.Group) (holds bool) {
	for _, b := range g.Buckets {
		p.Each(b.Actions, func(a pipeline.Action) { holds = holds || a.Kind == pipeline.GroupAction })
	}
	return holds
}

// written is before of actions that lead nowhere.
func (v *live) written(a pipeline.Action, after pipeline.Match) pipeline.Match {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta, pipeline.SetTunnel, "set_tunnel64":
		if b, _, mask, ok := constant(v.Words, a); ok {
			return after.Without(b, mask)
		}
		return after
	case pipeline.Move:
		to := a.Dst.Field.Base
		reads := !register(to) || !after.Get(to).Mask.And(a.Dst.Mask()).IsZero()
		if always(a.Dst.Field) && always(a.Src.Field) {
			after = after.Without(to, a.Dst.Mask())
		}
		if reads {
			after = reading(after, a.Src)
		}
		return after
	case pipeline.Push:
		return reading(after, a.Dst)
	case pipeline.Output:
		return reading(after, a.Src)
	case pipeline.Controller:
		if strings.Contains(a.Text, "pause") {
			return anything()
		}
		return after
	case pipeline.Pop, pipeline.CheckLarger, pipeline.OutputTrunc, pipeline.Meter, pipeline.SetQueue, pipeline.PopQueue,
		pipeline.Exit, pipeline.CTClear, pipeline.NoteAction, pipeline.FinTimeout, pipeline.ClearActions,
		pipeline.Conjunction:
		return after
	}
	if len(modified(a.Kind)) > 0 {
		return after
	}
	return anything()
}

// reading is bits, and those of a field where it is a register.
func reading(m pipeline.Match, f pipeline.Subfield) pipeline.Match {
	if f.Field != nil && register(f.Field.Base) {
		return m.With(f.Field.Base, pipeline.Value{}, f.Mask())
	}
	return m
}

// of is what is read from a place on.
func (v *live) of(p place) pipeline.Match {
	if v.whole {
		return anything()
	}
	out := v.then(p.cont)
	if p.look {
		out = joined(out, v.at[p.table])
	}
	return out
}

func (v *live) then(c *cont) pipeline.Match {
	if c == nil {
		return nil
	}
	out, ok := v.after[c]
	if !ok {
		out = v.list(c.rest, c.in, v.then(c.next))
		v.after[c] = out
	}
	return out
}

// forget has what is never read of registers not be known, and be the same in both: it makes no
// difference what it is.
func (l *lockstep) forget(s *state, a, b place) {
	reads := joined(l.reads[0].of(a), l.reads[1].of(b))
	for _, base := range registers() {
		dead := all().Without(reads.Get(base).Mask)
		one := identical(s.a, s.b)
		if !s.a.Get(base).Mask.And(dead).IsZero() {
			s.a = s.a.Without(base, dead)
		}
		switch {
		case one:
			s.b = s.a
		case !s.b.Get(base).Mask.And(dead).IsZero():
			s.b = s.b.Without(base, dead)
		}
		if !s.dirty.Get(base).Mask.And(dead).IsZero() {
			s.dirty = s.dirty.Without(base, dead)
		}
	}
}
