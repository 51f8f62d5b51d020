package proof

import (
	"math/bits"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// needs is what packets must be in each table to meet, there or later, a flow that the two
// pipelines have not in common. Packets that are the same in both and are not so fare alike.
// It is found backwards, from such flows to how packets came; in doubt it is more packets.
type needs struct {
	*lockstep
	at map[pipeline.Table][]pipeline.Match
	// writes is what may be written in a table and in those that it leads to in the same pass.
	writes map[pipeline.Table]pipeline.Match
	// ported are tables that may be looked up with another in_port than the packet's.
	ported map[pipeline.Table]bool
	after  map[*cont][]pipeline.Match
	steps  int
	// most is how many kinds of packets are told apart in a table.
	most int
}

// mostNeeds is how many kinds of packets are told apart in a table to show that two pipelines do the
// same, mostAimed how many to make a packet that fares differently, mostLooked how many are looked at
// in all.
const (
	mostNeeds  = 24
	mostAimed  = 64
	mostLooked = 2_000_000
)

// findNeeds finds what packets must be, or nothing if there is something in the pipelines that
// it does not follow.
func (l *lockstep) findNeeds(most int) *needs {
	if !l.followed(l.a) || !l.followed(l.b) {
		return nil
	}
	n := &needs{lockstep: l, most: most, at: map[pipeline.Table][]pipeline.Match{},
		writes: map[pipeline.Table]pipeline.Match{},
		ported: map[pipeline.Table]bool{}, after: map[*cont][]pipeline.Match{}}
	n.written()
	var changed []pipeline.Table
	for _, o := range l.oddEntries() {
		for _, m := range l.decides(o) {
			if n.take(o.table, m) && !slices.Contains(changed, o.table) {
				changed = append(changed, o.table)
			}
		}
	}
	if !n.spread(changed) {
		return nil
	}
	return n
}

// followed reports whether all that a pipeline has is followed.
func (l *lockstep) followed(s *side) bool {
	if len(s.Lost) > 0 {
		return false
	}
	for _, f := range s.Flows {
		if !f.Understood() || len(f.Carried) > 0 {
			return false
		}
		if _, sure := s.Jumps(f.Actions, f.Table); !sure {
			return false
		}
		ok := true
		s.Each(f.Actions, func(a pipeline.Action) {
			ok = ok && (silent(a.Kind) || passes(a.Kind)) && !strings.Contains(a.Text, "pause")
			if a.Kind == pipeline.GroupAction {
				g := s.Group(uint32(a.N))
				ok = ok && g != nil && !within(s.Pipeline, g)
			}
			if a.Kind == pipeline.WriteActions { // a group may lead on once the walk is over
				ok = ok && !slices.ContainsFunc(a.Nested, func(n pipeline.Action) bool { return n.Kind == pipeline.GroupAction })
			}
		})
		if !ok {
			return false
		}
	}
	return true
}

// passes reports whether an action that is not silent is followed.
func passes(k pipeline.Kind) bool {
	switch k {
	case pipeline.Resubmit, pipeline.Goto, pipeline.CT, pipeline.Clone, pipeline.GroupAction, pipeline.Learn,
		pipeline.DecTTL, pipeline.Exit, pipeline.Output, pipeline.OutputTrunc, pipeline.Controller, pipeline.Enqueue,
		pipeline.Meter, pipeline.Sample, pipeline.Bundle, pipeline.SetQueue, pipeline.PopQueue, pipeline.CheckLarger,
		pipeline.BundleLoad, pipeline.Multipath, pipeline.Conjunction:
		return true
	}
	return false
}

// decides is what packets are about which an entry decides that the two have not in common.
func (l *lockstep) decides(o oddEntry) (out []pipeline.Match) {
	t := l.side(o.inA).at(o.table)
	if !o.part {
		if o.conjunct {
			return []pipeline.Match{o.match}
		}
		const few = 6
		if left := t.leaves(o.entry); len(left) <= few {
			return left
		}
		return []pipeline.Match{o.match}
	}
	for _, a := range o.flow.Actions {
		if a.Kind != pipeline.Conjunction {
			continue
		}
		for _, k := range t.conjunctions[a.N] {
			if k.priority != o.priority {
				continue
			}
			ways, whole := k.ways(o.match)
			if !whole {
				ways = []pipeline.Match{o.match}
			}
			if t.rivalled(a.N, k.priority) { // then it decides which of them counts, though no flow wants it
				out = append(out, ways...)
				continue
			}
			for _, m := range ways {
				for _, f := range t.byID[a.N] {
					if m.Meets(f.match) {
						out = append(out, m.And(f.match))
					}
				}
			}
		}
	}
	return out
}

// written finds what may be written, and where in_port may be another.
func (n *needs) written() {
	leads := map[pipeline.Table]map[pipeline.Table]bool{}
	for _, f := range n.a.Flows {
		n.writes[f.Table] = joined(n.writes[f.Table], n.writesOf(f.Actions))
		if leads[f.Table] == nil {
			leads[f.Table] = map[pipeline.Table]bool{}
		}
		ways, _ := n.a.Jumps(f.Actions, f.Table)
		for _, j := range ways {
			if j.Kind != pipeline.CT {
				leads[f.Table][j.To] = true
			}
		}
		n.a.Each(f.Actions, func(a pipeline.Action) {
			if a.Kind == pipeline.Resubmit && a.Port != pipeline.PortIn {
				to := a.Table
				if to == pipeline.NoTable {
					to = f.Table
				}
				n.ported[to] = true
			}
			learnt(n.writes, a)
		})
	}
	onward(n.writes, leads)
}

// learnt adds what flows that an action learns will write.
func learnt(writes map[pipeline.Table]pipeline.Match, a pipeline.Action) {
	if a.Kind != pipeline.Learn || a.Learned == nil {
		return
	}
	for _, does := range a.Learned.Does {
		if does.Bits.Field != nil {
			writes[a.Table] = writes[a.Table].With(does.Bits.Field.Base, pipeline.Value{}, all())
		}
	}
}

// onward has each table write what those write that it leads to.
func onward(writes map[pipeline.Table]pipeline.Match, leads map[pipeline.Table]map[pipeline.Table]bool) {
	for changed := true; changed; {
		changed = false
		for t, tos := range leads {
			for to := range tos {
				if w := joined(writes[t], writes[to]); !slices.Equal(w, writes[t]) {
					writes[t], changed = w, true
				}
			}
		}
	}
}

// writesOf is what a list of actions writes itself, in groups and copies too.
func (n *needs) writesOf(list []pipeline.Action) (out pipeline.Match) {
	n.a.Each(list, func(a pipeline.Action) {
		switch a.Kind {
		case pipeline.CT, pipeline.CTClear:
			for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
				out = out.With(b, pipeline.Value{}, all())
			}
		case pipeline.DecTTL:
			out = out.With(pipeline.NWTTL, pipeline.Value{}, all())
		case pipeline.SetTunnel, "set_tunnel64":
			out = out.With(pipeline.TunID, pipeline.Value{}, all())
		}
		for _, b := range written(a) {
			out = out.With(b, pipeline.Value{}, all())
		}
	})
	return out
}

