package pipeline

import "slices"

// Jump is a way from one flow into a table.
type Jump struct {
	To   Table
	Kind Kind
}

// Jumps lists where a list of actions leads, through groups too. Sure is false where there may
// be more: actions that were not understood, groups that are not known.
func (p *Pipeline) Jumps(list []Action, from Table) (out []Jump, sure bool) {
	sure = true
	p.walk(list, map[uint64]bool{}, func(a Action) (into bool) {
		switch a.Kind {
		case Resubmit:
			to := a.Table
			if to == NoTable {
				to = from
			}
			out = append(out, Jump{to, Resubmit})
		case Goto:
			out = append(out, Jump{a.Table, Goto})
		case CT:
			if a.Track.Table != NoTable {
				out = append(out, Jump{a.Track.Table, CT})
			}
		case GroupAction:
			sure = sure && p.Group(uint32(a.N)) != nil
		case Output:
			sure = sure && a.Port != PortTable
		case Unknown:
			sure = false
		}
		return a.Kind != CT // what is in its exec leads nowhere
	})
	return out, sure
}

// Learnt is the flows that are learnt into each table, one for each action that does so.
type Learnt map[Table][]Lesson

// Lesson is flows that are learnt, and the flow by which.
type Lesson struct {
	*Learned
	By *Flow
}

// Learnt finds those of the pipeline, in the order of the flows by which.
func (p *Pipeline) Learnt() Learnt {
	out := Learnt{}
	for _, f := range p.Flows {
		p.Each(f.Actions, func(a Action) {
			if a.Kind == Learn {
				out[a.Table] = append(out[a.Table], Lesson{a.Learned, f})
			}
		})
	}
	return out
}

// InPlaceOf is a flow that is learnt while there is one with its match and priority: that one then does what the
// learnt one does, with its cookie, and keeps time-outs and flags.
func (f *Flow) InPlaceOf(old *Flow) *Flow {
	out := *f
	out.IdleTimeout, out.HardTimeout = old.IdleTimeout, old.HardTimeout
	out.Importance, out.Flags = old.Importance, old.Flags
	return &out
}

// MayReplace reports whether a flow that is learnt may take that one's place.
func (l Learnt) MayReplace(f *Flow) bool {
	return slices.ContainsFunc(l[f.Table], func(k Lesson) bool { return k.Priority == f.Priority })
}

// Each calls fn for all actions of a list, those inside others and in groups too, each group
// once.
func (p *Pipeline) Each(list []Action, fn func(Action)) {
	p.walk(list, map[uint64]bool{}, func(a Action) bool {
		fn(a)
		return true
	})
}

// Any reports whether some action of a list, or one inside another or in a group, is so.
func (p *Pipeline) Any(list []Action, is func(Action) bool) (some bool) {
	p.Each(list, func(a Action) { some = some || is(a) })
	return some
}

// Fleeting reports whether a flow may end by itself: it has a time-out, or an action that gives it one.
func (p *Pipeline) Fleeting(f *Flow) bool {
	return f.IdleTimeout > 0 || f.HardTimeout > 0 || p.Any(f.Actions, func(a Action) bool { return a.Kind == FinTimeout })
}

// walk calls fn for all actions, and for those inside one where fn says so. Groups may hold
// each other, and themselves: those that are in seen are not entered again.
func (p *Pipeline) walk(list []Action, seen map[uint64]bool, fn func(Action) (into bool)) {
	for _, a := range list {
		if fn(a) {
			p.walk(a.Nested, seen, fn)
		}
		if a.Kind != GroupAction || seen[a.N] {
			continue
		}
		seen[a.N] = true
		if g := p.Group(uint32(a.N)); g != nil {
			for _, b := range g.Buckets {
				p.walk(b.Actions, seen, fn)
			}
		}
	}
}

// Group is the one of that number, or nil.
func (p *Pipeline) Group(id uint32) *Group { return p.byID[id] }

// With is the same bridge with other flows. The flows are not copied.
func (p *Pipeline) With(flows []*Flow) *Pipeline {
	out := *p
	out.Flows = flows
	return &out
}

// Entry is the table that packets enter: 0, or the first of the input where tables have
// names only.
func (p *Pipeline) Entry() Table {
	if len(p.entries) > 0 {
		return p.entries[0]
	}
	for _, f := range p.Flows {
		if f.Table < Unnumbered {
			return 0
		}
	}
	if len(p.Flows) == 0 {
		return 0
	}
	return p.Flows[0].Table
}
