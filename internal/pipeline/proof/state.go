package proof

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// pair is what is known of a packet in both pipelines at once: of the one in A, and of the
// one in B. Bits that are not dirty are the same in both, and known of both alike.
type pair struct {
	a, b pipeline.Match
	// not is what it is not, in both.
	not []pipeline.Match
	// trail is the flows that took it.
	trail *trail
}

// meets adds what a match wants to one side, and of bits that are not dirty to the other;
// false if it cannot be.
func (c pair) meets(inA bool, m pipeline.Match, dirty pipeline.Match) (pair, bool) {
	own, other := c.a, c.b
	if !inA {
		own, other = other, own
	}
	if !own.Meets(m) {
		return c, false
	}
	clean := m
	if len(dirty) > 0 {
		clean = nil
		for _, t := range m {
			if t.Mask = t.Mask.Without(dirty.Get(t.Base).Mask); !t.Mask.IsZero() {
				t.Value = t.Value.And(t.Mask)
				clean = append(clean, t)
			}
		}
	}
	if !other.Meets(clean) {
		return c, false
	}
	if len(dirty) == 0 && identical(own, other) {
		own = own.And(m)
		other = own
	} else {
		own, other = own.And(m), other.And(clean)
	}
	if t := own.Get(pipeline.CTState); !m.Get(pipeline.CTState).Mask.IsZero() && !answerable(t.Value.Lo, t.Mask.Lo) {
		return c, false
	}
	if !inA {
		own, other = other, own
	}
	return pair{own, other, c.not, c.trail}, true
}

// identical reports whether two matches are one in memory.
func identical(m, n pipeline.Match) bool {
	return len(m) == len(n) && (len(m) == 0 || &m[0] == &n[0])
}

// answerable reports whether a tracker answers so, or a packet that it has not had is so.
func answerable(v, mask uint64) bool {
	const more = walk.New | walk.Established | walk.Related | walk.Reply
	switch {
	case mask&walk.Tracked != 0 && v&walk.Tracked == 0:
		return v == 0
	case v&walk.Invalid != 0:
		return v&more == 0
	}
	return v&walk.New == 0 || v&(walk.Established|walk.Reply) == 0
}

// common is what two matches both know.
func common(m, n pipeline.Match) (out pipeline.Match) {
	for _, t := range m {
		o := n.Get(t.Base)
		mask := t.Mask.And(o.Mask).Without(t.Value.Xor(o.Value))
		if !mask.IsZero() {
			out = append(out, pipeline.Term{Base: t.Base, Value: t.Value.And(mask), Mask: mask})
		}
	}
	return out
}

// state is where a packet may be in both pipelines, and how it may differ.
type state struct {
	pair
	// dirty are bits that may differ; only masks count.
	dirty pipeline.Match
	// askedA and askedB name the questions to the tracker that the ct_* bits answer.
	askedA, askedB string
	// passedA and passedB say whether the tracker has had the packet, which reassembles
	// fragments.
	passedA, passedB bool
	// stackDirty: what pop takes may differ.
	stackDirty bool
	// setA and setB are the action sets.
	setA, setB string
	// forked: other copies of the packet are under way, so that another pass of this one
	// would change the order in which they leave.
	forked bool
}

// never is the name of no question.
const never = ""

// mark says that bits may differ from now on.
func (s *state) mark(b pipeline.Base, mask pipeline.Value) {
	if !mask.IsZero() {
		s.dirty = s.dirty.With(b, pipeline.Value{}, mask)
	}
}

// fragment are the bases that the tracker's reassembly changes.
func fragment() []pipeline.Base {
	return []pipeline.Base{pipeline.NWFrag, pipeline.TPSrc, pipeline.TPDst, pipeline.TCPFlags}
}

// unfragmented reports whether a packet is known to be no fragment.
func unfragmented(m pipeline.Match) bool {
	t := m.Get(pipeline.NWFrag)
	return t.Mask.Lo&1 == 1 && t.Value.Lo&1 == 0
}

