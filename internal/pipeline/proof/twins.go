package proof

import "pathwise.dev/pathwise/internal/pipeline"

// named has few questions be told apart in two places, where both packets have the answer to the
// same one: of others it is known only that it is the same.
func (l *lockstep) named(s *state, a, b place) *state {
	const most = 6
	if s.askedA != s.askedB || s.askedA == never {
		return s
	}
	k := [2]place{a, b}
	if l.names[k] == nil {
		l.names[k] = map[string]bool{}
	}
	if len(l.names[k]) < most {
		l.names[k][s.askedA] = true
	}
	if l.names[k][s.askedA] {
		return s
	}
	next := *s
	next.askedA, next.askedB = "the same", "the same"
	return &next
}

// twins reports whether packets are the same and are to go the same way, but for flows that the
// two have not in common.
func (l *lockstep) twins(s *state, a, b place) bool {
	if !s.same() || !a.look || !b.look || a.table != b.table || a.port != b.port {
		return false
	}
	x, y := a.cont, b.cont
	for x != nil && y != nil {
		if x.in != y.in || l.a.PrintActions(x.rest) != l.b.PrintActions(y.rest) || !l.groupsAlike(x) {
			return false
		}
		x, y = x.next, y.next
	}
	return x == y
}

// settled reports whether nothing is to be shown: the packets are the same, and so is all
// that they may meet.
func (l *lockstep) settled(s *state, a, b place) bool {
	if !l.alike[a.table] || !l.twins(s, a, b) {
		return false
	}
	for x := a.cont; x != nil; x = x.next {
		if !l.leadsAlike(x) {
			return false
		}
	}
	return true
}

func (l *lockstep) leadsAlike(c *cont) bool {
	ways, sure := l.a.Jumps(c.rest, c.in)
	for _, j := range ways {
		sure = sure && l.alike[j.To]
	}
	return sure
}

// groupsAlike reports whether the groups that are left to do are the same.
func (l *lockstep) groupsAlike(c *cont) bool {
	same := true
	l.a.Each(c.rest, func(a pipeline.Action) {
		if a.Kind == pipeline.GroupAction {
			same = same && sameGroup(l.a, l.b, uint32(a.N))
		}
	})
	return same
}
