package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// uncopied is a bit of no packet: it is zero as long as no copy was cleared in a pass. After that a
// switch may not clear the packet itself (see walk).
func uncopied() (b pipeline.Base, bit pipeline.Value) {
	return pipeline.RecircID, pipeline.Value{Hi: 1}
}

// decremented is a bit of no packet: it is one where its TTL was decremented last, and so is not the most.
func decremented() (b pipeline.Base, bit pipeline.Value) {
	return pipeline.RecircID, pipeline.Value{Hi: 2}
}

// wants reports whether packets may meet what a flow wants.
func wants(match, m pipeline.Match) bool {
	if !m.Meets(match) {
		return false
	}
	b, bit := decremented()
	return m.Get(b).Value.And(bit).IsZero() || !mostTTL().Covers(match)
}

// clears reports whether a list of actions, or what it leads to in the same pass, may clear packets.
func (r *reach) clears(list []pipeline.Action, in pipeline.Table) (clears bool) {
	r.side.Each(list, func(a pipeline.Action) {
		clears = clears || a.Kind == pipeline.CT || a.Kind == pipeline.CTClear
	})
	return clears || r.leads(list, in, r.clearing)
}

// copies reports whether it may clear copies.
func (r *reach) copies(list []pipeline.Action, in pipeline.Table) bool {
	return r.leads(list, in, r.copying) || slices.ContainsFunc(list, func(a pipeline.Action) bool {
		return (a.Kind == pipeline.Clone || a.Kind == pipeline.GroupAction) && r.clears([]pipeline.Action{a}, in)
	})
}

// leads reports whether a list of actions leads into some of the tables in the same pass.
func (r *reach) leads(list []pipeline.Action, in pipeline.Table, to map[pipeline.Table]bool) bool {
	ways, _ := r.side.Jumps(list, in)
	return slices.ContainsFunc(ways, func(j pipeline.Jump) bool { return j.Kind != pipeline.CT && to[j.To] })
}

// cleared is packets without an answer of the tracker.
func cleared(m pipeline.Match) pipeline.Match {
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		m = m.Without(b, all()).With(b, pipeline.Value{}, all())
	}
	return m
}

// cleared is packets after ct_clear.
func (r *reach) cleared(m pipeline.Match) pipeline.Match {
	const tracked = walk.Tracked
	b, bit := uncopied()
	if s := m.Get(pipeline.CTState); s.Mask.Lo&tracked != 0 && s.Value.Lo&tracked == 0 {
		return m // it has none
	}
	if m.Get(b).Mask.And(bit).IsZero() {
		return less(m, ctBits())
	}
	return cleared(m)
}

func ctBits() (out pipeline.Match) {
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		out = out.With(b, pipeline.Value{}, all())
	}
	return out
}
