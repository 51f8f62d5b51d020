package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// ref is where a bit is from: 0 and 1 are themselves, others a bit of the packet as it came
// or of an answer of the tracker.
type ref int32

const (
	zero ref = iota
	one
	first
)

// answerBase numbers what the tracker answers, after the packet's own bases.
func answerBase(asked int, b pipeline.Base) int { return (asked+1)*pipeline.Bases + int(b) }

// identity is the bits of a base as they came; it is not to be written to.
func (m *Maker) identity(base int) *word {
	for len(m.identities) <= base {
		w := word{base: len(m.identities)}
		for i := range w.bits {
			w.bits[i] = first + ref(len(m.identities)*128+i)
		}
		m.identities = append(m.identities, &w)
	}
	return m.identities[base]
}

// thread is one packet on its way, of which only what is asked for is known.
type thread struct {
	*Maker
	packet *words
	// known is what is known of each base as it came, and of the tracker's answers after these.
	known []pipeline.Term
	undo  []undo
	// asked are the questions to the tracker so far.
	asked   []question
	waiting []resumed
	stack   []pushed
	exit    bool
	larger  bool
	budget  int
	// lookups are those that were planned, ways the kinds of the flows. toward is what is still
	// aimed at, nil for nothing, hit says that all of it was met.
	toward  *aim
	lookups []taken
	hit     bool
	ways    []*kind
	// floor is the priority of a flow that takes the packet if none above does.
	floor int
	// exact says that no flow above those that are planned is to take the packet: clauses hold
	// what else it must be like. failed says that it cannot be, came that it has come to the fork.
	exact, failed, came bool
	// alone says that no other flow of its priority is to want it either.
	alone bool
	fork  Fork
	plan  []step
	// entry is what it is known to be from the beginning.
	entry pipeline.Match
	// by is the action by which a table is looked up. anywhere says that the packet did not just come,
	// so that nothing of it is cleared.
	by       *pipeline.Action
	anywhere bool
	// pieces says that the packet is a first fragment, of which the tracker makes a whole one.
	pieces bool
	// through is the pipeline that a packet went through last, of two.
	through *Maker
	clauses []clause
	// literals are those of clauses, one behind the other.
	literals []literal
}

type resumed struct {
	table  pipeline.Table
	packet *words
	by     *pipeline.Action
}

type pushed struct {
	w    word
	bits int
}

type undo struct {
	base int
	was  pipeline.Term
}

// cleared reports whether a base is zero as a packet comes.
func cleared(b pipeline.Base) bool {
	return b >= pipeline.CTState && b <= pipeline.CTTPDst || b >= pipeline.Reg0 && b <= pipeline.Reg12 ||
		b == pipeline.Metadata || b == pipeline.ConjID || b == pipeline.RecircID
}

// get is a base's bits now.
func (t *thread) get(b pipeline.Base) *word {
	return t.of(t.packet, b)
}

// of is a base's bits in a packet.
func (t *thread) of(p *words, b pipeline.Base) *word {
	if w := p.at[b]; w != nil {
		return w
	}
	if cleared(b) && !t.anywhere {
		return &t.zeros
	}
	return t.identity(int(b))
}

// want has the packet be one that the match wants, or changes nothing.
func (t *thread) want(m pipeline.Match) bool {
	from := len(t.undo)
	for _, term := range m {
		if term.Base == pipeline.ConjID {
			continue // see meets
		}
		if !t.wantTerm(term) {
			t.rollback(from)
			return false
		}
	}
	return true
}

// wantTerm is want of one base; it may leave something learnt where it fails.
func (t *thread) wantTerm(term pipeline.Term) bool {
	w := t.get(term.Base)
	if !w.value.Xor(term.Value).And(term.Mask).And(w.fixed).IsZero() {
		return false
	}
	rest := term.Mask.Without(w.fixed)
	if w.base != mixed {
		return t.learnBits(w.base, term.Value, rest)
	}
	for i := range rest.Ones() {
		if !t.learn(w.bits[i], term.Value.Bit(i)) {
			return false
		}
	}
	return true
}

