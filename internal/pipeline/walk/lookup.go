package walk

import (
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Tables finds the flow that takes a packet. Matches with the same masks are together,
// by their values, as in Open vSwitch's own classifier.
type Tables struct {
	tables map[pipeline.Table]*table
}

type table struct {
	kinds []*kind
	// partial says that there are parts of conjunctions.
	partial bool
	// carried are flows whose match was not understood.
	carried []*pipeline.Flow
}

// kind is the flows of a table whose matches have the same masks.
type kind struct {
	match pipeline.Match
	top   int // the highest priority
	flows map[string][]*pipeline.Flow
}

// NewTables sorts the flows of a pipeline.
func NewTables(p *pipeline.Pipeline) *Tables {
	t := &Tables{map[pipeline.Table]*table{}}
	t.sort(p, func(pipeline.Table) bool { return true })
	return t
}

// instead is those of a pipeline that differs in the flows of some tables only.
func (t *Tables) instead(p *pipeline.Pipeline, differ map[pipeline.Table]bool) *Tables {
	out := &Tables{maps.Clone(t.tables)}
	for id := range differ {
		delete(out.tables, id)
	}
	out.sort(p, func(id pipeline.Table) bool { return differ[id] })
	return out
}

// sort sorts the flows of some tables.
func (t *Tables) sort(p *pipeline.Pipeline, some func(pipeline.Table) bool) {
	at := map[pipeline.Table]map[string]*kind{}
	for _, f := range p.Flows {
		if !some(f.Table) {
			continue
		}
		if at[f.Table] == nil {
			t.tables[f.Table], at[f.Table] = &table{}, map[string]*kind{}
		}
		in := t.tables[f.Table]
		if len(f.Carried) > 0 {
			in.carried = append(in.carried, f)
			continue
		}
		in.partial = in.partial || conjunctive(f)
		masks := string(f.Match.Key(func(t pipeline.Term) pipeline.Value { return t.Mask }))
		k := at[f.Table][masks]
		if k == nil {
			k = &kind{match: f.Match, flows: map[string][]*pipeline.Flow{}}
			at[f.Table][masks] = k
			in.kinds = append(in.kinds, k)
		}
		values := string(f.Match.Key(func(t pipeline.Term) pipeline.Value { return t.Value }))
		k.flows[values] = added(k.flows[values], f)
		k.top = max(k.top, f.Priority)
	}
	for id := range at {
		in := t.tables[id]
		slices.SortStableFunc(in.kinds, func(a, b *kind) int { return b.top - a.top })
		for _, k := range in.kinds {
			for _, list := range k.flows {
				slices.SortStableFunc(list, func(a, b *pipeline.Flow) int { return b.Priority - a.Priority })
			}
		}
	}
}

// kinds is how many there are of a table: what a lookup tries at most.
func (t *Tables) kinds(id pipeline.Table) int {
	if in := t.tables[id]; in != nil {
		return len(in.kinds) + len(in.carried)
	}
	return 0
}

// added is the flows with one more, which takes the place of one with its priority, as in a
// switch.
func added(list []*pipeline.Flow, f *pipeline.Flow) []*pipeline.Flow {
	for i, old := range list {
		if old.Priority == f.Priority {
			list[i] = f
			return list
		}
	}
	return append(list, f)
}

// found is what a lookup says: the flow, or none, and others of its priority that want the
// packet too, or flows that may, as their matches were not understood.
type found struct {
	flow      *pipeline.Flow
	undefined *pipeline.Flow
	doubtful  *pipeline.Flow
	// others are all of its priority that want the packet, but for one conjunction of several.
	others []*pipeline.Flow
	// rivals says that several conjunctions were complete.
	rivals bool
}

// lookup finds the flow of the highest priority that wants the packet.
func (t *Tables) lookup(id pipeline.Table, p *Packet) found {
	in := t.tables[id]
	if in == nil {
		return found{}
	}
	out := in.best(p)
	for _, f := range in.carried {
		if (out.flow == nil || f.Priority >= out.flow.Priority) && wants(f.Match, p) {
			out.doubtful = f
		}
	}
	return out
}

// best is the lookup among flows that were understood. Parts of conjunctions count where
// all of one's dimensions are there (classifier_lookup of lib/classifier.c).
func (t *table) best(p *Packet) found {
	hard := t.plain(p)
	if !t.partial {
		return hard
	}
	var soft []*pipeline.Flow
	for _, k := range t.kinds {
		if hard.flow != nil && k.top <= hard.flow.Priority {
			break
		}
		for _, f := range k.at(p) {
			if conjunctive(f) && (hard.flow == nil || f.Priority > hard.flow.Priority) {
				soft = append(soft, f)
			}
		}
	}
	slices.SortStableFunc(soft, func(a, b *pipeline.Flow) int { return b.Priority - a.Priority })
	for i := 0; i < len(soft); {
		j := i
		for j < len(soft) && soft[j].Priority == soft[i].Priority {
			j++
		}
		ids := complete(soft[i:j])
		if len(ids) > 0 {
			q := p.clone()
			q.fields[pipeline.ConjID] = pipeline.Value{Lo: ids[0]}
			if out := t.plain(q); out.flow != nil {
				if out.rivals = len(ids) > 1; out.rivals && out.undefined == nil {
					out.undefined = soft[j-1]
				}
				return out
			}
		}
		i = j
	}
	return hard
}

// plain is the lookup among flows that are no parts of conjunctions.
func (t *table) plain(p *Packet) (out found) {
	for _, k := range t.kinds {
		if out.flow != nil && k.top < out.flow.Priority {
			break
		}
		for _, f := range k.at(p) {
			switch {
			case t.partial && conjunctive(f):
			case out.flow == nil || f.Priority > out.flow.Priority:
				out = found{flow: f}
			case f.Priority == out.flow.Priority:
				out.undefined, out.others = f, append(out.others, f)
			}
		}
	}
	return out
}

// at is the flows of the kind that want the packet.
func (k *kind) at(p *Packet) []*pipeline.Flow {
	var room [17 * 16]byte
	return k.flows[string(k.match.AppendKey(room[:0],
		func(t pipeline.Term) pipeline.Value { return p.fields[t.Base].And(t.Mask) }))]
}

func wants(m pipeline.Match, p *Packet) bool {
	for _, t := range m {
		if p.fields[t.Base].And(t.Mask) != t.Value {
			return false
		}
	}
	return true
}

// conjunctive reports whether a flow is a part of a conjunction, which takes no packet.
func conjunctive(f *pipeline.Flow) bool {
	return slices.ContainsFunc(f.Actions, func(a pipeline.Action) bool { return a.Kind == pipeline.Conjunction })
}

// complete lists conjunctions all of whose dimensions are among the flows.
func complete(flows []*pipeline.Flow) (out []uint64) {
	type dims struct {
		seen uint64
		n    int
	}
	all := map[uint64]dims{}
	for _, f := range flows {
		for _, a := range f.Actions {
			if a.Kind == pipeline.Conjunction {
				d := all[a.N]
				d.seen, d.n = d.seen|1<<(a.Clause-1), a.Clauses
				all[a.N] = d
			}
		}
	}
	for id, d := range all {
		if d.seen == 1<<d.n-1 {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
