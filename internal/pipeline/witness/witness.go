// Package witness makes packets that reach flows of a pipeline: it chooses a flow in each
// table that a packet may still meet, and keeps what that asks of the packet, bit by bit,
// back to how it came. What it makes is to be followed by package walk to be sure: it
// does not look at flows of higher priority. It proves nothing by what it does not find.
package witness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// Maker makes packets for a pipeline.
type Maker struct {
	p      *walk.Pipeline
	random *rand.Rand
	tables map[pipeline.Table][]*kind
	kindOf map[*pipeline.Flow]*kind
	ports  []pipeline.Value
	// parts are those of conjunctions, by table and number.
	parts map[part][][]*pipeline.Flow
	// aims are what packets are made for, one of them each; that of a packet is aim, and nil
	// for none.
	aims []*aim
	aim  *aim
	// identities are bits as they came, by base; zeros are those of a base that is zero.
	identities []*word
	zeros      word
	// waysInto are the ways into each table, tablesAfter the tables that a flow leads to.
	waysInto    map[pipeline.Table][]way
	tablesAfter map[*pipeline.Flow]map[pipeline.Table]bool
	// distances are how far tables are from the first.
	distances map[pipeline.Table]int
	// rates tell how often flows took a packet as was planned.
	rates map[*pipeline.Flow]*score
	// mays is what packets may be in each table.
	mays map[pipeline.Table]may
	// within tells whether packets that a match wants may come to a table, as far as that is known.
	within func(pipeline.Table, pipeline.Match) bool
	// looked is how many tables were looked at to plan backwards, spared how many fewer may be.
	looked, spared int
	// hopeless is how often no way back was found from where packets are (see digest).
	hopeless map[uint64]int8
}

// aim is flows that are preferred.
type aim struct {
	flows  map[*pipeline.Flow]bool
	wanted map[pipeline.Table][]*pipeline.Flow
	// near is how many tables are before one of them.
	near map[pipeline.Table]int
	// then is what is aimed at once such a flow is met, nil for nothing more.
	then *aim
	// met says of what is seen of a packet whether it fares as is aimed at; spare is how many
	// more may be followed to find one that does.
	met   func(came pipeline.Match, seen []walk.Event) bool
	spare int
	// scores tell which kinds of flows have led to what was aimed at.
	scores map[*kind]*score
	// work is how much those had to do that were followed (see walk.Walk).
	work int
}

// mostWork is how much packets that are followed for an aim may have to do.
const mostWork = 10_000_000

const nowhere = 1 << 20

// part names a conjunction.
type part struct {
	table pipeline.Table
	id    uint64
}

// join notes a part of a conjunction, by its dimension, and says whether it is one.
func (m *Maker) join(f *pipeline.Flow) bool {
	is := false
	for _, a := range f.Actions {
		if a.Kind != pipeline.Conjunction {
			continue
		}
		is = true
		k := part{f.Table, a.N}
		for len(m.parts[k]) < a.Clauses {
			m.parts[k] = append(m.parts[k], nil)
		}
		m.parts[k][a.Clause-1] = append(m.parts[k][a.Clause-1], f)
	}
	return is
}

// Prefer has packets most often be made to reach some of the flows, and half of them to
// leave by a port then.
func (m *Maker) Prefer(flows map[*pipeline.Flow]bool) {
	a, then := m.aimAt(flows), m.aimAt(flows)
	if a == nil {
		return
	}
	then.then = m.aimAt(m.all(pipeline.Output, func(pipeline.Action) bool { return true }))
	m.aims = []*aim{a, then}
}

// all are the flows with an action of a kind that is as is asked for.
func (m *Maker) all(k pipeline.Kind, is func(pipeline.Action) bool) map[*pipeline.Flow]bool {
	out := map[*pipeline.Flow]bool{}
	for _, f := range m.p.Flows {
		m.p.Each(f.Actions, func(a pipeline.Action) {
			if a.Kind == k && is(a) {
				out[f] = true
			}
		})
	}
	return out
}

// Deliver has half of the packets most often be made to leave by a port, and a quarter of
// them to have their destination translated, as those to a service.
func (m *Maker) Deliver() {
	leave := m.all(pipeline.Output, func(pipeline.Action) bool { return true })
	translate := m.all(pipeline.CT, func(a pipeline.Action) bool { return strings.HasPrefix(a.Track.NAT, "nat(dst") })
	// What can be spent depends on what a packet costs.
	spare := min(4000, 500+2_000_000/max(1, len(m.p.Flows)))
	m.aims = []*aim{nil, nil, m.aimAt(leave), m.aimAt(translate)}
	if a := m.aims[2]; a != nil {
		a.met, a.spare = m.leaves, 500
	}
	if a := m.aims[3]; a != nil {
		a.then, a.spare = m.aims[2], spare
		a.met = func(came pipeline.Match, seen []walk.Event) bool {
			i := slices.IndexFunc(seen, func(e walk.Event) bool {
				return e.Kind == walk.Commit && strings.Contains(e.Text, "nat(dst")
			})
			return i >= 0 && m.leaves(came, seen[i:])
		}
	}
}

