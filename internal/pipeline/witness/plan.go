package witness

import (
	"fmt"
	"hash/fnv"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// way is how a flow leads into a table: what it does before, and the action that leads there.
type way struct {
	flow *pipeline.Flow
	// before are the actions of each list that the way is in, outermost first. They are parts
	// of the flow's own lists: copies would grow with the square of a list's length.
	before [][]pipeline.Action
	jump   *pipeline.Action
}

// backwards are the actions before a way, last first.
func (w *way) backwards(yield func(*pipeline.Action) bool) {
	for _, list := range slices.Backward(w.before) {
		for i := range slices.Backward(list) {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// step is a lookup that is planned: in which table, and the flow that is to take the packet,
// unless it is the fork. via is the action that leads there, nil if any may that leads into the table.
type step struct {
	table pipeline.Table
	flow  *pipeline.Flow
	fork  bool
	via   *pipeline.Action
}

// into are the ways into each table.
func (m *Maker) into() map[pipeline.Table][]way {
	if m.waysInto == nil {
		m.waysInto = map[pipeline.Table][]way{}
		for _, f := range m.p.Flows {
			m.lead(f, nil, f.Actions, 0)
		}
	}
	return m.waysInto
}

// lead notes the ways of a list of actions, after those before it.
func (m *Maker) lead(f *pipeline.Flow, before [][]pipeline.Action, list []pipeline.Action, depth int) {
	const deepest = 4
	for i := range list {
		a, upTo := &list[i], append(slices.Clip(before), list[:i])
		switch a.Kind {
		case pipeline.Resubmit, pipeline.Goto:
			to := a.Table
			if to == pipeline.NoTable {
				to = f.Table
			}
			m.waysInto[to] = append(m.waysInto[to], way{f, upTo, a})
		case pipeline.CT:
			if a.Track.Table != pipeline.NoTable {
				m.waysInto[a.Track.Table] = append(m.waysInto[a.Track.Table], way{f, upTo, a})
			}
		case pipeline.Clone:
			if depth < deepest {
				m.lead(f, upTo, a.Nested, depth+1)
			}
		case pipeline.GroupAction:
			if g := m.p.Group(uint32(a.N)); g != nil && depth < deepest {
				for _, b := range g.Buckets {
					m.lead(f, upTo, b.Actions, depth+1)
				}
			}
		}
	}
}

// planner looks for a way backwards.
type planner struct {
	*Maker
	fork Fork
	// forked is the fork as a key.
	forked string
	// from are the tables that the fork's flow leads to.
	from   map[pipeline.Table]bool
	failed map[string]bool
	budget int
	mays   map[pipeline.Table]may
	// modest says that ways are tried first that ask for little, direct those from tables that
	// packets soon come to.
	modest, direct bool
	// pieces says that the packet is a fragment, of which the tracker makes a whole one.
	pieces bool
	// cut says that a way became too long to be followed.
	cut bool
	// entry is what the packet must be as it comes, once a way was found.
	entry pipeline.Match
}

// plan is the lookups that lead a packet to a fork, and often on to a flow that is observed, or
// that reads some of the bits.
func (p *planner) plan(k Fork, reads pipeline.Match) ([]step, bool) {
	m, budget := p.Maker, p.budget
	p.fork, p.forked = k, k.key()
	if goals := m.goals(k, reads); len(goals) > 0 && m.random.IntN(4) > 0 {
		p.from = m.after(k.Flow)
		const tries = 3
		for range tries {
			f := goals[m.random.IntN(len(goals))]
			if cond, ok := m.asks(f, nil); ok {
				p.budget = budget
				if steps, via, ok := p.back(f.Table, cond, false, 0); ok {
					return append(steps, step{table: f.Table, flow: f, via: via}), true
				}
			}
		}
	}
	cond, ok := k.asks(nil)
	if !ok {
		return nil, false
	}
	p.budget = budget
	steps, via, ok := p.back(k.Table, cond, true, 0)
	return append(steps, step{table: k.Table, fork: true, via: via}), ok
}

// asks is a condition and what a fork wants.
func (k Fork) asks(cond pipeline.Match) (pipeline.Match, bool) {
	for _, m := range k.Wants {
		if !cond.Meets(m) {
			return nil, false
		}
		cond = cond.And(m)
	}
	return cond, true
}

// key is what plans have of a fork, as a key.
func (k Fork) key() string {
	b := fmt.Appendf(nil, "%d ", k.Table)
	if k.Flow != nil {
		b = fmt.Appendf(b, "%d ", k.Flow.Line)
	}
	for _, m := range k.Wants {
		b = m.AppendKey(append(b, ' '), func(t pipeline.Term) pipeline.Value { return t.Mask })
		b = m.AppendKey(b, func(t pipeline.Term) pipeline.Value { return t.Value })
	}
	return string(b)
}

// digest is a key in little memory. Two that have the same cost a plan at most: nothing is concluded from it.
func digest(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key)) // never fails
	return h.Sum64()
}

// goals are the flows after a fork that are observed, or read some of the bits.
func (m *Maker) goals(k Fork, reads pipeline.Match) (out []*pipeline.Flow) {
	if k.Flow == nil {
		return nil
	}
	after := m.after(k.Flow)
	for _, f := range m.p.Flows {
		if !after[f.Table] || m.kindOf[f] == nil {
			continue
		}
		seen := slices.ContainsFunc(f.Match, func(t pipeline.Term) bool {
			return !t.Mask.And(reads.Get(t.Base).Mask).IsZero()
		})
		m.p.Each(f.Actions, func(a pipeline.Action) {
			seen = seen || a.Kind == pipeline.Output || a.Kind == pipeline.Controller || a.Kind == pipeline.CT && a.Track.Commit
		})
		if seen {
			out = append(out, f)
		}
	}
	return out
}

// after are the tables that a flow leads to.
func (m *Maker) after(f *pipeline.Flow) map[pipeline.Table]bool {
	if out, ok := m.tablesAfter[f]; ok || f == nil {
		return out
	}
	leads := map[pipeline.Table]map[pipeline.Table]bool{}
	for to, ways := range m.into() {
		for _, w := range ways {
			if leads[w.flow.Table] == nil {
				leads[w.flow.Table] = map[pipeline.Table]bool{}
			}
			leads[w.flow.Table][to] = true
		}
	}
	out := map[pipeline.Table]bool{}
	var waiting []pipeline.Table
	jumps, _ := m.p.Jumps(f.Actions, f.Table)
	for _, j := range jumps {
		waiting = append(waiting, j.To)
	}
	for len(waiting) > 0 {
		t := waiting[0]
		waiting = waiting[1:]
		if out[t] {
			continue
		}
		out[t] = true
		for to := range leads[t] {
			waiting = append(waiting, to)
		}
	}
	if m.tablesAfter == nil {
		m.tablesAfter = map[*pipeline.Flow]map[pipeline.Table]bool{}
	}
	m.tablesAfter[f] = out
	return out
}

// back is the lookups before a table that lead there with packets of which a condition holds.
// passed says that the fork is one of those behind it. via is the action that leads into the table.
func (p *planner) back(id pipeline.Table, cond pipeline.Match, passed bool, depth int) (steps []step,
	via *pipeline.Action, ok bool) {
	const deepest = 80
	if passed && id == p.p.Entry() && fresh(cond) {
		p.entry = slices.DeleteFunc(slices.Clone(cond), func(t pipeline.Term) bool { return cleared(t.Base) })
		if p.pieces { // those are of the packet once it was tracked
			p.entry = p.entry.Without(pipeline.TPSrc, all()).Without(pipeline.TPDst, all())
		}
		return nil, nil, true
	}
	if m := p.mays[id]; m.one == nil || !m.allows(cond) {
		return nil, nil, false
	}
	key := p.planned(id, passed, cond)
	if p.failed[key] || p.hopeless[digest(key)] >= oftenEnough {
		return nil, nil, false
	}
	if !p.comes(id, cond) {
		p.hopeless[digest(key)] = oftenEnough
		return nil, nil, false
	}
	p.looked++
	if p.budget--; p.budget < 0 {
		return nil, nil, false
	}
	if depth > deepest {
		p.cut = true
		return nil, nil, false
	}
	for w := range p.ordered(id) {
		before, nested, ok := p.regress(cond, w)
		if !ok {
			continue
		}
		s, done := step{table: w.flow.Table, flow: w.flow}, passed
		switch {
		case !passed && w.flow == p.fork.Flow:
			if before, ok = p.fork.asks(before); !ok {
				continue
			}
			s.fork, done = true, true
		case !passed && !p.from[w.flow.Table]:
			continue
		default:
			if before, ok = p.asks(w.flow, before); !ok {
				continue
			}
			if before, ok = p.narrowed(w.flow, before); !ok {
				continue
			}
		}
		if steps, s.via, ok = p.back(w.flow.Table, before, done, depth+1); ok {
			return append(append(steps, s), nested...), w.jump, true
		}
		if p.budget < 0 {
			return nil, nil, false
		}
	}
	p.fails(key)
	return nil, nil, false
}

// oftenEnough is how many plans find no way back from where packets are before no more try to: in a plan
// some is left to chance.
const oftenEnough = 3

// fails notes that no way back was found.
func (p *planner) fails(key string) {
	p.failed[key] = true
	if !p.cut {
		p.hopeless[digest(key)]++
	}
}

// planned is a table and a condition as a key.
func (p *planner) planned(id pipeline.Table, passed bool, cond pipeline.Match) string {
	const apart, whole = 1, 2
	b := make([]byte, 0, 8+34*len(cond))
	b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24), 0)
	if passed {
		b[4] |= apart
	}
	if p.pieces {
		b[4] |= whole
	}
	if !passed {
		b = append(b, p.forked...)
	}
	b = cond.AppendKey(b, func(t pipeline.Term) pipeline.Value { return t.Mask })
	return string(cond.AppendKey(b, func(t pipeline.Term) pipeline.Value { return t.Value }))
}

