package proof

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
)

// spot is where a packet is in both pipelines, as far as it is told apart.
type spot struct {
	a, b                     place
	askedA, askedB           string
	passedA, passedB, popped bool
	forked                   bool
	setA, setB               string
}

// obligation is that packets at a spot fare alike from there on.
type obligation struct {
	spot  spot
	dirty pipeline.Match
	// cases are what is known of them; those up to followed were followed on from here with
	// these bits dirty.
	cases    []pair
	followed int
	// limit is how many cases there may be before they are merged.
	limit int
	busy  bool
}

// fewCases are kept apart at a spot as they are, mostCases by what flows that can tell the
// two pipelines apart read.
const (
	fewCases  = 24
	mostCases = 200
)

// lockstep walks through both pipelines at once, for all packets. What it cannot show is an
// obstacle.
type lockstep struct {
	a, b   *side
	strict bool
	alike  map[pipeline.Table]bool
	// telling are the bits that flows read which the two have not in common.
	telling   pipeline.Match
	mostCases int
	// wanted is what packets are that such flows take.
	wanted []pipeline.Match
	// often is what flows of several tables want.
	often map[string]bool
	// uses are the kinds of actions that either has; timed says that some flow may time out.
	uses  map[pipeline.Kind]bool
	timed bool
	at    map[spot]*obligation
	// names are the questions that are told apart in two places.
	names map[[2]place]map[string]bool
	work  []*obligation
	// steps are those so far, budget how many there may be: a step takes some 2.5 us.
	steps, budget int
	// need is what packets must be to meet what the two have not in common, nil if that is not known.
	need *needs
	// came finds what packets may be in each table of A.
	came *entrance
	// reads are the bits of registers that are read later, in A and in B.
	reads [2]*live
	// local is what is read in A and in B after each table, while it is shown table by table.
	local [2]map[pipeline.Table]pipeline.Match
	// dive is set while single packets are followed, to find one that fares differently.
	dive *dive
	// obstacles are what was not shown; none, and the two do the same.
	obstacles []Reason
	seen      map[string]bool
}

// Reason says what was not shown, and where.
type Reason struct {
	// LineA and LineB are of the flows, 0 where none takes the packet.
	LineA int    `json:"lineA"`
	LineB int    `json:"lineB"`
	Why   string `json:"why"`
	// Packet is what was known of one there.
	Packet string `json:"packet"`
}

// Bounds: what is beyond is undecided.
const (
	fewestSteps   = 400_000
	stepsPerFlow  = 400
	mostObstacles = 50
	mostDeep      = 12
	mostSpots     = 20_000
)

func newLockstep(a, b *pipeline.Pipeline, strict bool) *lockstep {
	l := &lockstep{a: newSide(a), b: newSide(b), strict: strict, at: map[spot]*obligation{}, seen: map[string]bool{},
		names: map[[2]place]map[string]bool{},
		uses:  map[pipeline.Kind]bool{}, mostCases: mostCases,
		budget: fewestSteps + stepsPerFlow*max(len(a.Flows), len(b.Flows))}
	l.flee()
	if l.alike = alike(l.a, l.b); l.prune() {
		l.alike = alike(l.a, l.b)
	}
	l.telling = l.telling.With(pipeline.EthType, pipeline.Value{}, a.Words.Full(pipeline.EthType))
	for _, s := range []*side{l.a, l.b} {
		for _, f := range s.Flows {
			s.Each(f.Actions, func(a pipeline.Action) { l.uses[a.Kind] = true })
		}
		for _, t := range s.tables {
			for _, e := range t.all {
				if e.partner != nil && e.partner.text == e.text {
					continue
				}
				if e.part {
					t.oddParts = append(t.oddParts, e)
				}
				l.tell(e.match)
			}
		}
	}
	l.reads = [2]*live{newLive(l.a), newLive(l.b)}
	l.need = l.findNeeds(mostNeeds)
	return l
}

// run shows that packets fare alike, or finds obstacles.
func (l *lockstep) run() {
	if n := len(l.a.Lost) + len(l.b.Lost); n > 0 {
		l.obstacle(nil, nil, nil, "%d lines are no flows", n)
	}
	l.enter()
	l.follow()
}

