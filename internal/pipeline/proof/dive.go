package proof

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// dive follows few packets, in any order, through both pipelines at once, but for what they may be:
// where they part, one is made that goes that way. It proves nothing by what it does not find.
type dive struct {
	random   *rand.Rand
	children []*obligation
	// far is how many lookups a table is from one with flows that the two have not in common.
	far map[pipeline.Table]int
	// may reports whether a packet may go by a trail, where that is asked.
	may func(*trail) bool
	// rounds is how often all ways are gone.
	rounds int
	// parted are the ways of packets that may fare differently.
	parted []*trail
	// long is the way of packets that are followed no further: they may go in circles.
	long *trail
}

// trail is the flows that took a packet in both pipelines, the last first. A flow that is nil
// was not looked for: a packet that none took has an entry of no flow. Where there is neither, the
// packet is led into a table by actions, of which one may be nil too.
type trail struct {
	table      pipeline.Table
	fa, fb     *entry
	viaA, viaB *pipeline.Action
	before     *trail
	length     int
}

// trail is one with a lookup more, where such are kept.
func (d *dive) trail(before *trail, id pipeline.Table, fa, fb *entry) *trail {
	if d == nil {
		return nil
	}
	t := &trail{table: id, fa: fa, fb: fb, before: before, length: 1}
	if before != nil {
		t.length += before.length
	}
	return t
}

// led is a trail that is led into a table.
func (d *dive) led(before *trail, viaA, viaB *pipeline.Action) *trail {
	if d == nil {
		return nil
	}
	t := &trail{viaA: viaA, viaB: viaB, before: before}
	if before != nil {
		t.length = before.length
	}
	return t
}

// put has packets be followed from two places on.
func (d *dive) put(s *state, a, b place) {
	k := spot{a, b, s.askedA, s.askedB, s.passedA, s.passedB, s.stackDirty, s.forked, s.setA, s.setB}
	d.children = append(d.children, &obligation{spot: k, dirty: s.dirty, cases: []pair{s.pair}})
}

// lookups are those of a trail in both pipelines.
func (t *trail) lookups() (inA, inB []witness.Lookup) {
	var all []*trail
	for x := t; x != nil; x = x.before {
		all = append(all, x)
	}
	slices.Reverse(all)
	var viaA, viaB *pipeline.Action
	for _, x := range all {
		if x.viaA != nil {
			viaA = x.viaA
		}
		if x.viaB != nil {
			viaB = x.viaB
		}
		if x.fa != nil {
			inA, viaA = append(inA, witness.Lookup{Table: x.table, Flow: x.fa.flow, Via: viaA}), nil
		}
		if x.fb != nil {
			inB, viaB = append(inB, witness.Lookup{Table: x.table, Flow: x.fb.flow, Via: viaB}), nil
		}
	}
	return inA, inB
}

// Bounds of diving: how many lookups one dive looks at, and how many packets are made where they
// part.
const (
	mostVisited = 150
	longest     = 160
	mostMade    = 3
	mostSpent   = 1 << 23
)

// dives looks for a packet that fares differently, within so many steps.
func (l *lockstep) dives(s *search, budget int) *Witness {
	if len(l.a.Lost)+len(l.b.Lost) > 0 {
		return nil
	}
	if s.aimed == nil {
		s.aimed = l.findNeeds(mostAimed)
	}
	l.dive = &dive{random: s.Random, far: l.far(), rounds: mostMade}
	defer func(need *needs) { l.dive, l.need = nil, need }(l.need)
	l.need = s.aimed
	return l.diveFrom(s, budget, l.a.Entry, func(pipeline.Table) { l.enter() },
		func(t *trail) (*Witness, bool) { return s.along(t), true })
}

// node is packets on their way, and what becomes of them: it is found once, however often they are met.
type node struct {
	*obligation
	opened   bool
	children []*node
	// parted are the ways on which they may fare differently; long is one of packets that are followed no
	// further.
	parted []*parting
	long   *trail
	// far says how soon they may part: it is low where they have.
	far float64
}

// parting is a way that is tried until it is known that no packet goes there.
type parting struct {
	*trail
	dead bool
}

// attempt tries packets that go by a trail, and says whether it may be worth to try again.
type attempt func(*trail) (w *Witness, again bool)

