package proof

import (
	"fmt"

	"pathwise.dev/pathwise/internal/pipeline"
)

// cursor is what is left of a list of actions, and what comes after.
type cursor struct {
	rest []pipeline.Action
	in   pipeline.Table
	cont *cont
}

func cursorOf(c *cont) cursor { return cursor{cont: c}.ready() }

// ready goes on to the next list where one has come to its end.
func (c cursor) ready() cursor {
	for len(c.rest) == 0 && c.cont != nil {
		c = cursor{c.cont.rest, c.cont.in, c.cont.next}
	}
	return c
}

func (c cursor) done() bool { return len(c.rest) == 0 }

func (c cursor) head() *pipeline.Action { return &c.rest[0] }

func (c cursor) next() cursor { return cursor{c.rest[1:], c.in, c.cont}.ready() }

// last reports whether nothing comes after the next action.
func (c cursor) last() bool { return c.next().done() }

// backNext reports whether nothing comes after the next action but to go back.
func (c cursor) backNext() bool {
	next := c.next()
	return next.done() || next.head().Kind == goBack
}

// waits is the place of a packet whose next action is the cursor's.
func (s *side) waits(c cursor) place { return place{cont: s.then(c.rest, c.in, c.cont)} }

// jumps is where an action leads that is not observed, if it does.
func (l *lockstep) jumps(st *state, s *side, c cursor) (p place, tracks, ok bool) {
	if c.done() {
		return p, false, false
	}
	a := c.head()
	switch a.Kind {
	case pipeline.Resubmit, pipeline.Goto:
		if a.Original {
			return p, false, false
		}
		p = place{look: true, table: a.Table, port: noPort, cont: s.then(c.rest[1:], c.in, c.cont)}
		if a.Kind == pipeline.Resubmit {
			p.port = a.Port
			if a.Table == pipeline.NoTable {
				p.table = c.in
			}
		}
		return p, false, true
	case pipeline.CT:
		if l.quiet(*a) && a.Track.Table != pipeline.NoTable && (c.last() && !st.forked || l.dive != nil && c.backNext()) {
			return place{look: true, table: a.Track.Table, port: noPort}, true, true
		}
	}
	return p, false, false
}

// ahead carries out actions in one pipeline, up to what is observed, while the packet waits
// in the other.
func (l *lockstep) ahead(s *state, inA bool, c cursor, other place) {
	own := l.side(inA)
	add := func(p place) {
		if inA {
			l.add(s, p, other)
		} else {
			l.add(s, other, p)
		}
	}
	for c = c.ready(); !c.done(); c = c.next() {
		a := c.head()
		s.after(a)
		if p, tracks, ok := l.jumps(s, own, c); ok {
			if tracks {
				s.track(inA, l.question(s, inA, a))
			}
			if inA {
				s.trail = l.dive.led(s.trail, a, nil)
			} else {
				s.trail = l.dive.led(s.trail, nil, a)
			}
			add(p)
			return
		}
		switch {
		case a.Kind == pipeline.Exit:
			add(place{})
			return
		case silent(a.Kind) || a.Kind == pipeline.CTClear:
			s.alone(own.Words, inA, *a)
			s.collect(own, inA, a)
		case l.quiet(*a) && a.Track.Table == pipeline.NoTable:
			s.untrack(inA)
		case s.nowhere(inA, c):
		default:
			add(own.waits(c))
			return
		}
	}
	add(place{})
}

// collect keeps the action set.
func (s *state) collect(own *side, inA bool, a *pipeline.Action) {
	set := &s.setA
	if !inA {
		set = &s.setB
	}
	switch a.Kind {
	case pipeline.ClearActions:
		*set = ""
	case pipeline.WriteActions:
		*set += own.text(a)
	default:
		return
	}
	s.a, s.b = s.a.Without(pipeline.ActsetOutput, all()), s.b.Without(pipeline.ActsetOutput, all())
	if s.setA != s.setB {
		s.mark(pipeline.ActsetOutput, own.Words.Full(pipeline.ActsetOutput))
	}
}