// joined is bits of either.
func joined(m, o pipeline.Match) pipeline.Match {
	for _, t := range o {
		m = m.With(t.Base, pipeline.Value{}, t.Mask)
	}
	return m
}

// take takes packets in, and says whether they are more.
func (n *needs) take(t pipeline.Table, m pipeline.Match) bool {
	for _, b := range []pipeline.Base{pipeline.ActsetOutput, pipeline.RecircID} {
		m = m.Without(b, all())
	}
	if n.ported[t] {
		m = m.Without(pipeline.InPort, all())
	}
	list, more := n.include(n.at[t], m)
	n.at[t] = list
	return more
}

// include has a list be of packets too, and says whether they are more. Of many kinds it takes
// together those that have most in common.
func (n *needs) include(list []pipeline.Match, m pipeline.Match) ([]pipeline.Match, bool) {
	if slices.ContainsFunc(list, func(o pipeline.Match) bool { return o.Covers(m) }) {
		return list, false
	}
	for {
		list = slices.DeleteFunc(slices.Clone(list), func(o pipeline.Match) bool { return m.Covers(o) })
		if len(list) < n.most {
			return append(list, m), true
		}
		best, at := -1, 0
		for i, o := range list {
			if k := known(common(o, m)); k > best {
				best, at = k, i
			}
		}
		m = common(list[at], m)
	}
}

// known is how many bits a match wants.
func known(m pipeline.Match) (n int) {
	for _, t := range m {
		n += bits.OnesCount64(t.Mask.Hi) + bits.OnesCount64(t.Mask.Lo)
	}
	return n
}

// spread goes backwards from tables whose packets are more; false if it is too much.
func (n *needs) spread(changed []pipeline.Table) bool {
	into := map[pipeline.Table][]*entry{}
	for id, t := range n.a.tables {
		for _, e := range t.flows {
			if e.flow == nil || e.partner == nil || e.partner.text != e.text || !sameGroups(n.a, n.b, e) {
				continue
			}
			seen := map[pipeline.Table]bool{}
			ways, _ := n.a.Jumps(e.flow.Actions, id)
			for _, j := range ways {
				if !seen[j.To] {
					seen[j.To] = true
					into[j.To] = append(into[j.To], e)
				}
			}
		}
	}
	for len(changed) > 0 {
		last := slices.Max(changed)
		changed = slices.DeleteFunc(changed, func(t pipeline.Table) bool { return t == last })
		for _, e := range into[last] {
			id := e.flow.Table
			for _, m := range n.back(e.flow.Actions, id, nil) {
				if n.steps++; n.steps > mostLooked {
					return false
				}
				if !m.Meets(e.match) {
					continue
				}
				own := e.match
				if n.ported[id] {
					own = own.Without(pipeline.InPort, all())
				}
				if n.take(id, m.And(own)) && !slices.Contains(changed, id) {
					changed = append(changed, id)
				}
			}
		}
	}
	return true
}

// of is what packets must be in a place.
func (n *needs) of(p place) []pipeline.Match {
	return n.either(n.without(n.then(p.cont), n.writes[p.table]), n.at[p.table])
}

// then is what packets must be when it is gone on with what is left to do.
func (n *needs) then(c *cont) []pipeline.Match {
	if c == nil {
		return nil
	}
	out, ok := n.after[c]
	if !ok {
		out = n.back(c.rest, c.in, n.then(c.next))
		n.after[c] = out
	}
	return out
}

// narrowed is packets that are the same in both pipelines, as far as they may meet what the two
// have not in common.
func (n *needs) narrowed(s *state, p place) (out []*state) {
	for _, m := range n.of(p) {
		if m.Covers(s.a) {
			return []*state{s}
		}
		if c, ok := s.meets(true, m, nil); ok {
			next := *s
			next.pair = c
			out = append(out, &next)
		}
	}
	return out
}
