package reduction

import (
	"cmp"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/depth"
	"pathwise.dev/pathwise/internal/explain/pipeline/walk"
	"pathwise.dev/pathwise/internal/explain/pipeline/witness"
)

// Cost is what a packet pays, as a mean: for passes always, for lookups if it is the first
// of its flow.
type Cost struct {
	Passes  float64 `json:"passes"`
	Lookups float64 `json:"lookups"`
}

// less reports whether a cost is lower: passes first, lookups second.
func (c Cost) less(o Cost) bool {
	const slight = 1e-9
	if c.Passes < o.Passes-slight || c.Passes > o.Passes+slight {
		return c.Passes < o.Passes
	}
	return c.Lookups < o.Lookups-slight
}

// Class is packets that come and leave in the same way.
type Class struct {
	Name string `json:"class"`
	// Before and After are what each of them pays.
	Passes  [2]int     `json:"passes"`
	Lookups [2]float64 `json:"lookups"`
	Packets int        `json:"packets"`
	// Example is one of them, Answers the tracker's.
	Example string   `json:"example"`
	Answers []string `json:"answers"`
}

// sample is packets that reach as many flows of a pipeline as possible.
type sample []witness.Case

func newSample(p *pipeline.Pipeline, o Options) sample {
	m := witness.New(walk.Through(p), o.Random)
	m.Deliver()
	out := sample{}
	for range o.Packets {
		out = append(out, m.Make())
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

// cost is the mean of the packets that come to an end.
func (s sample) cost(p *pipeline.Pipeline) (c Cost) {
	in, n := walk.Through(p), 0.0
	for _, one := range s {
		w := in.Follow(walk.NewPacket(one.Packet), one.Oracle())
		if sound(w) {
			c.Passes, c.Lookups, n = c.Passes+float64(w.Depth()), c.Lookups+float64(lookups(w)), n+1
		}
	}
	if n > 0 {
		c.Passes, c.Lookups = c.Passes/n, c.Lookups/n
	}
	return c
}

// against is what the packets cost in b, and whether one takes more passes there than in a.
func (s sample) against(a, b *pipeline.Pipeline) (c Cost, worse bool) {
	inA, inB, n := walk.Through(a), walk.Through(b), 0.0
	for _, one := range s {
		packet, oracle := walk.NewPacket(one.Packet), one.Oracle()
		wa := inA.Follow(packet, oracle)
		wb := inB.Follow(packet, oracle.Again())
		if !sound(wa) {
			continue
		}
		if !sound(wb) || wb.Depth() > wa.Depth() {
			return c, true
		}
		c.Passes, c.Lookups, n = c.Passes+float64(wb.Depth()), c.Lookups+float64(lookups(wb)), n+1
	}
	if n > 0 {
		c.Passes, c.Lookups = c.Passes/n, c.Lookups/n
	}
	return c, false
}

// classes tells what packets cost in both, by the way they take in the first.
func (s sample) classes(a, b *pipeline.Pipeline) []Class {
	inA, inB := walk.Through(a), walk.Through(b)
	at := map[string]*Class{}
	out := []Class{}
	for _, one := range s {
		packet, oracle := walk.NewPacket(one.Packet), one.Oracle()
		wa := inA.Follow(packet, oracle)
		wb := inB.Follow(packet, oracle.Again())
		if !sound(wa) || !sound(wb) {
			continue
		}
		c := Class{Name: depth.ClassOf(packet, wa).Name, Passes: [2]int{wa.Depth(), wb.Depth()}}
		k := fmt.Sprintf("%s %v", c.Name, c.Passes)
		if at[k] == nil {
			c.Example, c.Answers = a.PrintTerms(one.Packet), append([]string{}, oracle.Said...)
			at[k] = &c
		}
		at[k].Packets++
		at[k].Lookups[0] += float64(lookups(wa))
		at[k].Lookups[1] += float64(lookups(wb))
	}
	for _, c := range at {
		c.Lookups[0] /= float64(c.Packets)
		c.Lookups[1] /= float64(c.Packets)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Passes[0], a.Passes[0]), cmp.Compare(b.Passes[1], a.Passes[1]),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}
