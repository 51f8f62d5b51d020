package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// back is what packets must be before a list of actions, if they must be so after it, or else on
// the way.
func (n *needs) back(list []pipeline.Action, in pipeline.Table, after []pipeline.Match) []pipeline.Match {
	end := after
	for _, a := range slices.Backward(list) {
		after = n.before(a, in, after, end)
	}
	return after
}

// before is what packets must be before an action, if they must be so after it, or so after its list.
func (n *needs) before(a pipeline.Action, in pipeline.Table, after, end []pipeline.Match) []pipeline.Match {
	n.steps += 1 + len(after)
	switch a.Kind {
	case pipeline.Resubmit, pipeline.Goto:
		to := a.Table
		if to == pipeline.NoTable {
			to = in
		}
		if a.Original && len(n.at[to]) > 0 {
			return []pipeline.Match{nil}
		}
		return n.either(n.without(after, n.writes[to]), n.at[to])
	case pipeline.CT:
		after = n.without(after, n.writesOf([]pipeline.Action{a}))
		if a.Track.Table == pipeline.NoTable {
			return after
		}
		return n.either(after, n.tracked(a))
	case pipeline.Clone:
		return n.either(after, n.back(a.Nested, in, nil))
	case pipeline.GroupAction:
		return n.beforeGroup(a, in, after)
	case pipeline.DecTTL: // where the TTL runs out, the list ends
		after = slices.DeleteFunc(slices.Clone(after), mostTTL().Covers)
		return n.either(n.without(after, n.writesOf([]pipeline.Action{a})), end)
	case pipeline.CheckLarger, pipeline.BundleLoad, pipeline.Multipath, pipeline.CTClear:
		return n.without(after, n.writesOf([]pipeline.Action{a}))
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta, pipeline.SetTunnel, "set_tunnel64", "mod_dl_src",
		"mod_dl_dst",
		pipeline.Move:
		return n.beforeWrite(a, after)
	case pipeline.Learn, pipeline.Push:
		return after
	}
	for _, b := range written(a) {
		after = n.without(after, pipeline.Match{{Base: b, Mask: all()}})
	}
	return after
}

// tracked is what packets must be before they are tracked.
func (n *needs) tracked(a pipeline.Action) (out []pipeline.Match) {
	lost := n.writesOf([]pipeline.Action{a})
	for _, b := range fragment() {
		lost = lost.With(b, pipeline.Value{}, all())
	}
	if a.Track.NAT != "" {
		for _, b := range pipeline.Translated() {
			lost = lost.With(b, pipeline.Value{}, all())
		}
	}
	for _, m := range n.at[a.Track.Table] {
		if t := m.Get(pipeline.CTState); answerable(t.Value.Lo, t.Mask.Lo) {
			out = append(out, m)
		}
	}
	return n.without(out, lost)
}

// beforeGroup is what packets must be before a group. What its buckets write may stay.
func (n *needs) beforeGroup(a pipeline.Action, in pipeline.Table, after []pipeline.Match) []pipeline.Match {
	id := uint32(a.N)
	out := n.without(after, n.writesOf([]pipeline.Action{a}))
	ways, _ := n.a.Jumps([]pipeline.Action{a}, in)
	for _, j := range ways {
		if deepGroup(n.a.Pipeline, id) && len(n.at[j.To]) > 0 {
			return []pipeline.Match{nil}
		}
		out = n.without(out, n.writes[j.To])
	}
	for _, b := range n.a.Group(id).Buckets {
		out = n.either(out, n.back(b.Actions, in, nil))
	}
	return out
}

// beforeWrite is what packets must be before bits are written.
func (n *needs) beforeWrite(a pipeline.Action, after []pipeline.Match) (out []pipeline.Match) {
	for _, m := range after {
		if b, v, mask, ok := constant(n.a.Words, a); ok {
			t := m.Get(b)
			if t.Value.Xor(v).And(t.Mask).And(mask).IsZero() {
				out, _ = n.include(out, m.Without(b, mask))
			}
			continue
		}
		if a.Kind == pipeline.Move && always(a.Dst.Field) && always(a.Src.Field) {
			t, to := m.Get(a.Dst.Field.Base), a.Dst.Mask()
			source := func(v pipeline.Value) pipeline.Value { return v.And(to).Right(a.Dst.Shift()).Left(a.Src.Shift()) }
			m = m.Without(a.Dst.Field.Base, to)
			if mask := source(t.Mask); !mask.IsZero() {
				from := pipeline.Match{{Base: a.Src.Field.Base, Value: source(t.Value), Mask: mask}}
				if !m.Meets(from) {
					continue
				}
				m = m.And(from)
			}
			out, _ = n.include(out, m)
			continue
		}
		for _, b := range written(a) {
			m = m.Without(b, all())
		}
		out, _ = n.include(out, m)
	}
	return out
}

// without is packets of which nothing is asked about some bits.
func (n *needs) without(list []pipeline.Match, bits pipeline.Match) (out []pipeline.Match) {
	for _, m := range list {
		if touches(m, bits) {
			for _, t := range bits {
				m = m.Without(t.Base, t.Mask)
			}
		}
		out, _ = n.include(out, m)
	}
	return out
}

func (n *needs) either(list, others []pipeline.Match) []pipeline.Match {
	for _, m := range others {
		list, _ = n.include(list, m)
	}
	return list
}