// diveFrom looks for a packet that fares differently, of those that come in by enter to a table that is
// picked.
func (l *lockstep) diveFrom(s *search, budget int, pick func() pipeline.Table, enter func(pipeline.Table),
	along attempt) *Witness {
	exhausted, most, roots := 0, s.spent+s.worth(mostSpent), map[pipeline.Table]*node{}
	for until := l.steps + budget; l.steps < until && exhausted < l.dive.rounds && s.spent < most; {
		id := pick()
		l.steps++
		if roots[id] == nil {
			l.dive.children = nil
			enter(id)
			roots[id] = &node{opened: true}
			l.follows(roots[id])
		}
		tried, waiting := false, l.ordered(roots[id])
		for n := 0; len(waiting) > 0 && n < mostVisited && l.steps < until && s.spent < most; n++ {
			o := waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			l.open(o)
			for _, t := range o.parted {
				if t.dead {
					continue
				}
				tried = true
				w, again := along(t.trail)
				if w != nil {
					return w
				}
				t.dead = !again
			}
			next := l.ordered(o)
			if len(next) == 0 && l.dive.may == nil && l.dive.random.IntN(2) == 0 { // what comes next is most often as hopeless
				waiting = waiting[:l.dive.random.IntN(len(waiting)+1)]
			}
			waiting = append(waiting, next...)
		}
		if t := l.dive.long; t != nil && s.limits {
			if w, _ := along(t); w != nil {
				return w
			}
		}
		l.dive.long = nil
		if len(waiting) > 0 {
			continue
		}
		if exhausted++; !tried && l.dive.may != nil && len(roots) == 1 {
			exhausted += l.dive.rounds / fewRounds
		}
	}
	return nil
}

// fewRounds is how often all ways are gone on which nothing is left to be tried.
const fewRounds = 4

// open finds what becomes of packets.
func (l *lockstep) open(n *node) {
	const again = 10
	if n.opened {
		l.steps += again
		return
	}
	n.opened = true
	if t := n.cases[0].trail; l.dive.may != nil && t != nil && !l.dive.may(t) {
		l.steps += stepsPerTrail
		return
	}
	l.dive.children, l.dive.parted = nil, nil
	l.visit(n.obligation)
	for _, t := range l.dive.parted {
		if l.dive.may == nil || l.dive.may(t) {
			n.parted = append(n.parted, &parting{trail: t})
		}
	}
	l.follows(n)
}

// along tries packets that go by a trail.
func (s *search) along(t *trail) *Witness {
	inA, inB := t.lookups()
	for range mostMade {
		c, ok := s.makers[0].Along(inA, s.makers[1], inB, !s.limits)
		if !ok {
			return nil
		}
		if w := s.vary(c); w != nil {
			return w
		}
	}
	return nil
}

// vary tries a packet, and a few times with other answers of the tracker.
func (s *search) vary(c witness.Case) *Witness {
	const few, more = 2, 6
	n := few
	if s.limits {
		n = more
	}
	try := trial{s.inA, s.inB, false, s.Strict, s.limits, &s.spent}
	for range n {
		if w := try.of(c); w != nil {
			return try.plainest(c, w)
		}
		c = c.Varied(s.Random)
	}
	return nil
}

// far is how many lookups tables are from those with flows that the two have not in common.
func (l *lockstep) far() map[pipeline.Table]int {
	out, from := map[pipeline.Table]int{}, map[pipeline.Table][]pipeline.Table{}
	for _, s := range []*side{l.a, l.b} {
		for _, f := range s.Flows {
			ways, _ := s.Jumps(f.Actions, f.Table)
			for _, j := range ways {
				if !slices.Contains(from[j.To], f.Table) {
					from[j.To] = append(from[j.To], f.Table)
				}
			}
		}
	}
	var waiting []pipeline.Table
	for _, o := range l.oddEntries() {
		if _, known := out[o.table]; !known {
			out[o.table], waiting = 0, append(waiting, o.table)
		}
	}
	for len(waiting) > 0 {
		t := waiting[0]
		waiting = waiting[1:]
		for _, f := range from[t] {
			if _, known := out[f]; !known {
				out[f], waiting = out[t]+1, append(waiting, f)
			}
		}
	}
	return out
}

// follows notes packets to follow, but for those that have come far already.
func (l *lockstep) follows(n *node) {
	for _, o := range l.dive.children {
		c := o.cases[0]
		if c.trail != nil && c.trail.length > longest {
			n.long = c.trail
			continue
		}
		far := 0.
		if l.twins(o.state(c), o.spot.a, o.spot.b) {
			far = 1 + noise + float64(l.distance(o.spot.a))
		}
		n.children = append(n.children, &node{obligation: o, far: far})
	}
}

// noise is how much is left to chance in what order packets are followed.
const noise = 4

// ordered is packets to follow, the first to follow last: those that may part soon, more or less,
// and first of all those that have.
func (l *lockstep) ordered(n *node) []*node {
	if n.long != nil {
		l.dive.long = n.long
	}
	rank := map[*node]float64{}
	for _, c := range n.children {
		rank[c] = c.far + l.dive.random.Float64()*noise
	}
	list := slices.Clone(n.children)
	slices.SortStableFunc(list, func(x, y *node) int { return cmp.Compare(rank[y], rank[x]) })
	return list
}

// distance is how far packets in a place are from where the two may part.
func (l *lockstep) distance(p place) int {
	best := nowhere
	if d, ok := l.dive.far[p.table]; ok {
		best = d
	}
	for c := p.cont; c != nil; c = c.next {
		ways, _ := l.a.Jumps(c.rest, c.in)
		for _, j := range ways {
			if d, ok := l.dive.far[j.To]; ok {
				best = min(best, d+1)
			}
		}
	}
	return best
}

const nowhere = 1000
