package reduction

import (
	"cmp"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/depth"
	"pathwise.dev/pathwise/internal/pipeline/walk"
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

// classes tells what packets cost in both, by the way they take in the first.
func (s *sample) classes(a, b *pipeline.Pipeline) []Class {
	inA, inB := walk.Through(a), walk.Through(b)
	at := map[string]*Class{}
	out := []Class{}
	for _, one := range s.packets {
		packet, oracle := walk.NewPacket(one.Packet), one.Oracle()
		wa := inA.Follow(packet, oracle)
		wb := inB.Follow(packet, oracle.Again())
		if !sound(wa) || !sound(wb) {
			continue
		}
		c := Class{Name: depth.ClassOf(packet, wa).Name, Passes: [2]int{wa.Depth(), wb.Depth()}}
		k := fmt.Sprintf("%s %v", c.Name, c.Passes)
		if at[k] == nil {
			c.Example, c.Answers = a.PrintPacket(one.Packet), append([]string{}, oracle.Said...)
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