// follow goes on with all packets there are.
func (l *lockstep) follow() {
	for len(l.work) > 0 && len(l.obstacles) < mostObstacles {
		if l.steps > l.budget || len(l.at) > mostSpots {
			l.tooLarge()
			return
		}
		at := l.first()
		o := l.work[at]
		l.work = append(l.work[:at], l.work[at+1:]...)
		o.busy = false
		l.visit(o)
	}
}

// enter has all packets come in.
func (l *lockstep) enter() {
	var s state
	for _, b := range []pipeline.Base{pipeline.Reg0, pipeline.Reg4, pipeline.Reg8, pipeline.Reg12, pipeline.Metadata} {
		s.write(true, b, pipeline.Value{}, l.a.Words.Full(b))
		s.write(false, b, pipeline.Value{}, l.a.Words.Full(b))
	}
	s.untrack(true)
	s.untrack(false)
	l.add(&s, place{look: true, table: l.a.Entry(), port: noPort}, place{look: true, table: l.b.Entry(), port: noPort})
}

// tooLarge notes the flows that the two have not in common as ones of which nothing was shown.
func (l *lockstep) tooLarge() {
	const why = "the pipelines are too large to compare in all ways through them"
	odd := l.oddEntries()
	for _, o := range odd[:min(len(odd), 5)] {
		if o.inA {
			l.obstacle(o.flow, nil, nil, why)
		} else {
			l.obstacle(nil, o.flow, nil, why)
		}
	}
	if len(odd) == 0 {
		l.obstacle(nil, nil, nil, why)
	}
}

// tell has the bits that a match wants be told apart.
func (l *lockstep) tell(match pipeline.Match) {
	for _, m := range match {
		l.telling = l.telling.With(m.Base, pipeline.Value{}, m.Mask)
	}
}

// refine begins again, and keeps more packets apart: also by what the flows read that may take
// them in the place of those that the two have not in common.
func (l *lockstep) refine() {
	const more = 5
	for _, o := range l.oddEntries() {
		for _, y := range l.side(!o.inA).at(o.table).flows {
			if y.text == o.text || !y.match.Meets(o.match) {
				continue
			}
			l.tell(y.match)
		}
		if o.conjunct {
			for _, k := range l.side(o.inA).at(o.table).conjunctions[o.conj] {
				for _, d := range k.dims {
					for _, e := range d {
						l.tell(e.match)
					}
				}
			}
		}
	}
	for _, s := range []*side{l.a, l.b} {
		for _, t := range s.tables {
			t.complement()
		}
	}
	l.want()
	l.mostCases *= more
	l.again()
	l.run()
}

// again forgets what was looked at.
func (l *lockstep) again() {
	l.names = map[[2]place]map[string]bool{}
	l.at, l.seen, l.obstacles, l.work, l.steps = map[spot]*obligation{}, map[string]bool{}, nil, nil, 0
}

// first is the spot to look at next: those of low tables first, so that most ways into a
// table are known when it is looked at.
func (l *lockstep) first() (at int) {
	rank := func(o *obligation) int { return int(o.spot.a.table) + int(o.spot.b.table) }
	for i, o := range l.work {
		if rank(o) < rank(l.work[at]) {
			at = i
		}
	}
	return at
}

// add has packets in a state fare alike from two places on.
func (l *lockstep) add(s *state, a, b place) {
	if a.ended() && b.ended() {
		l.ends(s)
		return
	}
	l.forget(s, a, b)
	if l.settled(s, a, b) || l.local[0] != nil && l.twins(s, a, b) {
		return
	}
	if l.need != nil && l.twins(s, a, b) {
		for _, next := range l.need.narrowed(s, a) {
			l.put(next, a, b)
		}
		return
	}
	l.put(s, a, b)
}

// put has packets in a state be followed from two places on.
func (l *lockstep) put(s *state, a, b place) {
	if deep(a) > mostDeep || deep(b) > mostDeep {
		l.obstacle(nil, nil, &s.pair, "tables are looked up within each other too deeply")
		return
	}
	if !identical(s.a, s.b) && slices.Equal(s.a, s.b) {
		s.b = s.a // is compared, and narrowed, once
	}
	if l.dive != nil {
		l.dive.put(s, a, b)
		return
	}
	s = l.named(s, a, b)
	k := spot{a, b, s.askedA, s.askedB, s.passedA, s.passedB, s.stackDirty, s.forked, s.setA, s.setB}
	o := l.at[k]
	if o == nil {
		o = &obligation{spot: k}
		l.at[k] = o
		o.dirty, o.cases = s.dirty, []pair{s.pair}
		o.busy = true
		l.work = append(l.work, o)
		return
	}
	if o.grow(s, l.telling, l.mostCases) && !o.busy {
		o.busy = true
		l.work = append(l.work, o)
	}
}

