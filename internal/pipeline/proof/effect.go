package proof

import (
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// silent reports whether an action only changes the packet, or nothing.
func silent(k pipeline.Kind) bool {
	switch k {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta, pipeline.Move, pipeline.Push, pipeline.Pop,
		pipeline.DeleteField, pipeline.SetTunnel, "set_tunnel64", pipeline.PushVLAN, pipeline.PopVLAN, pipeline.StripVLAN,
		pipeline.ModVLANVID, pipeline.ModVLANPCP, pipeline.SetVLANVID, pipeline.SetVLANPCP, pipeline.CTClear,
		pipeline.NoteAction, pipeline.FinTimeout, "debug_slow", pipeline.ClearActions, pipeline.WriteActions:
		return true
	}
	return len(modified(k)) > 0
}

// modified are the bases that actions of OpenFlow 1.0 write.
func modified(k pipeline.Kind) []pipeline.Base {
	switch k {
	case "mod_dl_src":
		return []pipeline.Base{pipeline.EthSrc}
	case "mod_dl_dst":
		return []pipeline.Base{pipeline.EthDst}
	case "mod_nw_src":
		return []pipeline.Base{pipeline.NWSrc}
	case "mod_nw_dst":
		return []pipeline.Base{pipeline.NWDst}
	case "mod_nw_tos", "mod_nw_ecn":
		return []pipeline.Base{pipeline.NWTOS}
	case "mod_nw_ttl":
		return []pipeline.Base{pipeline.NWTTL}
	case "mod_tp_src":
		return []pipeline.Base{pipeline.TPSrc}
	case "mod_tp_dst":
		return []pipeline.Base{pipeline.TPDst}
	case pipeline.PushVLAN, pipeline.PopVLAN, pipeline.StripVLAN, pipeline.ModVLANVID, pipeline.ModVLANPCP,
		pipeline.SetVLANVID, pipeline.SetVLANPCP:
		return []pipeline.Base{pipeline.VLAN}
	}
	return nil
}

// constant is the bits that an action writes whatever the packet is, and with what.
func constant(words *pipeline.Vocabulary, a pipeline.Action) (b pipeline.Base, v, mask pipeline.Value, ok bool) {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta:
		b, at := a.Dst.Field.Base, a.Dst.Shift()
		fixed := always(a.Dst.Field)
		mask = a.Mask.Left(at).And(a.Dst.Mask())
		return b, a.Value.Left(at).And(mask), mask, fixed
	case pipeline.SetTunnel, "set_tunnel64":
		return pipeline.TunID, pipeline.Value{Lo: a.N}, words.Full(pipeline.TunID), true
	case "mod_dl_src", "mod_dl_dst":
		b := modified(a.Kind)[0]
		return b, pipeline.Value{Lo: a.N}, words.Full(b), true
	}
	return 0, v, mask, false
}

// jointly carries out one silent action in both pipelines.
func (s *state) jointly(words *pipeline.Vocabulary, a pipeline.Action) {
	if b, v, mask, ok := constant(words, a); ok {
		s.write(true, b, v, mask)
		s.write(false, b, v, mask)
		s.dirty = s.dirty.Without(b, mask)
		s.wrote(b)
		return
	}
	switch a.Kind {
	case pipeline.Move:
		s.move(true, a)
		s.move(false, a)
		dirty := s.reads().Get(a.Src.Field.Base).Mask.And(a.Src.Mask()).Right(a.Src.Shift()).Left(a.Dst.Shift())
		if always(a.Dst.Field) {
			s.dirty = s.dirty.Without(a.Dst.Field.Base, a.Dst.Mask())
		}
		s.mark(a.Dst.Field.Base, dirty)
		s.uncertain(a.Dst.Field, a.Src.Field)
		s.wrote(a.Dst.Field.Base)
	case pipeline.Push:
		if !s.reads().Get(a.Dst.Field.Base).Mask.And(a.Dst.Mask()).IsZero() {
			s.stackDirty = true
		}
	case pipeline.Pop:
		b := a.Dst.Field.Base
		s.a, s.b = s.a.Without(b, all()), s.b.Without(b, all())
		if s.stackDirty {
			s.mark(b, a.Dst.Mask())
		}
		s.wrote(b)
	case pipeline.CTClear:
		s.clearBoth()
	case pipeline.NoteAction, pipeline.FinTimeout, "debug_slow":
	case pipeline.ClearActions, pipeline.WriteActions: // setA and setB are the caller's
	default:
		for _, b := range written(a) {
			s.a, s.b = s.a.Without(b, all()), s.b.Without(b, all())
			if !s.headerAlike() {
				s.mark(b, words.Full(b))
			}
			s.wrote(b)
		}
	}
}