// differs reports whether it is known of a word as a whole that it is not as is wanted.
func (t *thread) differs(w *word, term pipeline.Term) bool {
	off := w.value.Xor(term.Value).And(w.fixed)
	if w.base != mixed {
		k := t.fact(w.base)
		off = off.Or(k.Value.Xor(term.Value).And(k.Mask).Without(w.fixed))
	}
	return !off.And(term.Mask).IsZero()
}

// learnBits has the bits of a base under a mask be those of a value, or changes nothing.
func (t *thread) learnBits(base int, v, mask pipeline.Value) bool {
	k := t.fact(base)
	if !k.Value.Xor(v).And(k.Mask).And(mask).IsZero() {
		return false
	}
	if add := mask.Without(k.Mask); !add.IsZero() {
		t.undo = append(t.undo, undo{base, k})
		k.Mask, k.Value = k.Mask.Or(add), k.Value.Or(v.And(add))
		t.known[base] = k
	}
	return true
}

// fact is what is known of a base.
func (t *thread) fact(base int) pipeline.Term {
	for len(t.known) <= base {
		t.known = append(t.known, pipeline.Term{})
	}
	return t.known[base]
}

// meets has the packet be one that the flow takes, with a part for each dimension where it
// is that of a conjunction, or changes nothing.
func (t *thread) meets(f *pipeline.Flow) bool {
	from := len(t.undo)
	if f.Priority < t.floor || !t.want(f.Match) {
		return false
	}
	id := f.Match.Get(pipeline.ConjID)
	if id.Mask.IsZero() {
		return true
	}
	const tries = 16
	dims := t.parts[part{f.Table, id.Value.Lo}]
	for _, list := range dims {
		found := false
		for i := 0; i < tries && !found && len(list) > 0; i++ {
			found = t.want(list[t.random.IntN(len(list))].Match)
		}
		if !found {
			t.rollback(from)
			return false
		}
	}
	return len(dims) > 0
}

// learn has a bit be set or clear.
func (t *thread) learn(r ref, set bool) bool {
	if r < first {
		return (r == one) == set
	}
	bit := pipeline.Value{Lo: 1}.Left(int(r-first) % 128)
	v := bit
	if !set {
		v = pipeline.Value{}
	}
	return t.learnBits(int(r-first)/128, v, bit)
}

func (t *thread) rollback(n int) {
	for len(t.undo) > n {
		u := t.undo[len(t.undo)-1]
		t.undo = t.undo[:len(t.undo)-1]
		t.known[u.base] = u.was
	}
}

// value is what a base's bits under the mask are, if all of them are known.
func (t *thread) value(b pipeline.Base, mask pipeline.Value) (v pipeline.Value, ok bool) {
	w := t.get(b)
	v = w.value.And(mask)
	rest := mask.Without(w.fixed)
	if w.base != mixed {
		k := t.fact(w.base)
		return v.Or(k.Value.And(rest)), rest.Without(k.Mask).IsZero()
	}
	for i := range rest.Ones() {
		switch t.resolved(w.bits[i]) {
		case zero:
		case one:
			v = v.Or(pipeline.Value{Lo: 1}.Left(i))
		default:
			return v, false
		}
	}
	return v, true
}

func (t *thread) look(id pipeline.Table, depth int) {
	const deepest = 64
	t.budget--
	if t.budget <= 0 || depth > deepest || t.anywhere && len(t.plan) == 0 { // no more is asked
		t.exit = true
		return
	}
	choose := t.choose
	if t.exact {
		choose = t.next
	}
	f := choose(id)
	if t.failed {
		t.exit = true
	}
	if t.exit || f == nil || !f.Understood() {
		return
	}
	t.actions(f.Actions, id, depth)
}

func (t *thread) actions(list []pipeline.Action, id pipeline.Table, depth int) {
	for i := range list {
		if t.exit {
			return
		}
		t.action(&list[i], id, depth)
	}
}

