package reduction

import (
	"cmp"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// sample is packets that reach as many flows of a pipeline as possible, and what they cost
// there. A change is tried on those packets alone that meet it.
type sample struct {
	in      *walk.Pipeline
	packets []followed
}

// followed is a packet and how it fared.
type followed struct {
	witness.Case
	// sound: it came to its end.
	sound                 bool
	passes, lookups, work int
	// by are the flows that took it, lowest the least of their priorities by table, -1 where
	// none did.
	by     map[*pipeline.Flow]bool
	lowest map[pipeline.Table]int
}

// newSample makes packets. They depend on which flows there are, not on their order.
func newSample(p *pipeline.Pipeline, o Options) *sample {
	m := witness.New(walk.Through(ordered(p)), o.random())
	m.Deliver()
	s := &sample{in: walk.Through(p)}
	for long := 0; len(s.packets) < o.Packets && long < mostLong; {
		one := follow(s.in, m.Make())
		if s.packets = append(s.packets, one); one.work > muchWork {
			long++
		}
	}
	return s
}

// mostLong is how many packets are made that have muchWork to do, some hundred times what a pipeline that people run
// has: others of such a pipeline tell nothing more.
const mostLong, muchWork = 4, 1 << 20

// ordered is a pipeline with its flows by table, priority and match.
func ordered(p *pipeline.Pipeline) *pipeline.Pipeline {
	if p.Entry() >= pipeline.Unnumbered {
		return p // packets enter the table of its first flow
	}
	keys := map[*pipeline.Flow]string{}
	for _, f := range p.Flows {
		keys[f] = p.PrintMatch(f)
	}
	flows := slices.Clone(p.Flows)
	slices.SortStableFunc(flows, func(a, b *pipeline.Flow) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(b.Priority, a.Priority), cmp.Compare(keys[a], keys[b]))
	})
	return p.With(flows)
}

func follow(in *walk.Pipeline, c witness.Case) followed {
	w := in.Follow(walk.NewPacket(c.Packet), c.Oracle())
	out := followed{Case: c, sound: sound(w), passes: w.Depth(), lookups: lookups(w), work: w.Work,
		by: map[*pipeline.Flow]bool{}, lowest: map[pipeline.Table]int{}}
	for _, p := range w.Passes {
		for _, s := range p.Steps {
			if !s.Lookup {
				continue
			}
			priority := -1
			if s.Flow != nil {
				priority = s.Flow.Priority
				out.by[s.Flow] = true
			}
			if least, ok := out.lowest[s.Table]; !ok || priority < least {
				out.lowest[s.Table] = priority
			}
		}
	}
	return out
}

// sound reports whether a walk came to its end.
func sound(w *walk.Walk) bool {
	return w.Understood() && !slices.ContainsFunc(w.Passes, func(p *walk.Pass) bool { return p.Failed != "" })
}

func lookups(w *walk.Walk) (n int) {
	for _, p := range w.Passes {
		n += p.Lookups
	}
	return n
}

// tally adds up what packets cost.
type tally struct{ passes, lookups, packets int }

func (t *tally) add(passes, lookups int) {
	t.passes, t.lookups, t.packets = t.passes+passes, t.lookups+lookups, t.packets+1
}

func (t tally) mean() Cost {
	n := float64(max(1, t.packets))
	return Cost{float64(t.passes) / n, float64(t.lookups) / n}
}

// cost is the mean of the packets that come to an end.
func (s *sample) cost() Cost {
	var t tally
	for _, one := range s.packets {
		if one.sound {
			t.add(one.passes, one.lookups)
		}
	}
	return t.mean()
}

// against is what the packets cost in another pipeline, and whether one takes more passes
// there than here.
func (s *sample) against(next *pipeline.Pipeline) (c Cost, worse bool) {
	d := differing(s.in.Pipeline, next)
	in := s.in.Instead(next, d.tables)
	var t tally
	for _, one := range s.packets {
		if !one.sound {
			continue
		}
		if !d.meets(one) {
			t.add(one.passes, one.lookups)
			continue
		}
		packet, oracle := walk.NewPacket(one.Packet), one.Oracle()
		s.in.Follow(packet, oracle)
		w := in.Follow(packet, oracle.Again())
		if !sound(w) || w.Depth() > one.passes {
			return c, true
		}
		t.add(w.Depth(), lookups(w))
	}
	return t.mean(), false
}

// advance has the packets walk through another pipeline from now on.
func (s *sample) advance(next *pipeline.Pipeline) {
	d := differing(s.in.Pipeline, next)
	s.in = s.in.Instead(next, d.tables)
	for i, one := range s.packets {
		if d.meets(one) {
			s.packets[i] = follow(s.in, one.Case)
		}
	}
}

// difference is what of two pipelines with the same groups differs.
type difference struct {
	gone   map[*pipeline.Flow]bool
	tables map[pipeline.Table]bool
	// top is the highest priority that a packet may be taken at by what is new, by table.
	top map[pipeline.Table]int
}

func differing(a, b *pipeline.Pipeline) difference {
	d := difference{map[*pipeline.Flow]bool{}, map[pipeline.Table]bool{}, map[pipeline.Table]int{}}
	for _, f := range a.Flows {
		d.gone[f] = true
	}
	raise := func(f *pipeline.Flow, to int) {
		if top, ok := d.top[f.Table]; !ok || to > top {
			d.top[f.Table] = to
		}
	}
	for _, f := range b.Flows {
		if d.gone[f] {
			delete(d.gone, f)
			continue
		}
		d.tables[f.Table] = true
		raise(f, f.Priority)
		if partial(f) {
			raise(f, math.MaxInt)
		}
	}
	for f := range d.gone {
		d.tables[f.Table] = true
		if partial(f) {
			raise(f, math.MaxInt)
		}
	}
	return d
}

// partial reports whether a flow is a part of a conjunction: other flows take the packets.
func partial(f *pipeline.Flow) bool {
	return slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return a.Kind == pipeline.Conjunction })
}

// meets reports whether a packet may fare differently.
func (d difference) meets(one followed) bool {
	for t, top := range d.top {
		if least, ok := one.lowest[t]; ok && top >= least {
			return true
		}
	}
	for f := range one.by {
		if d.gone[f] {
			return true
		}
	}
	return false
}
