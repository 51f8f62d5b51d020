package proof

import (
	"maps"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// forks finds lookups in which a packet may be taken by flows that do not do the same.
type forks struct {
	*lockstep
	random *rand.Rand
	odd    []oddEntry
	makers [2]*witness.Maker // for A and B
	// found says that a packet was made for one, missed how often none was.
	found  bool
	missed int
}

// oddEntry is a flow that the other pipeline has not, or that does something else there.
type oddEntry struct {
	*entry
	table pipeline.Table
	inA   bool
}

// mostMissed is how often no packet is found, if none ever is, until no more are looked for.
const mostMissed = 300

func (l *lockstep) forks(random *rand.Rand, inA, inB *witness.Maker) *forks {
	return &forks{lockstep: l, random: random, makers: [2]*witness.Maker{inA, inB}, odd: l.oddEntries()}
}

// oddEntries are the flows that the two have not in common.
func (l *lockstep) oddEntries() (out []oddEntry) {
	for _, inA := range []bool{true, false} {
		s := l.side(inA)
		for _, id := range slices.Sorted(maps.Keys(s.tables)) {
			for _, e := range s.tables[id].all {
				if e.flow != nil && (e.partner == nil || e.partner.text != e.text || !sameGroups(l.a, l.b, e)) {
					out = append(out, oddEntry{e, id, inA})
				}
			}
		}
	}
	return out
}

// next makes a packet that is taken by other flows in A than in B, which way it was made for A
// or for B, if it finds one.
func (k *forks) next() (c witness.Case, forB, ok bool) {
	if len(k.odd) == 0 || !k.found && k.missed > mostMissed {
		return c, false, false
	}
	k.missed++
	f, reads, forB, ok := k.pick(k.odd[k.random.IntN(len(k.odd))])
	if !ok {
		return c, false, false
	}
	i := 0
	if forB {
		i = 1
	}
	c, ok = k.makers[i].Through(f, reads)
	k.found = k.found || ok
	return c, forB, ok
}

// pick picks a flow of the other pipeline, and what packets are like that are taken by the one
// here and by the other there.
func (k *forks) pick(o oddEntry) (f witness.Fork, reads pipeline.Match, forB, ok bool) {
	own, other := k.side(o.inA).at(o.table), k.side(!o.inA).at(o.table)
	f = witness.Fork{Table: o.table}
	var known pipeline.Match
	x := o.entry
	if o.part {
		if x, ok = k.completed(&f, &known, own, other, o.entry); !ok {
			return f, nil, false, false
		}
	} else if !k.wants(&f, &known, own, x) {
		return f, nil, false, false
	}
	y := k.counterpart(other, x, known)
	if y == nil || !k.wants(&f, &known, other, y) || !shuns(&f, known, own, x) || !shuns(&f, known, other, y) {
		return f, nil, false, false
	}
	forB = o.inA == (k.random.IntN(2) == 0)
	f.Flow = x.flow
	if forB == o.inA {
		f.Flow = y.flow
	}
	return f, writes(x, y), forB, true
}

// counterpart picks a flow that may take a packet in the other pipeline, and does not do the
// same.
func (k *forks) counterpart(other *table, x *entry, known pipeline.Match) *entry {
	var out []*entry
	for _, y := range other.flows {
		same := x.flow != nil && y.text == x.text && sameGroups(k.a, k.b, y)
		if !same && y.match.Meets(known) && (x.partner == nil || x.partner.text != x.text || y.priority <= x.priority) {
			out = append(out, y)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out[k.random.IntN(len(out))]
}

// wants adds what a flow asks of packets, with parts for its conjunction.
func (k *forks) wants(f *witness.Fork, known *pipeline.Match, t *table, e *entry) bool {
	if !add(f, known, e) {
		return false
	}
	if !e.conjunct {
		return true
	}
	list := t.conjunctions[e.conj]
	if len(list) == 0 {
		return false
	}
	return k.parts(f, known, list[k.random.IntN(len(list))], nil)
}

// parts adds what parts of a conjunction want, one for each dimension that has not that one.
func (k *forks) parts(f *witness.Fork, known *pipeline.Match, c *conjunction, but *entry) bool {
	const tries = 16
	for _, d := range c.dims {
		found := len(d) > 0 && but != nil && slices.Contains(d, but)
		for i := 0; i < tries && !found && len(d) > 0; i++ {
			found = add(f, known, d[k.random.IntN(len(d))])
		}
		if !found {
			return false
		}
	}
	return true
}

func add(f *witness.Fork, known *pipeline.Match, e *entry) bool {
	if !known.Meets(e.match) {
		return false
	}
	*known = known.And(e.match)
	f.Wants = append(f.Wants, e.match)
	return true
}

// completed is a flow that takes packets which a part has complete a conjunction; in the other
// pipeline no other part does so in its place.
func (k *forks) completed(f *witness.Fork, known *pipeline.Match, own, other *table, e *entry) (*entry, bool) {
	var ids []uint64
	for _, a := range e.flow.Actions {
		if a.Kind == pipeline.Conjunction {
			ids = append(ids, a.N)
		}
	}
	id := ids[k.random.IntN(len(ids))]
	flows := own.byID[id]
	if len(flows) == 0 || !add(f, known, e) {
		return nil, false
	}
	x := flows[k.random.IntN(len(flows))]
	for _, c := range own.conjunctions[id] {
		if c.priority == e.priority && !k.parts(f, known, c, e) {
			return nil, false
		}
	}
	for _, c := range other.conjunctions[id] {
		for _, d := range c.dims {
			if e.partner == nil || slices.Contains(d, e.partner) || !slices.ContainsFunc(d, func(p *entry) bool {
				return p.match.Covers(*known)
			}) {
				for _, p := range d {
					if p.match.Meets(*known) && !p.match.Covers(*known) {
						f.Shuns = append(f.Shuns, p.match)
					}
				}
				break
			}
		}
	}
	return x, add(f, known, x)
}

// shuns has none of the flows above one take packets; false if one takes all of them.
func shuns(f *witness.Fork, known pipeline.Match, t *table, e *entry) bool {
	for _, g := range t.flows {
		if g.priority < e.low || g == e || g.conjunct || !g.match.Meets(known) || g.flow == nil {
			continue
		}
		if g.match.Covers(known) {
			if g.priority > e.low {
				return false
			}
			continue
		}
		f.Shuns = append(f.Shuns, g.match)
	}
	return true
}

// writes are the bits that one of two flows writes.
func writes(x, y *entry) (out pipeline.Match) {
	for _, e := range []*entry{x, y} {
		if e.flow == nil {
			continue
		}
		for _, a := range e.flow.Actions {
			for _, n := range append([]pipeline.Action{a}, a.Nested...) {
				if n.Kind != pipeline.Push && n.Dst.Field != nil {
					out = out.With(n.Dst.Field.Base, pipeline.Value{}, n.Dst.Mask())
				}
			}
		}
	}
	return out
}
