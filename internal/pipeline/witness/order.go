package witness

import (
	"container/heap"
	"iter"

	"pathwise.dev/pathwise/internal/pipeline"
)

// ordered is the ways into a table, in any order, but most often first those that have proved
// good, and in half of the plans those that ask for little, or that are short. Most often the first few
// are enough, so that no more are put in order than are asked for.
func (p *planner) ordered(id pipeline.Table) iter.Seq[*way] {
	ways := p.into()[id]
	h := make(ranked, len(ways))
	for i := range ways {
		f := ways[i].flow
		h[i] = rankedWay{p.rates[f].mean() * p.random.Float64(), &ways[i]}
		if p.modest {
			h[i].rank /= float64(1 + len(f.Match))
		}
		if p.direct {
			h[i].rank -= float64(p.far()[f.Table])
		}
	}
	return func(yield func(*way) bool) {
		for heap.Init(&h); len(h) > 0; heap.Pop(&h) {
			if !yield(h[0].way) {
				return
			}
		}
	}
}

// rankedWay is a way, and how soon it is to be tried; ranked are such, the highest rank first.
type rankedWay struct {
	rank float64
	*way
}

type ranked []rankedWay

func (r ranked) Len() int           { return len(r) }
func (r ranked) Less(i, j int) bool { return r[i].rank > r[j].rank }
func (r ranked) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push is never asked for: the ways are known at once.
func (r *ranked) Push(x any) { *r = append(*r, x.(rankedWay)) }

// Pop takes the last one out.
func (r *ranked) Pop() any {
	n := len(*r) - 1
	*r = (*r)[:n]
	return nil
}

// far is how many lookups a table is from where packets come in, at least.
func (m *Maker) far() map[pipeline.Table]int {
	if m.distances != nil {
		return m.distances
	}
	leads := map[pipeline.Table][]pipeline.Table{}
	for to, ways := range m.into() {
		for _, w := range ways {
			leads[w.flow.Table] = append(leads[w.flow.Table], to)
		}
	}
	m.distances = map[pipeline.Table]int{m.p.Entry(): 0}
	waiting := []pipeline.Table{m.p.Entry()}
	for len(waiting) > 0 {
		t := waiting[0]
		waiting = waiting[1:]
		for _, to := range leads[t] {
			if _, known := m.distances[to]; !known {
				m.distances[to] = m.distances[t] + 1
				waiting = append(waiting, to)
			}
		}
	}
	return m.distances
}
