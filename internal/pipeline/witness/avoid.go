package witness

import (
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// taken is a lookup: how the packet was then, and the flow that is to take it.
type taken struct {
	packet *words
	flow   *pipeline.Flow
}

// avoidOthers has the packet not be one that flows of higher priority than those which were
// chosen take, as far as they are few. It comes last, so that nothing is chosen for it.
func (t *thread) avoidOthers() {
	const many, most = 256, 1024
	for _, n := range t.lookups {
		t.packet = n.packet
		left := most
		for _, k := range t.tables[n.flow.Table] {
			if k.top <= n.flow.Priority || len(k.flows) > many || k.conjunctive {
				continue
			}
			if left -= len(k.flows); left < 0 {
				break
			}
			for _, g := range k.flows {
				if g.Priority > n.flow.Priority {
					t.shun(g.Match)
				}
			}
		}
	}
}

// open is a bit of a match of which nothing is known.
type open struct {
	base pipeline.Base
	bit  int
	r    ref
	want bool
}

// shun has the packet differ from a match in one bit, if it may meet it.
func (t *thread) shun(m pipeline.Match) {
	for _, term := range m { // most often it is another, which is seen at once
		if t.differs(t.get(term.Base), term) {
			return
		}
	}
	var bits, types []open
	for _, term := range m {
		w := t.get(term.Base)
		for i := range term.Mask.Without(w.fixed).Ones() {
			r, want := t.resolved(w.bits[i]), term.Value.Bit(i)
			if r < first {
				if (r == one) != want {
					return
				}
				continue
			}
			o := open{term.Base, i, r, want}
			switch term.Base {
			case pipeline.EthType, pipeline.NWProto, pipeline.InPort:
				types = append(types, o)
			default:
				bits = append(bits, o)
			}
		}
	}
	if len(bits) > 0 {
		o := bits[t.random.IntN(len(bits))]
		t.learn(o.r, !o.want)
		return
	}
	if len(types) == 0 {
		return
	}
	o := types[t.random.IntN(len(types))]
	shunned := m.Get(o.base)
	for _, v := range t.usual(o.base) { // another that is usual, if there is one
		if v.Xor(shunned.Value).And(shunned.Mask).IsZero() {
			continue
		}
		if t.want(pipeline.Match{{Base: o.base, Value: v, Mask: t.p.Words.Full(o.base)}}) {
			return
		}
	}
	t.learn(o.r, !o.want)
}

// usual are values of a field, in any order.
func (t *thread) usual(b pipeline.Base) (out []pipeline.Value) {
	switch b {
	case pipeline.EthType:
		out = []pipeline.Value{{Lo: 0x800}, {Lo: 0x806}, {Lo: 0x86dd}}
	case pipeline.NWProto:
		out = []pipeline.Value{{Lo: 6}, {Lo: 17}, {Lo: 1}, {Lo: 58}}
	case pipeline.InPort:
		if t.aim == nil || t.aim.met != nil || t.random.IntN(4) > 0 { // such are often dropped
			out = append(out, t.ports[:min(len(t.ports), 64)]...)
			break
		}
		p := pipeline.Value{Lo: 1} // one that no flow names
		for slices.Contains(t.ports, p) {
			p.Lo++
		}
		return []pipeline.Value{p}
	}
	t.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
