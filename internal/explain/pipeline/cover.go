package pipeline

// Covers reports whether each packet that n wants is one that m wants.
func (m Match) Covers(n Match) bool {
	for _, t := range m {
		o := n.Get(t.Base)
		if !t.Mask.Without(o.Mask).IsZero() || !t.Value.Xor(o.Value).And(t.Mask).IsZero() {
			return false
		}
	}
	return true
}

// Meets reports whether some packet is wanted by both.
func (m Match) Meets(n Match) bool {
	for i, j := 0, 0; i < len(m) && j < len(n); {
		switch {
		case m[i].Base < n[j].Base:
			i++
		case m[i].Base > n[j].Base:
			j++
		default:
			if !m[i].Value.Xor(n[j].Value).And(m[i].Mask).And(n[j].Mask).IsZero() {
				return false
			}
			i, j = i+1, j+1
		}
	}
	return true
}

// With is a match that wants a base's bits too; they must not contradict it.
func (m Match) With(b Base, value, mask Value) Match {
	out := append(make(Match, 0, len(m)+1), m...)
	out.set(b, value, mask)
	return out
}

// Less is the pieces of m that n does not want, no two of which meet. They are as many as
// bits that n wants and m leaves open.
func (m Match) Less(n Match) (out []Match) {
	if !m.Meets(n) {
		return []Match{m}
	}
	rest := m
	for _, t := range n {
		open := t.Mask.Without(m.Get(t.Base).Mask)
		for i := range 128 {
			if !open.Bit(i) {
				continue
			}
			bit := num(1).Left(i)
			out = append(out, rest.With(t.Base, t.Value.Xor(bit), bit))
			rest = rest.With(t.Base, t.Value, bit)
		}
	}
	return out
}

// Jump is a way from one flow into a table.
type Jump struct {
	To   Table
	Kind Kind
}

// Jumps lists where a list of actions leads, through groups too. Sure is false where there may
// be more: actions that were not understood, groups that are not known.
func (p *Pipeline) Jumps(list []Action, from Table) (out []Jump, sure bool) {
	sure = true
	var walk func([]Action, int)
	walk = func(list []Action, depth int) {
		for _, a := range list {
			switch a.Kind {
			case Resubmit:
				to := a.Table
				if to == NoTable {
					to = from
				}
				out = append(out, Jump{to, Resubmit})
			case Goto:
				out = append(out, Jump{a.Table, Goto})
			case CT:
				if a.Track.Table != NoTable {
					out = append(out, Jump{a.Track.Table, CT})
				}
			case GroupAction:
				g := p.Group(uint32(a.N))
				if g == nil || depth > nesting {
					sure = false
					continue
				}
				for _, b := range g.Buckets {
					walk(b.Actions, depth+1)
				}
			case Output:
				sure = sure && a.Port != PortTable
			case Unknown, Encap, Decap:
				sure = sure && a.Kind != Unknown
			}
			if a.Kind != CT {
				walk(a.Nested, depth+1)
			}
		}
	}
	walk(list, 0)
	return out, sure
}

// Group is the one of that number, or nil.
func (p *Pipeline) Group(id uint32) *Group {
	for _, g := range p.Groups {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// Each calls fn for all actions of a list, those inside others and in groups too.
func (p *Pipeline) Each(list []Action, fn func(Action)) { p.each(list, fn, 0) }

func (p *Pipeline) each(list []Action, fn func(Action), depth int) {
	if depth > nesting {
		return
	}
	for _, a := range list {
		fn(a)
		p.each(a.Nested, fn, depth+1)
		if a.Kind == GroupAction {
			if g := p.Group(uint32(a.N)); g != nil {
				for _, b := range g.Buckets {
					p.each(b.Actions, fn, depth+1)
				}
			}
		}
	}
}
