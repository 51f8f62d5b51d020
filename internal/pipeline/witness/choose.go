package witness

import (
	"cmp"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// choose picks a flow of a table that the packet may meet, and notes it.
func (t *thread) choose(id pipeline.Table) *pipeline.Flow {
	k, f := t.pick(id)
	if f == nil {
		return nil
	}
	t.lookups = append(t.lookups, taken{t.packet.lent(), f})
	t.ways = append(t.ways, k)
	if t.toward != nil && t.toward.flows[f] {
		t.toward = t.toward.then
		t.hit = t.toward == nil
	}
	return f
}

// pick picks a flow of a table that the packet may meet.
func (t *thread) pick(id pipeline.Table) (*kind, *pipeline.Flow) {
	kinds := slices.Clone(t.tables[id])
	t.floor = t.surely(kinds)
	t.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	if t.random.IntN(4) > 0 { // most often what few have met, else as it comes
		slices.SortStableFunc(kinds, func(a, b *kind) int { return a.met - b.met })
	}
	if t.toward != nil && (t.random.IntN(2) == 0 || t.aim.met != nil && t.random.IntN(4) > 0) {
		if k, f := t.preferred(id, kinds); f != nil {
			return k, f
		}
	}
	for _, k := range kinds {
		if f := t.among(k); f != nil {
			k.met++
			return k, f
		}
	}
	return nil, nil
}

// preferred picks a flow that is one of those that are preferred, or leads to the nearest, or
// has led to one before.
func (t *thread) preferred(id pipeline.Table, kinds []*kind) (*kind, *pipeline.Flow) {
	if list := t.toward.wanted[id]; len(list) > 0 && t.random.IntN(3) > 0 {
		const tries = 4
		for range tries {
			if f := list[t.random.IntN(len(list))]; t.meets(f) {
				return t.kindOf[f], f
			}
		}
	}
	rank := map[*kind]float64{}
	byWay := t.random.IntN(2) == 0
	for _, k := range kinds {
		rank[k] = t.toward.scores[k].mean() * t.random.Float64()
		switch far := t.reach(t.toward, k.flows[0]); {
		case byWay:
			rank[k] -= float64(far)
		case far == nowhere:
			rank[k]--
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return cmp.Compare(rank[b], rank[a]) })
	for _, k := range kinds {
		if f := t.among(k); f != nil {
			return k, f
		}
	}
	return nil, nil
}

// score is how often flows of a kind were on the way of a packet, and how often that led to
// what was aimed at.
type score struct{ good, all int }

func (s *score) mean() float64 {
	if s == nil {
		return 0.5
	}
	return float64(s.good+1) / float64(s.all+2)
}

// learnWays keeps whether the kinds of flows on the packet's way led to what was aimed at.
func (t *thread) learnWays() {
	if t.aim == nil {
		return
	}
	for _, k := range t.ways {
		s := t.aim.scores[k]
		if s == nil {
			s = &score{}
			t.aim.scores[k] = s
		}
		s.all++
		if t.hit {
			s.good++
		}
	}
}

// surely is the highest priority of flows of the kinds that take the packet for sure, whatever
// is not known of it.
func (t *thread) surely(kinds []*kind) int {
	most := 0
	for _, k := range kinds {
		if f, whole := t.decided(k); whole && f != nil {
			most = max(most, f.Priority)
		}
	}
	return most
}

// decided is the flow of the kind that takes the packet, or none, where what is known of the
// packet decides that.
func (t *thread) decided(k *kind) (f *pipeline.Flow, whole bool) {
	if k.conjunctive {
		return nil, false
	}
	var room [17 * 16]byte
	whole = true
	key := k.match.AppendKey(room[:0], func(term pipeline.Term) (v pipeline.Value) {
		if whole {
			v, whole = t.value(term.Base, term.Mask)
		}
		return v
	})
	if !whole {
		return nil, false
	}
	return k.values[string(key)], true
}

// among picks a flow of the kind.
func (t *thread) among(k *kind) *pipeline.Flow {
	if f, whole := t.decided(k); whole {
		if f == nil || f.Priority < t.floor {
			return nil
		}
		return f
	}
	const tries, scanned = 8, 256
	n := len(k.flows)
	if n <= scanned {
		from := t.random.IntN(n)
		for i := range n {
			if f := k.flows[(from+i)%n]; t.meets(f) {
				return f
			}
		}
		return nil
	}
	for range tries {
		if f := k.flows[t.random.IntN(n)]; t.meets(f) {
			return f
		}
	}
	return nil
}

// leaves reports whether a packet leaves by a port, and not back by the one that it came from, as
// answers to ARP do.
func (m *Maker) leaves(came pipeline.Match, seen []walk.Event) bool {
	back := "output:" + m.p.Names.FormatPort(pipeline.Port(came.Get(pipeline.InPort).Value.Lo))
	return slices.ContainsFunc(seen, func(e walk.Event) bool { return e.Kind == walk.Output && e.Text != back })
}