// question names what the tracker is asked: equal for two that are asked about the same.
func (l *lockstep) question(s *state, inA bool, a *pipeline.Action) string {
	t := a.Track
	zone, clean := fmt.Sprint(t.Zone), true
	if t.From.Field != nil {
		zone, clean = s.known(inA, t.From)
	}
	own := l.side(inA)
	name := fmt.Sprintf("zone %s %s %s %v", zone, t.NAT, own.PrintActions(a.Nested), t.Force)
	for _, n := range a.Nested {
		if n.Src.Field != nil && touches(pipeline.Match{{Base: n.Src.Field.Base, Mask: n.Src.Mask()}}, s.reads()) {
			clean = false
		}
	}
	if !clean || !s.headerAlike() {
		name += map[bool]string{true: ", in A", false: ", in B"}[inA]
	}
	return name
}

// known is what bits of a field are, as text, and whether it says the same in both.
func (s *state) known(inA bool, f pipeline.Subfield) (text string, clean bool) {
	m := s.a
	if !inA {
		m = s.b
	}
	t := m.Get(f.Field.Base)
	if f.Mask().Without(t.Mask).IsZero() {
		v := t.Value.And(f.Mask()).Right(f.Shift())
		return fmt.Sprint(v.Lo), v.Hi == 0
	}
	text = fmt.Sprintf("%s[%d..%d]", f.Field.Name, f.Start, f.Start+f.Bits-1)
	return text, !touches(pipeline.Match{{Base: f.Field.Base, Mask: f.Mask()}}, s.reads())
}

// lists carries out actions in both.
func (l *lockstep) lists(s *state, ca, cb cursor) {
	for {
		ca, cb = ca.ready(), cb.ready()
		l.steps++
		if ca.done() && cb.done() {
			l.ends(s)
			return
		}
		if s.nowhere(true, ca) {
			ca = ca.next()
			continue
		}
		if s.nowhere(false, cb) {
			cb = cb.next()
			continue
		}
		if !ca.done() && !cb.done() && l.a.text(ca.head()) == l.b.text(cb.head()) {
			s.after(ca.head())
			goOn, handled := l.joint(s, ca, cb)
			if handled {
				if !goOn {
					return
				}
				ca, cb = ca.next(), cb.next()
				continue
			}
		}
		switch {
		case !ca.done() && silent(ca.head().Kind):
			s.after(ca.head())
			s.alone(l.a.Words, true, *ca.head())
			s.collect(l.a, true, ca.head())
			ca = ca.next()
		case !cb.done() && silent(cb.head().Kind):
			s.after(cb.head())
			s.alone(l.b.Words, false, *cb.head())
			s.collect(l.b, false, cb.head())
			cb = cb.next()
		default:
			var goOn bool
			if ca, cb, goOn = l.differing(s, ca, cb); !goOn {
				return
			}
		}
	}
}

// nowhere reports whether the next action sends the packet to the port that it came from, which is
// nothing.
func (s *state) nowhere(inA bool, c cursor) bool {
	if c.done() || c.head().Kind != pipeline.Output || c.head().Src.Field != nil || c.head().Port >= pipeline.PortMax {
		return false
	}
	m := s.a
	if !inA {
		m = s.b
	}
	const whole = 0xffff // a switch has no others below PortMax
	in := m.Get(pipeline.InPort)
	return in.Mask.Lo&whole == whole && in.Value.Lo == uint64(c.head().Port)
}

// differing goes on where the next actions are not the same.
func (l *lockstep) differing(s *state, ca, cb cursor) (cursor, cursor, bool) {
	for _, c := range []cursor{ca, cb} {
		if !c.done() {
			s.after(c.head())
		}
	}
	pa, tracksA, jumpsA := l.jumps(s, l.a, ca)
	pb, tracksB, jumpsB := l.jumps(s, l.b, cb)
	if jumpsA || jumpsB {
		l.jump(s, jumper{pa, ca, tracksA, jumpsA}, jumper{pb, cb, tracksB, jumpsB})
		return ca, cb, false
	}
	if !ca.done() && !cb.done() {
		a, b := ca.head(), cb.head()
		if a.Kind == pipeline.CT && b.Kind == pipeline.CT && l.ctBut(a, b) {
			return ca.next(), cb.next(), l.trackBoth(s, ca, cb)
		}
		if l.sameOutput(s, a, b) {
			return ca.next(), cb.next(), true
		}
	}
	for _, inA := range []bool{true, false} {
		c, other := ca, cb
		if !inA {
			c, other = cb, ca
		}
		next, ok := l.pass(s, inA, c, other)
		switch {
		case ok && inA:
			return next, cb, true
		case ok:
			return ca, next, true
		}
	}
	l.differ(s, ca, cb, "one does what the other does not")
	return ca, cb, false
}