func (t *thread) action(a *pipeline.Action, id pipeline.Table, depth int) {
	switch a.Kind {
	case pipeline.Resubmit, pipeline.Goto:
		to := a.Table
		if to == pipeline.NoTable {
			to = id
		}
		t.by = a
		t.look(to, depth+1)
	case pipeline.CT:
		t.track(a)
	case pipeline.CTClear:
		t.untrack()
	case pipeline.Clone:
		t.apart(func() { t.actions(a.Nested, id, depth+1) })
	case pipeline.GroupAction:
		if g := t.p.Group(uint32(a.N)); g != nil && len(g.Buckets) > 0 && depth < 64 {
			b := g.Buckets[t.random.IntN(len(g.Buckets))]
			t.apart(func() { t.actions(b.Actions, id, depth+1) })
		}
	case pipeline.Exit:
		t.exit = true
	default:
		t.assign(*a)
	}
}

// apart does something to a copy of the packet.
func (t *thread) apart(do func()) {
	saved := t.packet.lent()
	do()
	t.packet, t.exit = saved, t.failed
}

func (t *thread) untrack() {
	for b := pipeline.CTState; b <= pipeline.CTTPDst; b++ {
		t.write(b, nil)
	}
}

// write has a base be a word, nil for how it came.
func (t *thread) write(b pipeline.Base, w *word) {
	if t.packet.at[b] == w {
		return
	}
	if t.packet.shared {
		p := *t.packet
		p.shared, t.packet = false, &p
	}
	t.packet.at[b] = w
}

// put writes bits.
func (t *thread) put(b pipeline.Base, mask pipeline.Value, bit func(i int) ref) {
	w := *t.get(b)
	for i := range mask.Ones() {
		w.bits[i] = bit(i)
	}
	w.sum()
	t.write(b, &w)
}

func constant(v pipeline.Value) func(int) ref {
	return func(i int) ref {
		if v.Bit(i) {
			return one
		}
		return zero
	}
}

func (t *thread) assign(a pipeline.Action) {
	switch a.Kind {
	case pipeline.Load, pipeline.SetField, pipeline.WriteMeta:
		at := a.Dst.Shift()
		t.put(a.Dst.Field.Base, a.Mask.Left(at).And(a.Dst.Mask()), constant(a.Value.Left(at)))
	case pipeline.Move:
		src, from, to := *t.get(a.Src.Field.Base), a.Src.Shift(), a.Dst.Shift()
		t.put(a.Dst.Field.Base, a.Dst.Mask(), func(i int) ref { return src.bits[i-to+from] })
	case pipeline.Push:
		var w word
		src, from := t.get(a.Dst.Field.Base), a.Dst.Shift()
		for i := range a.Dst.Bits {
			w.bits[i] = src.bits[i+from]
		}
		t.stack = append(t.stack, pushed{w, a.Dst.Bits})
	case pipeline.Pop:
		if n := len(t.stack); n > 0 {
			top, to := t.stack[n-1], a.Dst.Shift()
			t.stack = t.stack[:n-1]
			t.put(a.Dst.Field.Base, a.Dst.Mask(), func(i int) ref { return top.w.bits[i-to] })
		}
	case pipeline.SetTunnel, "set_tunnel64":
		t.put(pipeline.TunID, t.p.Words.Full(pipeline.TunID), constant(pipeline.Value{Lo: a.N}))
	case "mod_dl_src":
		t.put(pipeline.EthSrc, t.p.Words.Full(pipeline.EthSrc), constant(pipeline.Value{Lo: a.N}))
	case "mod_dl_dst":
		t.put(pipeline.EthDst, t.p.Words.Full(pipeline.EthDst), constant(pipeline.Value{Lo: a.N}))
	case "mod_nw_src":
		t.put(pipeline.NWSrc, t.p.Words.Full(pipeline.NWSrc), constant(pipeline.Value{Lo: a.N}))
	case "mod_nw_dst":
		t.put(pipeline.NWDst, t.p.Words.Full(pipeline.NWDst), constant(pipeline.Value{Lo: a.N}))
	case pipeline.CheckLarger:
		t.put(a.Dst.Field.Base, a.Dst.Mask(), func(int) ref {
			if t.larger {
				return one
			}
			return zero
		})
	}
}
