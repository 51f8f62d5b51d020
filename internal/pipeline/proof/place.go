package proof

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// side is one of the two pipelines.
type side struct {
	*pipeline.Pipeline
	tables map[pipeline.Table]*table
	// texts are actions as they are written, by the first of a list.
	texts map[*pipeline.Action]string
	conts map[contKey]*cont
	// owner is the flow or the group's line that an action is of.
	owner map[*pipeline.Action]*pipeline.Flow
	// learnt is what flows are learnt into a table.
	learnt pipeline.Learnt
	// remain are groups after which the stack or the action set may be another.
	remain map[uint32]bool
}

// table is its flows, the highest priority first, the last being that of no flow.
type table struct {
	// all has the parts of conjunctions too, which take no packet; flows are the others.
	all, flows []*entry
	kinds      []*kind
	// doubtful are those that were not understood.
	doubtful []*entry
	// parts are of conjunctions, oddParts those of them that the other pipeline has not, or
	// others in their place; partBits is what they read.
	parts, oddParts []*entry
	partBits        pipeline.Match
	conjunctions    map[uint64][]*conjunction
	// completing is what completes conjunctions, certain that their flows take packets then.
	completing []completing
	certain    bool
	// byID are the flows that want a conjunction.
	byID map[uint64][]*entry
	// fleeting are priorities of flows that are learnt, or may time out: those come and go.
	fleeting map[int]bool
}

// entry is a flow, or none: what then happens to a packet is nothing.
type entry struct {
	flow     *pipeline.Flow
	match    pipeline.Match // without conj_id
	priority int
	// conjunct says that it wants a conjunction, which is conj. low is then the lowest priority
	// of its parts, where that is below its own: flows from there on may come before it.
	conjunct bool
	conj     uint64
	low      int
	// part says that it is one of conjunctions.
	part    bool
	id      string // of priority and match
	text    string // of the actions
	partner *entry
}

// kind is entries whose matches have the same masks.
type kind struct {
	match  pipeline.Match
	top    int
	values map[string]int // to the highest priority
}

// cont is what is left to do once a table is done with: actions, and what comes after.
type cont struct {
	rest []pipeline.Action
	in   pipeline.Table
	next *cont
	deep int
}

type contKey struct {
	first *pipeline.Action
	n     int
	in    pipeline.Table
	next  *cont
}

// place is where a packet is: it looks up a table, or goes on with actions.
type place struct {
	look  bool
	table pipeline.Table
	// port is what in_port is to be taken for in the lookup, or noPort.
	port pipeline.Port
	cont *cont
}

const noPort = pipeline.PortIn

// ended reports whether there is nothing left to do.
func (p place) ended() bool { return !p.look && p.cont == nil }

func newSide(p *pipeline.Pipeline) *side {
	s := &side{Pipeline: p, tables: map[pipeline.Table]*table{}, texts: map[*pipeline.Action]string{},
		conts: map[contKey]*cont{}, owner: map[*pipeline.Action]*pipeline.Flow{},
		learnt: p.Learnt(), remain: map[uint32]bool{}}
	for _, f := range p.Flows {
		t := s.tables[f.Table]
		if t == nil {
			t = &table{}
			s.tables[f.Table] = t
		}
		e := &entry{flow: f, priority: f.Priority, part: partial(f), text: s.print(f.Actions)}
		for _, term := range f.Match {
			if term.Base != pipeline.ConjID {
				e.match = append(e.match, term)
				continue
			}
			e.conjunct, e.conj = true, term.Value.Lo
		}
		for i := range f.Actions {
			s.owner[&f.Actions[i]] = f
		}
		e.id = fmt.Sprintf("%d %v %v", f.Priority, f.Match, f.Carried)
		t.all = append(t.all, e)
	}
	for _, t := range s.tables {
		t.finish()
	}
	return s
}

// finish sorts, and drops flows whose place a later one takes.
func (t *table) finish() {
	last := map[string]*entry{}
	for _, e := range t.all {
		last[e.id] = e
	}
	t.all = slices.DeleteFunc(t.all, func(e *entry) bool { return last[e.id] != e })
	slices.SortStableFunc(t.all, func(a, b *entry) int { return b.priority - a.priority })
	t.all = append(t.all, &entry{priority: -1, id: "none"})
	t.byID = map[uint64][]*entry{}
	for _, e := range t.all {
		if e.flow != nil && !e.flow.Understood() {
			t.doubtful = append(t.doubtful, e)
		}
		if e.part {
			t.collect(e)
			continue
		}
		t.flows = append(t.flows, e)
		if e.conjunct {
			t.byID[e.conj] = append(t.byID[e.conj], e)
		}
	}
	for _, e := range t.flows {
		e.low = e.priority
		for _, k := range t.conjunctions[e.conj] {
			if e.conjunct {
				e.low = min(e.low, k.priority)
			}
		}
	}
	t.index()
}

// index sorts those that hide others by their masks.
func (t *table) index() {
	t.kinds = nil
	at := map[string]*kind{}
	for _, e := range t.flows {
		if e.flow == nil || e.conjunct || len(e.flow.Carried) > 0 || t.fleeting[e.priority] {
			continue // hides nothing for sure
		}
		masks := fmt.Sprint(masksOf(e.match))
		k := at[masks]
		if k == nil {
			k = &kind{match: e.match, top: e.priority, values: map[string]int{}}
			at[masks] = k
			t.kinds = append(t.kinds, k)
		}
		if v := valuesOf(e.match, e.match); k.values[v] < e.priority+1 {
			k.values[v] = e.priority + 1
		}
	}
}

