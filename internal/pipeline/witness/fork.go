package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// Fork is a lookup that a packet is to come to, and what it is to be like there.
type Fork struct {
	Table pipeline.Table
	// Wants and Shuns are what it is, and is not.
	Wants, Shuns []pipeline.Match
	// Flow takes it then, nil for none.
	Flow *pipeline.Flow
}

// mostTries is how many plans are made for a fork until it is given up.
const mostTries = 2

// mostLooked is how many tables are looked at, for all packets, to plan backwards.
const mostLooked = 150_000

// Spare has little be spent on planning backwards: so many tables are looked at from now on.
func (m *Maker) Spare(looks int) { m.spared = max(0, mostLooked-m.looked-looks) }

// More has some more be spent on planning backwards.
func (m *Maker) More() {
	m.looked = min(m.looked, -m.spared)
}

// Through makes a packet that comes to a fork as is asked for, if it finds one. It is planned
// backwards, from a flow that is observed, or reads some of the bits, through the fork to how
// packets come, and made forwards then: it is taken by none of the flows above those planned.
func (m *Maker) Through(k Fork, reads pipeline.Match) (Case, bool) {
	if m.looked > mostLooked-m.spared {
		return Case{}, false
	}
	for range mostTries {
		pieces := m.random.IntN(oneInPieces) == 0
		p := m.planner(pieces)
		plan, ok := p.plan(k, reads)
		if !ok {
			continue
		}
		t := m.thread()
		t.exact, t.fork, t.plan = true, k, plan
		t.fragmented(pieces)
		if !t.want(p.entry) {
			continue
		}
		t.run()
		m.rate(plan, len(t.plan), t.failed)
		budget := 400
		if t.failed || !t.came || !t.solve(&budget) {
			continue
		}
		return t.caseOf(), true
	}
	return Case{}, false
}

// rate keeps how far a plan was followed.
func (m *Maker) rate(plan []step, left int, failed bool) {
	if m.rates == nil {
		m.rates = map[*pipeline.Flow]*score{}
	}
	for i, s := range plan[:len(plan)-left] {
		r := m.rates[s.flow]
		if r == nil {
			r = &score{}
			m.rates[s.flow] = r
		}
		r.all++
		if !failed || i < len(plan)-left-1 {
			r.good++
		}
	}
}

// next picks the flow that is to take the packet in a table: the planned one, if it is its turn,
// else any. None of higher priority takes it.
func (t *thread) next(id pipeline.Table) *pipeline.Flow {
	if len(t.plan) == 0 || t.plan[0].table != id || t.plan[0].via != nil && t.plan[0].via != t.by {
		return t.free(id)
	}
	step := t.plan[0]
	t.plan = t.plan[1:]
	if step.fork {
		t.failed, t.came = !t.comes(t.fork), true
		return t.fork.Flow
	}
	if step.flow == nil {
		t.failed = !t.missed(id)
	} else {
		t.failed = !t.takenBy(step.flow)
	}
	return step.flow
}

// free picks any flow that may take the packet.
func (t *thread) free(id pipeline.Table) *pipeline.Flow {
	const tries = 6
	for range tries {
		from := t.mark()
		k, f := t.pick(id)
		if f == nil {
			break
		}
		t.back(from) // it was only looked at
		if t.takenBy(f) {
			t.ways = append(t.ways, k)
			return f
		}
	}
	return nil
}

// comes has the packet be as it is to be at a fork.
func (t *thread) comes(k Fork) bool {
	for _, m := range k.Wants {
		if !t.want(m) {
			return false
		}
	}
	for _, m := range k.Shuns {
		if !t.not(m) {
			return false
		}
	}
	return t.propagate()
}

// takenBy has a flow take the packet, and none above it, or changes nothing.
func (t *thread) takenBy(f *pipeline.Flow) bool {
	from := t.mark()
	t.floor = 0
	if t.meets(f) && t.notAbove(f) && t.propagate() {
		return true
	}
	t.back(from)
	return false
}

// notAbove has none of the flows above one take the packet. Kinds of very many flows are left
// out: whether those take it is seen once it is followed.
func (t *thread) notAbove(f *pipeline.Flow) bool {
	const many = 2000
	rivals := func(g *pipeline.Flow) bool {
		return g.Priority > f.Priority || t.alone && g != f && g.Priority == f.Priority
	}
	for _, k := range t.tables[f.Table] {
		if k.top < f.Priority || k.top == f.Priority && !t.alone || k.conjunctive {
			continue
		}
		if g, whole := t.decided(k); whole {
			if g != nil && rivals(g) {
				return false
			}
			continue
		}
		if len(k.flows) > many {
			continue
		}
		for _, g := range k.flows {
			if rivals(g) && !t.not(g.Match) {
				return false
			}
		}
	}
	return true
}

// original has ct_* be of the connection's original direction, which is taken to be the packet's.
func (t *thread) original() {
	for _, b := range [][2]pipeline.Base{{pipeline.CTNWSrc, pipeline.NWSrc}, {pipeline.CTNWDst, pipeline.NWDst},
		{pipeline.CTIPv6Src, pipeline.IPv6Src}, {pipeline.CTIPv6Dst, pipeline.IPv6Dst}, {pipeline.CTTPSrc, pipeline.TPSrc},
		{pipeline.CTTPDst, pipeline.TPDst}, {pipeline.CTNWProto, pipeline.NWProto}} {
		t.write(b[0], t.get(b[1]))
	}
}

// Looked is how many tables were looked at so far to plan backwards.
func (m *Maker) Looked() int { return m.looked }
