package proof

import "pathwise.dev/pathwise/internal/pipeline"

// untold reports whether an action decrements the TTL, and tells no controller where it runs out: then it ends the
// list, and that is all.
func untold(a *pipeline.Action) bool { return a.Kind == pipeline.DecTTL && a.Text == "dec_ttl()" }

// expired is packets whose TTL runs out when it is decremented.
func expired() pipeline.Match {
	const above = 0xfe // 0 and 1 run out
	return pipeline.Match{{Base: pipeline.NWTTL, Mask: pipeline.Value{Lo: above}}}
}

// own is what is known of the packet in one pipeline.
func (s *state) own(inA bool) pipeline.Match {
	if inA {
		return s.a
	}
	return s.b
}

// ip reports whether the packet is known to be one of IP, which alone have a TTL.
func (s *state) ip(inA bool) bool {
	const v4, v6, whole = 0x0800, 0x86dd, 0xffff
	t := s.own(inA).Get(pipeline.EthType)
	return t.Mask.Lo == whole && (t.Value.Lo == v4 || t.Value.Lo == v6)
}

// endsUntold reports whether an action ends a list of one pipeline, as the packet's TTL runs out, and nobody is told.
func (s *state) endsUntold(inA bool, a *pipeline.Action) bool {
	return untold(a) && s.ip(inA) && expired().Covers(s.own(inA))
}

// mayEndUntold reports whether it may.
func (s *state) mayEndUntold(inA bool, a *pipeline.Action) bool { return untold(a) && s.ip(inA) }

// endsOne goes on with those packets whose TTL runs out in one pipeline, whose list ends.
func (l *lockstep) endsOne(s *state, inA bool, c, other cursor) {
	out, ok := s.meets(inA, expired(), s.reads())
	if !ok {
		return
	}
	next := *s
	next.pair = out
	if c = cursorOf(c.cont); inA {
		l.lists(&next, c, other)
	} else {
		l.lists(&next, other, c)
	}
}

// decrement has the TTL be another in one pipeline.
func (s *state) decrement(inA bool) {
	m := &s.a
	if !inA {
		m = &s.b
	}
	*m = m.Without(pipeline.NWTTL, all())
	s.mark(pipeline.NWTTL, pipeline.Value{Lo: 0xff})
	s.apart(inA)
}
