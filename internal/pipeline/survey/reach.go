package survey

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// reach finds the tables that live flows lead to. Where something may lead anywhere, none
// is said not to be reached.
func (v *verdict) reach() {
	v.reached = map[pipeline.Table]bool{}
	v.unsure = nil
	work := v.Entries()
	for _, t := range work {
		v.reached[t] = true
	}
	sure := len(v.Lost) == 0
	if !sure {
		if n := len(v.Lost); n > 1 {
			v.doubt("%d lines were not understood", n)
		} else {
			v.doubt("a line was not understood")
		}
	}
	for len(work) > 0 {
		t := work[0]
		work = work[1:]
		for _, f := range v.tables[t] {
			if _, dead := v.why[f]; dead {
				continue
			}
			ways, ok := v.Jumps(f.Actions, t)
			if !ok {
				sure = false
				v.doubt("line %d has an action or a group that is not known", f.Line)
			}
			for _, w := range ways {
				if !v.reached[w.To] {
					v.reached[w.To] = true
					work = append(work, w.To)
				}
			}
		}
	}
	if !sure {
		for _, t := range v.order {
			v.reached[t] = true
		}
		return
	}
	for _, t := range v.order {
		if v.reached[t] {
			continue
		}
		for _, f := range v.tables[t] {
			if _, dead := v.why[f]; !dead {
				v.why[f] = Dead{Reason: NotReached, Why: fmt.Sprintf("table %s is not reached from table %s",
					v.Names.FormatTable(t), v.Names.FormatTable(v.Entry()))}
			}
		}
	}
}

// doubt notes a reason, the first few.
func (v *verdict) doubt(format string, args ...any) {
	const most = 5
	s := fmt.Sprintf(format, args...)
	if len(v.unsure) < most && !slices.Contains(v.unsure, s) {
		v.unsure = append(v.unsure, s)
	}
}

// holdings are what registers may hold: which bits may be set or clear, and, while all
// writes are of constants, which values.
type holdings struct {
	zero, one pipeline.Value
	values    map[pipeline.Value]bool // of a whole part; nil when they are not all known
}

// part is a register or half of the metadata, that is read and written as one.
type part struct {
	base  pipeline.Base
	shift int
}

// parts lists the parts that switches clear when a packet comes: nothing else is in them
// than what flows write.
func parts() (out []part) {
	for _, b := range []pipeline.Base{pipeline.Reg0, pipeline.Reg4, pipeline.Reg8, pipeline.Reg12} {
		for s := 0; s < 128; s += 32 {
			out = append(out, part{b, s})
		}
	}
	return append(out, part{pipeline.Metadata, 0}, part{pipeline.Metadata, 32})
}

// mostValues is how many values of a register are told apart.
const mostValues = 1 << 14

// loads finds the flows that want what nothing writes.
func (v *verdict) loads() {
	held := map[part]*holdings{}
	for _, p := range parts() {
		held[p] = &holdings{zero: word(), values: map[pipeline.Value]bool{{}: true}}
	}
	tracked := false
	made := map[pipeline.Table]map[uint64]bool{}
	for _, t := range v.order {
		if !v.reached[t] {
			continue
		}
		for _, f := range v.tables[t] {
			if _, dead := v.why[f]; dead {
				continue
			}
			v.Each(f.Actions, func(a pipeline.Action) {
				write(held, a)
				switch a.Kind {
				case pipeline.CT:
					tracked = tracked || a.Track.Table != pipeline.NoTable
				case pipeline.Unknown:
					tracked = true
				case pipeline.Conjunction:
					if made[t] == nil {
						made[t] = map[uint64]bool{}
					}
					made[t][a.N] = true
				}
			})
		}
	}
	for _, t := range v.order {
		for _, f := range v.tables[t] {
			if _, dead := v.why[f]; dead || !v.reached[t] {
				continue
			}
			if why := v.wanting(f, held, tracked, made[t]); why != "" {
				v.why[f] = Dead{Reason: NeverLoaded, Why: why}
			}
		}
	}
}

func word() pipeline.Value { return pipeline.Value{Lo: 1<<32 - 1} }

// write notes what an action may leave in registers.
func write(held map[part]*holdings, a pipeline.Action) {
	if a.Kind == pipeline.Unknown || a.Kind == pipeline.Learn {
		for _, h := range held { // it, or what is learnt, may write anything
			*h = holdings{zero: word(), one: word()}
		}
		return
	}
	if a.Dst.Field == nil || a.Kind == pipeline.Push {
		return
	}
	bits := a.Dst.Mask()
	value, known := pipeline.Value{}, false
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta:
		bits = a.Mask.Left(a.Dst.Shift()).And(bits)
		value, known = a.Value.Left(a.Dst.Shift()), true
	}
	for p, h := range held {
		m := bits.Right(p.shift).And(word())
		if p.base != a.Dst.Field.Base || m.IsZero() {
			continue
		}
		x := value.Right(p.shift).And(m)
		if !known {
			h.zero, h.one, h.values = h.zero.Or(m), h.one.Or(m), nil
			continue
		}
		h.zero, h.one = h.zero.Or(m.Without(x)), h.one.Or(x)
		if m != word() || h.values == nil || len(h.values) >= mostValues {
			h.values = nil
			continue
		}
		h.values[x] = true
	}
}

// wanting says what a flow wants that nothing gives, or nothing.
func (v *verdict) wanting(f *pipeline.Flow, held map[part]*holdings, tracked bool, made map[uint64]bool) string {
	for _, p := range parts() {
		t := f.Match.Get(p.base)
		m, x := t.Mask.Right(p.shift).And(word()), t.Value.Right(p.shift).And(word())
		if m.IsZero() || held[p].may(x, m) {
			continue
		}
		name := v.Words.Parts(p.base, word().Left(p.shift))[0]
		return fmt.Sprintf("no flow loads %s with what it wants (%#x)", name, x.Lo)
	}
	if t := f.Match.Get(pipeline.CTState); !tracked && !t.Value.IsZero() {
		return "it wants a tracked packet, and no ct sends one on"
	}
	if t := f.Match.Get(pipeline.ConjID); t.Mask == word() && !t.Value.IsZero() && !made[t.Value.Lo] {
		return fmt.Sprintf("no conjunction of its table has the number %d", t.Value.Lo)
	}
	return ""
}

// may reports whether the bits under the mask may be x.
func (h *holdings) may(x, mask pipeline.Value) bool {
	if !x.Without(h.one).IsZero() || !mask.Without(x).Without(h.zero).IsZero() {
		return false
	}
	if h.values == nil {
		return true
	}
	for y := range h.values {
		if y.Xor(x).And(mask).IsZero() {
			return true
		}
	}
	return false
}
