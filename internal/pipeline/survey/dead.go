package survey

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Dead is a flow that no packet meets, whatever comes. It is not one that has met none
// so far.
type Dead struct {
	Line  int    `json:"line"`
	Table string `json:"table"`
	// Reason is one of the constants, Why says it in words, By the lines that hide it.
	Reason Reason `json:"reason"`
	Why    string `json:"why"`
	By     []int  `json:"by,omitempty"`
	Flow   string `json:"flow"`
}

// Reason for which a flow is dead.
type Reason string

// Reasons.
const (
	// Hidden: a flow of higher priority takes each packet that it wants.
	Hidden Reason = "hidden"
	// HiddenTogether: several do.
	HiddenTogether Reason = "hidden-together"
	// NotReached: no way leads into its table.
	NotReached Reason = "not-reached"
	// NeverLoaded: it wants a value that nothing writes.
	NeverLoaded Reason = "never-loaded"
)

// verdict finds the dead flows. In doubt a flow is not dead.
type verdict struct {
	*pipeline.Pipeline
	tables  map[pipeline.Table][]*pipeline.Flow
	learnt  pipeline.Learnt
	order   []pipeline.Table
	reached map[pipeline.Table]bool
	why     map[*pipeline.Flow]Dead
	unsure  []string
	// spent is how many matches were looked at to find hidden flows.
	spent int
}

func (v *verdict) decide() {
	v.why, v.learnt = map[*pipeline.Flow]Dead{}, v.Learnt()
	for id := range v.tables {
		v.order = append(v.order, id)
	}
	slices.Sort(v.order)
	for _, id := range v.order {
		v.hidden(id)
	}
	// What is never loaded depends on what is reached, and the other way round: each round
	// finds more that is dead, so that this ends.
	for {
		before := len(v.why)
		v.reach()
		v.loads()
		if len(v.why) == before {
			return
		}
	}
}

func (v *verdict) dead() []Dead {
	out := []Dead{}
	for f, d := range v.why {
		d.Line, d.Table, d.Flow = f.Line, v.Names.FormatTable(f.Table), v.Print(f, pipeline.AsGiven)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Dead) int { return a.Line - b.Line })
	return out
}

// steady reports whether a flow stays, so that it can hide others. One that a flow which is learnt
// may replace does not.
func (v *verdict) steady(f *pipeline.Flow) bool {
	return !v.Fleeting(f) && len(f.Carried) == 0 && !conjunctive(f) && !v.learnt.MayReplace(f)
}

// hidden looks for flows of a table that those of higher priority hide.
func (v *verdict) hidden(id pipeline.Table) {
	flows := v.tables[id]
	seen, above := index{}, []*pipeline.Flow(nil)
	for i := 0; i < len(flows); {
		j := i
		for ; j < len(flows) && flows[j].Priority == flows[i].Priority; j++ {
			f := flows[j]
			if len(f.Carried) == 0 && v.spent < mostSpent && seen.maybeHides(f, &v.spent) {
				if d, ok := hiddenBy(f, above, &v.spent); ok {
					v.why[f] = d
				}
			}
		}
		for ; i < j; i++ {
			if f := flows[i]; v.steady(f) {
				seen.add(f.Match)
				above = append(above, f)
			}
		}
	}
}

// index finds out fast whether a packet is one that some match wants: matches with the
// same masks are together, by their values.
type index struct {
	kinds []masks
	at    map[string]int
}

type masks struct {
	match  pipeline.Match // whose masks they are
	values map[string]bool
}

func (x *index) add(m pipeline.Match) {
	k := string(m.Key(func(t pipeline.Term) pipeline.Value { return t.Mask }))
	if x.at == nil {
		x.at = map[string]int{}
	}
	i, ok := x.at[k]
	if !ok {
		i = len(x.kinds)
		x.at[k] = i
		x.kinds = append(x.kinds, masks{m, map[string]bool{}})
	}
	x.kinds[i].values[string(m.Key(func(t pipeline.Term) pipeline.Value { return t.Value }))] = true
}

// maybeHides is false if some packet that the flow wants is wanted by nobody here: then
// it is not hidden. It tries a few packets, the same ones each time.
func (x *index) maybeHides(f *pipeline.Flow, spent *int) bool {
	random := rand.New(rand.NewPCG(1, uint64(f.Line)))
	const tries = 12
	for try := range tries {
		fill := func(pipeline.Base) pipeline.Value {
			switch try {
			case 0:
				return pipeline.Value{}
			case 1:
				return pipeline.Value{Hi: ^uint64(0), Lo: ^uint64(0)}
			}
			return pipeline.Value{Hi: random.Uint64(), Lo: random.Uint64()}
		}
		*spent += len(x.kinds)
		if !x.wants(f.Match, fill) {
			return false
		}
	}
	return true
}

// wants reports whether some match wants the packet that has the match's bits, and others
// as fill has them.
func (x *index) wants(m pipeline.Match, fill func(pipeline.Base) pipeline.Value) bool {
	packet := map[pipeline.Base]pipeline.Value{}
	get := func(b pipeline.Base) pipeline.Value {
		if v, ok := packet[b]; ok {
			return v
		}
		t := m.Get(b)
		packet[b] = fill(b).Without(t.Mask).Or(t.Value)
		return packet[b]
	}
	for _, k := range x.kinds {
		if k.values[string(k.match.Key(func(t pipeline.Term) pipeline.Value { return get(t.Base).And(t.Mask) }))] {
			return true
		}
	}
	return false
}

// Bounds of the exact check, for one flow and for all: beyond them a flow counts as alive.
const (
	mostPieces = 4096
	mostWork   = 200000
	mostSpent  = 30_000_000
)

// hiddenBy decides exactly whether flows of higher priority, which stay, take all that f wants.
func hiddenBy(f *pipeline.Flow, above []*pipeline.Flow, spent *int) (Dead, bool) {
	var by []*pipeline.Flow
	*spent += len(above)
	for _, g := range above {
		if !g.Match.Meets(f.Match) {
			continue
		}
		if g.Match.Covers(f.Match) {
			return Dead{Reason: Hidden, Why: fmt.Sprintf("hidden by the flow of line %d", g.Line), By: []int{g.Line}}, true
		}
		by = append(by, g)
	}
	// Flows that leave the fewest bits open take the largest pieces; they come first.
	slices.SortStableFunc(by, func(a, b *pipeline.Flow) int { return len(a.Match) - len(b.Match) })
	rest, work := []pipeline.Match{f.Match}, 0
	defer func() { *spent += work }()
	var used []int
	for _, g := range by {
		var next []pipeline.Match
		took := false
		for _, piece := range rest {
			work++
			if !piece.Meets(g.Match) {
				next = append(next, piece)
				continue
			}
			took = true
			next = append(next, piece.Less(g.Match)...)
			if len(next) > mostPieces || work > mostWork {
				return Dead{}, false
			}
		}
		if took {
			used = append(used, g.Line)
		}
		rest = next
		if len(rest) == 0 {
			slices.Sort(used)
			return Dead{Reason: HiddenTogether, Why: "hidden by the flows of " + pipeline.Lines(used) + " together",
				By: used}, true
		}
	}
	return Dead{}, false
}