// clearBoth is ct_clear in both. After a clone or a group a switch may think that the packet
// is clear already, and leave it as it is: then it is not known, but alike.
func (s *state) clearBoth() {
	if s.forked && s.askedA == s.askedB {
		s.forgetAnswer(true)
		s.forgetAnswer(false)
		if s.askedA != never {
			s.askedA, s.askedB = "perhaps cleared", "perhaps cleared"
		}
		return
	}
	s.clear(true)
	s.clear(false)
}

// clear is ct_clear in one.
func (s *state) clear(inA bool) {
	asked, name := &s.askedA, "perhaps cleared, in A"
	if !inA {
		asked, name = &s.askedB, "perhaps cleared, in B"
	}
	if *asked == never || !s.forked {
		s.untrack(inA)
		return
	}
	*asked = name
	s.forgetAnswer(inA)
}

func (s *state) forgetAnswer(inA bool) {
	m := &s.a
	if !inA {
		m = &s.b
	}
	if s.askedA == never && s.askedB == never {
		return
	}
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		*m = m.Without(b, all())
	}
}

// always reports whether each packet has a field, so that it is written whatever the packet is.
func always(f *pipeline.Field) bool {
	return f.Base != pipeline.VLAN && f.Held(func(pipeline.Base) pipeline.Value { return pipeline.Value{} })
}

// uncertain marks a field whose writing depends on what the packet is, where that differs.
func (s *state) uncertain(fields ...*pipeline.Field) {
	for _, f := range fields {
		if !always(f) {
			s.a, s.b = s.a.Without(fields[0].Base, all()), s.b.Without(fields[0].Base, all())
			if !s.headerAlike() {
				s.mark(fields[0].Base, all())
			}
		}
	}
}

// written are the bases that an action may write.
func written(a pipeline.Action) []pipeline.Base {
	if a.Kind != pipeline.Push && a.Dst.Field != nil {
		return []pipeline.Base{a.Dst.Field.Base}
	}
	return modified(a.Kind)
}

// wrote notes that the header, if the base is of it, is another.
func (s *state) wrote(b pipeline.Base) {
	if walk.Header(b) {
		s.rewritten()
	}
}

// alone carries out a silent action in one pipeline.
func (s *state) alone(words *pipeline.Vocabulary, inA bool, a pipeline.Action) {
	if b, v, mask, ok := constant(words, a); ok {
		s.write(inA, b, v, mask)
		s.mark(b, mask)
		if walk.Header(b) {
			s.apart(inA)
		}
		s.settle()
		return
	}
	switch a.Kind {
	case pipeline.CTClear:
		s.clear(inA)
	case pipeline.Push, pipeline.Pop:
		s.stackDirty = true
		if a.Kind == pipeline.Pop {
			s.lose(inA, words, a)
		}
	case pipeline.Move:
		s.move(inA, a)
		s.mark(a.Dst.Field.Base, a.Dst.Mask())
		s.uncertain(a.Dst.Field, a.Src.Field)
		if walk.Header(a.Dst.Field.Base) {
			s.apart(inA)
		}
		s.settle()
	case pipeline.NoteAction, pipeline.FinTimeout, "debug_slow", pipeline.ClearActions, pipeline.WriteActions:
	default:
		s.lose(inA, words, a)
	}
}

// lose has what an action writes in one pipeline not be known.
func (s *state) lose(inA bool, words *pipeline.Vocabulary, a pipeline.Action) {
	for _, b := range written(a) {
		if inA {
			s.a = s.a.Without(b, all())
		} else {
			s.b = s.b.Without(b, all())
		}
		s.mark(b, words.Full(b))
		if walk.Header(b) {
			s.apart(inA)
		}
	}
}

// apart notes that one side's header is no longer the one which the tracker was asked about.
func (s *state) apart(inA bool) {
	switch {
	case inA && s.askedA != never:
		s.askedA = "before, in A"
	case !inA && s.askedB != never:
		s.askedB = "before, in B"
	}
}

// move copies what is known of bits.
func (s *state) move(inA bool, a pipeline.Action) {
	m := &s.a
	if !inA {
		m = &s.b
	}
	src := m.Get(a.Src.Field.Base)
	if b := a.Src.Field.Base; (b == pipeline.TPSrc || b == pipeline.TPDst) && !unfragmented(*m) {
		src = pipeline.Term{} // lookups of fragments see no ports
	}
	to := func(v pipeline.Value) pipeline.Value {
		return v.And(a.Src.Mask()).Right(a.Src.Shift()).Left(a.Dst.Shift())
	}
	out := m.Without(a.Dst.Field.Base, a.Dst.Mask())
	if mask := to(src.Mask); !mask.IsZero() {
		out = out.With(a.Dst.Field.Base, to(src.Value).And(mask), mask)
	}
	*m = out
}