// asks is a condition and what a flow wants, with parts of its conjunction.
func (m *Maker) asks(f *pipeline.Flow, cond pipeline.Match) (pipeline.Match, bool) {
	match := f.Match
	id := match.Get(pipeline.ConjID)
	if !id.Mask.IsZero() {
		match = match.Without(pipeline.ConjID, id.Mask)
	}
	if !cond.Meets(match) {
		return nil, false
	}
	cond = cond.And(match)
	if id.Mask.IsZero() {
		return cond, true
	}
	const tries = 16
	dims := m.parts[part{f.Table, id.Value.Lo}]
	for _, list := range dims {
		found := false
		for i := 0; i < tries && !found && len(list) > 0; i++ {
			if g := list[m.random.IntN(len(list))]; cond.Meets(g.Match) {
				cond, found = cond.And(g.Match), true
			}
		}
		if !found {
			return nil, false
		}
	}
	return cond, len(dims) > 0
}

// narrowed is what packets are that a flow takes, of those of which a condition holds; false if flows
// above it take them all. One that takes all but those of which one bit is other leaves these.
func (p *planner) narrowed(f *pipeline.Flow, cond pipeline.Match) (pipeline.Match, bool) {
	takes := func(k *kind, m pipeline.Match) bool {
		key := k.match.Key(func(t pipeline.Term) pipeline.Value { return m.Get(t.Base).Value.And(t.Mask) })
		g := k.values[string(key)]
		return g != nil && g.Priority > f.Priority
	}
	for changed := true; changed; {
		changed = false
		for _, k := range p.tables[f.Table] {
			if k.top <= f.Priority || k.conjunctive {
				continue
			}
			open, n := k.open(cond)
			if n == 0 && takes(k, cond) {
				return nil, false
			}
			if n != 1 {
				continue
			}
			off, on := cond.With(open.Base, pipeline.Value{}, open.Mask), cond.With(open.Base, open.Mask, open.Mask)
			switch offTaken, onTaken := takes(k, off), takes(k, on); {
			case offTaken && onTaken:
				return nil, false
			case offTaken:
				cond, changed = on, true
			case onTaken:
				cond, changed = off, true
			}
		}
	}
	return cond, true
}

// open is how many bits that flows of a kind want a condition leaves open, up to two, and the last.
func (k *kind) open(cond pipeline.Match) (bit pipeline.Term, n int) {
	for _, t := range k.match {
		rest := t.Mask.Without(cond.Get(t.Base).Mask)
		for i := range rest.Ones() {
			if n++; n > 1 {
				return bit, n
			}
			bit = pipeline.Term{Base: t.Base, Mask: pipeline.Value{Lo: 1}.Left(i)}
		}
	}
	return bit, n
}

// fresh reports whether a packet that just came may be so.
func fresh(cond pipeline.Match) bool {
	return !slices.ContainsFunc(cond, func(t pipeline.Term) bool { return cleared(t.Base) && !t.Value.IsZero() })
}