// aimAt is an aim at flows, or none.
func (m *Maker) aimAt(flows map[*pipeline.Flow]bool) *aim {
	if len(flows) == 0 {
		return nil
	}
	out := &aim{flows: flows, wanted: map[pipeline.Table][]*pipeline.Flow{}, near: map[pipeline.Table]int{},
		scores: map[*kind]*score{}}
	from := map[pipeline.Table]map[pipeline.Table]bool{}
	for _, f := range m.p.Flows {
		if flows[f] {
			out.wanted[f.Table] = append(out.wanted[f.Table], f)
			out.near[f.Table] = 0
		}
		ways, _ := m.p.Jumps(f.Actions, f.Table)
		for _, j := range ways {
			if from[j.To] == nil {
				from[j.To] = map[pipeline.Table]bool{}
			}
			from[j.To][f.Table] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for to, tables := range from {
			for t := range tables {
				if d := out.distance(to) + 1; d < out.distance(t) {
					out.near[t], changed = d, true
				}
			}
		}
	}
	return out
}

func (a *aim) distance(t pipeline.Table) int {
	if d, ok := a.near[t]; ok {
		return d
	}
	return nowhere
}

// reach is how far a flow leads from what is aimed at.
func (m *Maker) reach(a *aim, f *pipeline.Flow) int {
	best := nowhere
	ways, _ := m.p.Jumps(f.Actions, f.Table)
	for _, j := range ways {
		best = min(best, a.distance(j.To))
	}
	return best
}

// kind is the flows of a table whose matches have the same masks.
type kind struct {
	match  pipeline.Match
	flows  []*pipeline.Flow
	values map[string]*pipeline.Flow
	// conjunctive says that they are of conjunctions.
	conjunctive bool
	// top is the highest priority.
	top, met int
}

// New prepares to make packets; the same random numbers make the same packets.
func New(p *walk.Pipeline, random *rand.Rand) *Maker {
	m := &Maker{p: p, random: random, tables: map[pipeline.Table][]*kind{},
		kindOf: map[*pipeline.Flow]*kind{}, parts: map[part][][]*pipeline.Flow{}, hopeless: map[uint64]int8{}}
	m.zeros.sum()
	at := map[string]*kind{}
	value := func(t pipeline.Term) pipeline.Value { return t.Value }
	seen := map[pipeline.Value]bool{}
	for _, f := range p.Flows {
		if m.join(f) {
			continue // it takes no packet
		}
		id := fmt.Sprintf("%d %s", f.Table, masks(f.Match))
		k := at[id]
		if k == nil {
			k = &kind{match: f.Match, values: map[string]*pipeline.Flow{},
				conjunctive: !f.Match.Get(pipeline.ConjID).Mask.IsZero()}
			at[id] = k
			m.tables[f.Table] = append(m.tables[f.Table], k)
		}
		m.kindOf[f] = k
		k.flows, k.top = append(k.flows, f), max(k.top, f.Priority)
		if v := string(f.Match.Key(value)); k.values[v] == nil || k.values[v].Priority <= f.Priority {
			k.values[v] = f
		}
		if t := f.Match.Get(pipeline.InPort); !t.Mask.IsZero() && !seen[t.Value] {
			seen[t.Value] = true
			m.ports = append(m.ports, t.Value)
		}
	}
	return m
}

func masks(m pipeline.Match) string {
	b := []byte{}
	for _, t := range m {
		b = fmt.Appendf(b, "%d=%x.%x ", t.Base, t.Mask.Hi, t.Mask.Lo)
	}
	return string(b)
}

// Case is a packet, and what its oracles are to answer.
type Case struct {
	Packet pipeline.Match
	// Answers are the tracker's in the order in which it is asked.
	Answers []walk.Answer
	Larger  bool
	// Whole says that the tracker makes one packet of fragments.
	Whole bool
	// Salt is for answers to questions that were not foreseen.
	Salt int
}

// Make makes one packet that may reach flows that few have reached so far.
func (m *Maker) Make() Case {
	if m.aim = nil; len(m.aims) > 0 {
		m.aim = m.aims[m.random.IntN(len(m.aims))]
	}
	for {
		c := m.one()
		if m.aim == nil || m.aim.spare == 0 {
			return c
		}
		w := m.p.Follow(walk.NewPacket(c.Packet), c.Oracle())
		m.aim.spare--
		if m.aim.work += w.Work; m.aim.work > mostWork {
			m.aim.spare = 0
		}
		if m.aim.met(c.Packet, w.Events()) {
			return c
		}
	}
}

// one makes one packet for the aim.
func (m *Maker) one() Case {
	t := m.thread()
	t.toward = m.aim
	t.run()
	t.learnWays()
	t.avoidOthers()
	return t.caseOf()
}

// thread is a packet of which nothing is known.
func (m *Maker) thread() *thread {
	t := &thread{Maker: m, packet: &words{},
		larger: m.random.IntN(2) == 1}
	t.budget = 400
	return t
}

// caseOf is the packet and the answers, what nothing asked for being made up.
func (t *thread) caseOf() Case {
	return Case{t.fill(), t.answers(), t.larger, t.pieces, t.random.IntN(1 << 16)}
}

// fill is the packet as it came, what nothing asked for being made up.
func (t *thread) fill() pipeline.Match {
	var p walk.Packet
	noise := t.random.IntN(2) == 0
	for base, k := range t.known {
		if base < pipeline.Bases {
			p.Set(pipeline.Base(base), k.Value)
		}
	}
	free := func(b pipeline.Base) pipeline.Value {
		return t.p.Words.Full(b).Without(t.fact(int(b)).Mask)
	}
	some := func(b pipeline.Base, of ...uint64) {
		if full := free(b); full == t.p.Words.Full(b) {
			p.Set(b, pipeline.Value{Lo: of[t.random.IntN(len(of))]})
		}
	}
	const ipv4, arp, ipv6 = 0x800, 0x806, 0x86dd
	some(pipeline.EthType, ipv4, ipv4, ipv4, ipv4, arp, ipv6)
	if p.Get(pipeline.EthType).Lo == arp {
		some(pipeline.NWProto, 1, 2)
	} else {
		some(pipeline.NWProto, 6, 6, 17, 1)
	}
	const short = 0xff // the field is one with ARP's operation, of which a switch knows none that is longer
	p.Set(pipeline.NWProto, p.Get(pipeline.NWProto).And(pipeline.Value{Lo: short}))
	some(pipeline.NWTTL, 64)
	if t.exact && t.random.IntN(8) == 0 && free(pipeline.NWTTL) == t.p.Words.Full(pipeline.NWTTL) { // runs out soon
		p.Set(pipeline.NWTTL, pipeline.Value{Lo: 1})
	}
	if !p.Get(pipeline.TunSrc).IsZero() {
		some(pipeline.TunID, 0, 5, 10, t.random.Uint64()>>40)
	}
	some(pipeline.NWFrag, 0)
	some(pipeline.VLAN, 0, 0, 0, 0, 0x1005)
	if n := len(t.ports); n > 0 && free(pipeline.InPort) == t.p.Words.Full(pipeline.InPort) {
		p.Set(pipeline.InPort, t.ports[t.random.IntN(n)])
	}
	if noise {
		for _, b := range []pipeline.Base{pipeline.EthSrc, pipeline.EthDst, pipeline.NWSrc, pipeline.NWDst, pipeline.TPSrc,
			pipeline.TPDst, pipeline.IPv6Src, pipeline.IPv6Dst, pipeline.ARPSha} {
			r := pipeline.Value{Hi: t.random.Uint64(), Lo: t.random.Uint64()}
			p.Set(b, p.Get(b).Or(r.And(free(b))))
		}
	}
	if proto := p.Get(pipeline.NWProto).Lo; proto == 1 || proto == 58 { // ICMP's types and codes are shorter than ports
		for _, b := range []pipeline.Base{pipeline.TPSrc, pipeline.TPDst} {
			p.Set(b, p.Get(b).And(pipeline.Value{Lo: short}))
		}
	}
	fragment(&p)
	return pipeline.Sound(p.Terms(t.p.Words))
}

// fitting are the states that a tracker may answer with where a state is wanted: those that are
// usual, or else those that ovs-fields(7) allows.
func fitting(want pipeline.Term) (out []uint64) {
	for _, s := range states() {
		if fits(s, want) {
			out = append(out, s)
		}
	}
	const last = 0xff // with snat and dnat
	for s := uint64(walk.Tracked); len(out) == 0 && s <= last; s++ {
		if s&walk.Tracked != 0 && fits(s, want) && allowed(s) {
			return []uint64{s}
		}
	}
	return out
}

// allowed reports whether the bits of a state go together: no other is with +inv, and a new
// connection is neither established nor has replies.
func allowed(s uint64) bool {
	return s == walk.Tracked|walk.Invalid ||
		s&walk.Invalid == 0 && (s&walk.New == 0 || s&(walk.Established|walk.Reply) == 0)
}

// states are those that a tracker answers with most often.
func states() []uint64 {
	return []uint64{walk.New, walk.Established, walk.Established | walk.Reply, walk.New | walk.Related, walk.Invalid,
		walk.Related | walk.Reply, walk.Established | walk.Related}
}

// answers are the tracker's.
func (t *thread) answers() (out []walk.Answer) {
	for i := range t.asked {
		state := t.fact(answerBase(i, pipeline.CTState))
		fit := fitting(state)
		a := walk.Answer{Mark: t.fact(answerBase(i, pipeline.CTMark)).Value.Lo,
			Label: t.fact(answerBase(i, pipeline.CTLabel)).Value}
		if len(fit) == 0 { // no tracker answers so
			fit = states()
		}
		a.State = fit[t.random.IntN(len(fit))]
		out = append(out, a)
	}
	return out
}
