package witness

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// regress is what holds of packets before a way, if a condition holds of them behind it, and
// the lookups on the way that have it hold.
func (p *planner) regress(cond pipeline.Match, w *way) (before pipeline.Match, nested []step, ok bool) {
	switch w.jump.Kind {
	case pipeline.CT:
		if cond, ok = answered(cond, *w.jump); !ok {
			return nil, nil, false
		}
		if p.pieces { // before, nobody saw its ports
			for _, b := range []pipeline.Base{pipeline.NWFrag, pipeline.TPSrc, pipeline.TPDst} {
				cond = cond.Without(b, all())
			}
			cond = cond.With(pipeline.NWFrag, pipeline.Value{Lo: 1}, p.p.Words.Full(pipeline.NWFrag))
			for _, b := range []pipeline.Base{pipeline.TPSrc, pipeline.TPDst} {
				cond = cond.With(b, pipeline.Value{}, p.p.Words.Full(b))
			}
		}
	case pipeline.Resubmit:
		if w.jump.Port != pipeline.PortIn {
			if cond, ok = written(cond, pipeline.InPort, pipeline.Value{Lo: uint64(w.jump.Port)}, all()); !ok {
				return nil, nil, false
			}
		}
	}
	for a := range w.backwards {
		if a.Kind == pipeline.Resubmit && a.Table != pipeline.NoTable {
			if g, earlier := p.provider(a.Table, cond); g != nil {
				cond, nested = earlier, append([]step{{table: a.Table, flow: g, via: a}}, nested...)
			}
			continue
		}
		if cond, ok = undone(cond, *a); !ok {
			return nil, nil, false
		}
	}
	return cond, nested, true
}

// provider picks a flow of a table that writes some of what a condition says of bits that are
// zero as packets come, and what holds before, or none.
func (p *planner) provider(id pipeline.Table, cond pipeline.Match) (*pipeline.Flow, pipeline.Match) {
	if !slices.ContainsFunc(cond, func(t pipeline.Term) bool { return cleared(t.Base) && !t.Value.IsZero() }) {
		return nil, nil
	}
	kinds := p.tables[id]
	for range kinds {
		k := kinds[p.random.IntN(len(kinds))]
		f := k.flows[p.random.IntN(len(k.flows))]
		if !slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return provides(a, cond) }) {
			continue
		}
		before, ok := cond, true
		for i := len(f.Actions) - 1; i >= 0 && ok; i-- {
			before, ok = undone(before, f.Actions[i])
		}
		if !ok {
			continue
		}
		if before, ok = p.asks(f, before); ok {
			return f, before
		}
	}
	return nil, nil
}

// provides reports whether an action writes some of what a condition says.
func provides(a pipeline.Action, cond pipeline.Match) bool {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta, pipeline.Move:
		b := a.Dst.Field.Base
		return cleared(b) && !cond.Get(b).Value.And(a.Dst.Mask()).IsZero()
	}
	return false
}

func all() pipeline.Value { return pipeline.Value{Hi: ^uint64(0), Lo: ^uint64(0)} }

// written is what held before bits were written, if a condition holds afterwards.
func written(cond pipeline.Match, b pipeline.Base, v, mask pipeline.Value) (pipeline.Match, bool) {
	t := cond.Get(b)
	if !t.Value.Xor(v).And(t.Mask).And(mask).IsZero() {
		return nil, false
	}
	return cond.Without(b, mask), true
}

// answered is what held before a packet was tracked.
func answered(cond pipeline.Match, a pipeline.Action) (pipeline.Match, bool) {
	var ok bool
	for i := len(a.Nested) - 1; i >= 0; i-- {
		if cond, ok = undone(cond, a.Nested[i]); !ok {
			return nil, false
		}
	}
	for _, t := range walk.Translation(a.Track.NAT) {
		if cond, ok = written(cond, t.Base, t.Value, t.Mask); !ok {
			return nil, false
		}
	}
	state := cond.Get(pipeline.CTState)
	if len(fitting(state)) == 0 {
		return nil, false
	}
	if cond, ok = zoned(cond, a.Track); !ok {
		return nil, false
	}
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		cond = cond.Without(b, all())
	}
	return cond, true
}

// zoned is what held before a zone was asked, if a condition says which.
func zoned(cond pipeline.Match, k *pipeline.Track) (pipeline.Match, bool) {
	const whole = 0xffff
	want := cond.Get(pipeline.CTZone)
	if k.From.Field == nil {
		return written(cond, pipeline.CTZone, pipeline.Value{Lo: uint64(k.Zone)}, pipeline.Value{Lo: whole})
	}
	to := func(v pipeline.Value) pipeline.Value { return v.Left(k.From.Shift()).And(k.From.Mask()) }
	if want.Mask.IsZero() {
		return cond, true
	}
	from := pipeline.Match{{Base: k.From.Field.Base, Value: to(want.Value), Mask: to(want.Mask)}}
	if !cond.Meets(from) {
		return nil, false
	}
	return cond.And(from), true
}

// undone is what held before an action.
func undone(cond pipeline.Match, a pipeline.Action) (pipeline.Match, bool) {
	ok := true
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta:
		at := a.Dst.Shift()
		return written(cond, a.Dst.Field.Base, a.Value.Left(at), a.Mask.Left(at).And(a.Dst.Mask()))
	case pipeline.Move:
		t := cond.Get(a.Dst.Field.Base)
		mask, value := t.Mask.And(a.Dst.Mask()), t.Value.And(a.Dst.Mask())
		cond = cond.Without(a.Dst.Field.Base, a.Dst.Mask())
		to := func(v pipeline.Value) pipeline.Value { return v.Right(a.Dst.Shift()).Left(a.Src.Shift()) }
		if mask.IsZero() {
			return cond, true
		}
		src := pipeline.Match{{Base: a.Src.Field.Base, Value: to(value), Mask: to(mask)}}
		if !cond.Meets(src) {
			return nil, false
		}
		return cond.And(src), true
	case pipeline.Pop:
		return cond.Without(a.Dst.Field.Base, a.Dst.Mask()), true
	case pipeline.SetTunnel, "set_tunnel64":
		return written(cond, pipeline.TunID, pipeline.Value{Lo: a.N}, all())
	case "mod_dl_src":
		return written(cond, pipeline.EthSrc, pipeline.Value{Lo: a.N}, all())
	case "mod_dl_dst":
		return written(cond, pipeline.EthDst, pipeline.Value{Lo: a.N}, all())
	case "mod_nw_src":
		return written(cond, pipeline.NWSrc, pipeline.Value{Lo: a.N}, all())
	case "mod_nw_dst":
		return written(cond, pipeline.NWDst, pipeline.Value{Lo: a.N}, all())
	case pipeline.CT, pipeline.CTClear:
		for b := pipeline.CTState; b <= pipeline.CTTPDst && ok; b++ {
			cond, ok = written(cond, b, pipeline.Value{}, all())
		}
	case pipeline.CheckLarger:
		cond = cond.Without(a.Dst.Field.Base, a.Dst.Mask())
	case pipeline.PopVLAN, pipeline.StripVLAN, pipeline.PushVLAN, pipeline.ModVLANVID, pipeline.SetVLANVID:
		cond = cond.Without(pipeline.VLAN, all())
	}
	return cond, ok
}
