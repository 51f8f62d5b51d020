package witness

import (
	"slices"

	"pathwise.dev/pathwise/internal/explain/pipeline"
)

// choose picks a flow of a table that the packet may meet.
func (t *thread) choose(id pipeline.Table) *pipeline.Flow {
	kinds := slices.Clone(t.tables[id])
	t.floor = t.taken(kinds)
	t.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	if t.random.IntN(4) > 0 { // most often what few have met, else as it comes
		slices.SortStableFunc(kinds, func(a, b *kind) int { return a.met - b.met })
	}
	if t.aim != nil && (t.random.IntN(2) == 0 || t.aim.met != nil && t.random.IntN(4) > 0) {
		if f := t.preferred(id, kinds); f != nil {
			return f
		}
	}
	for _, k := range kinds {
		if f := t.among(k); f != nil {
			k.met++
			return f
		}
	}
	return nil
}

// preferred picks a flow that is one of those that are preferred, or leads to the nearest.
func (t *thread) preferred(id pipeline.Table, kinds []*kind) *pipeline.Flow {
	if list := t.aim.wanted[id]; len(list) > 0 && t.random.IntN(3) > 0 {
		const tries = 4
		for range tries {
			if f := list[t.random.IntN(len(list))]; t.meets(f) {
				return f
			}
		}
	}
	far := map[*kind]int{}
	for _, k := range kinds {
		far[k] = t.reach(k.flows[0])
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return far[a] - far[b] })
	for _, k := range kinds {
		if f := t.among(k); f != nil {
			return f
		}
	}
	return nil
}

// taken is the highest priority of flows of the kinds that take the packet for sure, whatever
// is not known of it.
func (t *thread) taken(kinds []*kind) int {
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
	if !k.match.Get(pipeline.ConjID).Mask.IsZero() {
		return nil, false
	}
	held := map[pipeline.Base]pipeline.Value{}
	for _, term := range k.match {
		v, ok := t.value(term.Base, term.Mask)
		if !ok {
			return nil, false
		}
		held[term.Base] = v
	}
	return k.values[values(k.match, func(b pipeline.Base) pipeline.Value { return held[b] })], true
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