func all() pipeline.Value { return pipeline.Value{Hi: ^uint64(0), Lo: ^uint64(0)} }

// reads are the bits that a match finds to differ: the dirty ones, those of different
// answers of the tracker, and those of fragments where it has had only one of the two.
func (s *state) reads() pipeline.Match {
	out := slices.Clone(s.dirty)
	if s.askedA != s.askedB {
		for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
			out = out.With(b, pipeline.Value{}, all())
		}
	}
	if s.passedA != s.passedB {
		for _, b := range fragment() {
			out = out.With(b, pipeline.Value{}, all())
		}
	}
	return out
}

// settle has bits that both sides know to be the same be clean.
func (s *state) settle() {
	var out pipeline.Match
	for _, t := range s.dirty {
		x, y := s.a.Get(t.Base), s.b.Get(t.Base)
		same := x.Mask.And(y.Mask).Without(x.Value.Xor(y.Value))
		if t.Mask = t.Mask.Without(same); !t.Mask.IsZero() {
			out = append(out, t)
		}
	}
	s.dirty = out
}

// leavesAlike reports whether a packet that leaves both is the same.
func (s *state) leavesAlike() bool {
	for _, t := range s.dirty {
		if walk.Leaves(t.Base) || t.Base == pipeline.InPort {
			return false
		}
	}
	return true
}

// headerAlike reports whether the packet's own header is the same in both.
func (s *state) headerAlike() bool {
	for _, t := range s.dirty {
		if walk.Header(t.Base) {
			return false
		}
	}
	return true
}

// same reports whether nothing of the two packets differs.
func (s *state) same() bool {
	return len(s.dirty) == 0 && s.askedA == s.askedB && s.passedA == s.passedB && !s.stackDirty && s.setA == s.setB
}

// write puts a value that is known into bits of one side.
func (s *state) write(inA bool, b pipeline.Base, v, mask pipeline.Value) {
	m := &s.a
	if !inA {
		m = &s.b
	}
	*m = m.Without(b, mask).With(b, v.And(mask), mask)
}

// untrack clears the ct_* bits of one side.
func (s *state) untrack(inA bool) {
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		s.write(inA, b, pipeline.Value{}, all())
	}
	if inA {
		s.askedA = never
	} else {
		s.askedB = never
	}
}

// track has the ct_* bits of one side be the answer to the question.
func (s *state) track(inA bool, question string) {
	m := &s.a
	if !inA {
		m = &s.b
	}
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		*m = m.Without(b, all())
	}
	if !unfragmented(*m) {
		for _, b := range fragment() {
			*m = m.Without(b, all())
		}
	}
	*m = m.With(pipeline.CTState, pipeline.Value{Lo: walk.Tracked}, pipeline.Value{Lo: walk.Tracked})
	if inA {
		s.askedA, s.passedA = question, true
	} else {
		s.askedB, s.passedB = question, true
	}
	if s.askedA == s.askedB { // the same answer: what is known of one is of both
		for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
			both(s, b)
		}
	}
}

// both shares what is known of a base.
func both(s *state, b pipeline.Base) {
	if t := s.a.Get(b); !t.Mask.IsZero() && s.b.Meets(pipeline.Match{t}) {
		s.b = s.b.With(b, t.Value, t.Mask)
	}
	if t := s.b.Get(b); !t.Mask.IsZero() && s.a.Meets(pipeline.Match{t}) {
		s.a = s.a.With(b, t.Value, t.Mask)
	}
}

// rewritten says that the header is another than the one which the tracker was asked about.
func (s *state) rewritten() {
	switch {
	case s.askedA == never && s.askedB == never:
	case s.askedA == s.askedB:
		s.askedA, s.askedB = "before", "before"
	default:
		if s.askedA != never {
			s.askedA = "before, in A"
		}
		if s.askedB != never {
			s.askedB = "before, in B"
		}
	}
}