func masksOf(m pipeline.Match) (out []pipeline.Term) {
	for _, t := range m {
		out = append(out, pipeline.Term{Base: t.Base, Mask: t.Mask})
	}
	return out
}

// valuesOf is, as a key, what m knows of the bits that like wants.
func valuesOf(like, m pipeline.Match) string {
	b := make([]byte, 0, 17*len(like))
	for _, t := range like {
		v := m.Get(t.Base).Value.And(t.Mask)
		b = append(b, byte(t.Base))
		for i := 0; i < 64; i += 8 {
			b = append(b, byte(v.Hi>>i), byte(v.Lo>>i))
		}
	}
	return string(b)
}

// hides reports whether a flow of a priority above takes each packet of which m is known.
func (t *table) hides(m pipeline.Match, priority int) bool {
	for _, k := range t.kinds {
		if k.top <= priority {
			continue
		}
		known := true
		for _, w := range k.match {
			if !w.Mask.Without(m.Get(w.Base).Mask).IsZero() {
				known = false
				break
			}
		}
		if known && k.values[valuesOf(k.match, m)]-1 > priority {
			return true
		}
	}
	return false
}

// at is the table of that number; one without flows has the entry of no flow alone.
func (s *side) at(id pipeline.Table) *table {
	if s.tables[id] == nil {
		t := &table{}
		t.finish()
		s.tables[id] = t
	}
	return s.tables[id]
}

// then is what is left to do, the same value for the same.
func (s *side) then(rest []pipeline.Action, in pipeline.Table, next *cont) *cont {
	if len(rest) == 0 {
		return next
	}
	k := contKey{&rest[0], len(rest), in, next}
	if s.conts[k] == nil {
		c := &cont{rest: rest, in: in, next: next, deep: 1}
		if next != nil {
			c.deep = next.deep + 1
		}
		s.conts[k] = c
	}
	return s.conts[k]
}

// print is actions as they are written, without bits that a mask leaves out.
func (s *side) print(list []pipeline.Action) string { return s.PrintActions(plain(list)) }

func plain(list []pipeline.Action) []pipeline.Action {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Kind == pipeline.SetField {
			out[i].Value = out[i].Value.And(out[i].Mask)
		}
		out[i].Nested = plain(out[i].Nested)
	}
	return out
}

// text is an action as it is written.
func (s *side) text(a *pipeline.Action) string {
	t, ok := s.texts[a]
	if !ok {
		t = s.print([]pipeline.Action{*a})
		s.texts[a] = t
	}
	return t
}

// alike finds the tables that are the same in both, with all tables that they lead to.
func alike(a, b *side) map[pipeline.Table]bool {
	out := map[pipeline.Table]bool{}
	for id := range a.tables {
		out[id] = sameFlows(a, b, id)
	}
	for id := range b.tables {
		out[id] = out[id] && a.tables[id] != nil
	}
	whole := true
	for _, same := range out {
		whole = whole && same
	}
	if whole {
		return out // wherever an action leads that was not understood
	}
	for changed := true; changed; {
		changed = false
		for id, same := range out {
			if !same {
				continue
			}
			for _, e := range a.tables[id].all {
				if e.flow == nil {
					continue
				}
				ways, sure := a.Jumps(e.flow.Actions, id)
				ok := sure
				for _, j := range ways {
					to, known := out[j.To]
					ok = ok && (to || !known)
				}
				if !ok {
					out[id], changed = false, true
					break
				}
			}
		}
	}
	return out
}

// sameFlows pairs the flows of a table that both have, and reports whether all are, with the
// same actions.
func sameFlows(a, b *side, id pipeline.Table) bool {
	ta, tb := a.at(id), b.at(id)
	by := map[string]*entry{}
	for _, e := range tb.all {
		by[e.id] = e
	}
	same := len(ta.all) == len(tb.all)
	for _, e := range ta.all {
		o := by[e.id]
		if o == nil || o.part != e.part { // a part of a conjunction may have the match of a flow that takes packets
			same = false
			continue
		}
		e.partner, o.partner = o, e
		same = same && e.text == o.text && sameGroups(a, b, e)
	}
	return same
}

// sameGroups reports whether the groups that a flow uses are the same in both.
func sameGroups(a, b *side, e *entry) bool {
	same := true
	if e.flow == nil {
		return true
	}
	a.Each(e.flow.Actions, func(x pipeline.Action) {
		if x.Kind == pipeline.GroupAction {
			same = same && sameGroup(a, b, uint32(x.N))
		}
	})
	return same
}

func sameGroup(a, b *side, id uint32) bool {
	g, h := a.Group(id), b.Group(id)
	return g != nil && h != nil && g.Text == h.Text
}

// sameBuckets reports whether a group chooses the same bucket in both for the same header: all but
// the actions of its buckets is written alike.
func sameBuckets(a, b *side, id uint32) bool {
	g, h := a.Group(id), b.Group(id)
	return g != nil && h != nil && g.Head == h.Head && slices.EqualFunc(g.Buckets, h.Buckets,
		func(x, y pipeline.Bucket) bool { return x.Head == y.Head })
}