func deep(p place) int {
	if p.cont == nil {
		return 0
	}
	return p.cont.deep
}

// grow takes more packets in, and says whether there are any.
func (o *obligation) grow(s *state, telling pipeline.Match, most int) bool {
	changed := false
	for _, t := range s.dirty {
		if !t.Mask.Without(o.dirty.Get(t.Base).Mask).IsZero() {
			o.dirty, changed, o.followed = o.dirty.With(t.Base, pipeline.Value{}, t.Mask), true, 0
		}
	}
	for _, c := range o.cases {
		if s.allNot(c.not) && c.a.Covers(s.a) && (identical(c.a, c.b) && identical(s.a, s.b) || c.b.Covers(s.b)) {
			return changed
		}
	}
	o.cases = append(o.cases, s.pair)
	if len(o.cases) > max(fewCases, o.limit) {
		o.followed = 0
		o.cases = merged(o.cases, telling)
		if len(o.cases) > most {
			o.cases = merged(o.cases, telling[:0].With(pipeline.EthType, pipeline.Value{}, all()))
		}
		if len(o.cases) > most {
			o.cases = merged(o.cases, nil)
		}
		o.limit = 2 * len(o.cases)
	}
	return true
}

// merged keeps apart only packets that differ in some bits.
func merged(cases []pair, bits pipeline.Match) (out []pair) {
	at := map[string]int{}
	for _, c := range cases {
		k := knownOf(bits, c.a) + "/" + knownOf(bits, c.b)
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			out = append(out, c)
			continue
		}
		not := shared(out[i], c)
		if identical(out[i].a, out[i].b) && identical(c.a, c.b) {
			m := common(out[i].a, c.a)
			out[i] = pair{m, m, not, nil}
			continue
		}
		out[i] = pair{common(out[i].a, c.a), common(out[i].b, c.b), not, nil}
	}
	return out
}

// knownOf is, as a key, which of the bits a match knows, and as what.
func knownOf(bits, m pipeline.Match) string {
	var b []byte
	for _, t := range bits {
		o := m.Get(t.Base)
		mask, v := o.Mask.And(t.Mask), o.Value.And(t.Mask)
		b = fmt.Appendf(b, "%x.%x.%x.%x,", mask.Hi, mask.Lo, v.Hi, v.Lo)
	}
	return string(b)
}

// state is that of one of the obligation's cases.
func (o *obligation) state(c pair) *state {
	return &state{pair: c, dirty: o.dirty, askedA: o.spot.askedA, askedB: o.spot.askedB, passedA: o.spot.passedA,
		passedB: o.spot.passedB, stackDirty: o.spot.popped, setA: o.spot.setA, setB: o.spot.setB,
		forked: o.spot.forked}
}

// obstacle notes what was not shown.
func (l *lockstep) obstacle(fa, fb *pipeline.Flow, c *pair, format string, args ...any) {
	if l.dive != nil {
		if c != nil {
			l.dive.parted = append(l.dive.parted, c.trail)
		}
		return
	}
	r := Reason{Why: fmt.Sprintf(format, args...)}
	if fa != nil {
		r.LineA = fa.Line
	}
	if fb != nil {
		r.LineB = fb.Line
	}
	if c != nil {
		r.Packet = l.a.PrintTerms(c.a)
	}
	k := fmt.Sprintf("%d %d %s", r.LineA, r.LineB, r.Why)
	if !l.seen[k] && len(l.obstacles) < mostObstacles {
		l.seen[k] = true
		l.obstacles = append(l.obstacles, r)
	}
}

// ends: both have nothing left to do but their action sets.
func (l *lockstep) ends(s *state) {
	switch {
	case s.setA == "" && s.setB == "":
	case s.setA != s.setB:
		l.obstacle(nil, nil, &s.pair, "the action sets differ: %q and %q", s.setA, s.setB)
	case !s.leavesAlike() || len(s.dirty) > 0 || s.askedA != s.askedB:
		l.obstacle(nil, nil, &s.pair, "the packets may differ when the action set %q is carried out", s.setA)
	}
}