// jumper is one side where at least one goes on elsewhere: to is where it does, and tracks that a connection tracker is
// asked before.
type jumper struct {
	to            place
	at            cursor
	tracks, jumps bool
}

// jump has the sides go on elsewhere, or wait for the other one there.
func (l *lockstep) jump(s *state, a, b jumper) {
	var qa, qb string // both before either: what is asked is about the packet as it is
	if a.tracks {
		qa = l.question(s, true, a.at.head())
	}
	if b.tracks {
		qb = l.question(s, false, b.at.head())
	}
	if a.tracks {
		s.track(true, qa)
	}
	if b.tracks {
		s.track(false, qb)
	}
	var viaA, viaB *pipeline.Action
	if a.jumps {
		viaA = a.at.head()
	} else {
		a.to = l.a.waits(a.at)
	}
	if b.jumps {
		viaB = b.at.head()
	} else {
		b.to = l.b.waits(b.at)
	}
	s.trail = l.dive.led(s.trail, viaA, viaB)
	l.add(s, a.to, b.to)
}

// pass has one side do what the other one need not do, or may do later. It reports whether there is such an action.
func (l *lockstep) pass(s *state, inA bool, c, other cursor) (next cursor, ok bool) {
	if c.done() {
		return c, false
	}
	switch a := c.head(); {
	case a.Kind == pipeline.Clone && !l.uses[pipeline.Exit] && (other.done() || other.head().Kind != pipeline.Clone):
		l.copyOne(s, inA, c)
		return c.next(), true
	case a.Kind == pipeline.Exit:
		return cursor{}, true
	case l.quiet(*a) && a.Track.Table == pipeline.NoTable:
		s.untrack(inA)
		return c.next(), true
	case s.endsUntold(inA, a):
		return cursorOf(c.cont), true
	case s.mayEndUntold(inA, a):
		l.endsOne(s, inA, c, other)
		s.decrement(inA)
		return c.next(), true
	}
	return c, false
}

// differ notes that what comes next is not shown to be the same.
func (l *lockstep) differ(s *state, ca, cb cursor, why string) {
	var fa, fb *pipeline.Flow
	text := func(own *side, c cursor, f **pipeline.Flow) string {
		if c.done() {
			return "nothing more"
		}
		*f = own.owner[c.head()]
		return own.text(c.head())
	}
	x, y := text(l.a, ca, &fa), text(l.b, cb, &fb)
	l.obstacle(fa, fb, &s.pair, "%s: A %s, B %s", why, x, y)
}

// ctBut reports whether two ct() are the same but for the table.
func (l *lockstep) ctBut(a, b *pipeline.Action) bool {
	x, y := *a, *b
	tx, ty := *a.Track, *b.Track
	tx.Table, ty.Table = 0, 0
	x.Track, y.Track = &tx, &ty
	return l.a.PrintActions([]pipeline.Action{x}) == l.b.PrintActions([]pipeline.Action{y}) &&
		(a.Track.Table == pipeline.NoTable) == (b.Track.Table == pipeline.NoTable)
}

// sameOutput reports whether two outputs are to the same port, of packets that are alike.
func (l *lockstep) sameOutput(s *state, a, b *pipeline.Action) bool {
	port := func(inA bool, x *pipeline.Action) string {
		if x.Kind != pipeline.Output {
			return ""
		}
		if x.Src.Field == nil {
			return fmt.Sprint(uint32(x.Port))
		}
		text, clean := s.known(inA, x.Src)
		if !clean {
			return ""
		}
		return text
	}
	p := port(true, a)
	return p != "" && p == port(false, b) && s.leavesAlike()
}
