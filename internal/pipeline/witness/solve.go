package witness

import (
	"math/bits"
	"slices"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// literal is that a bit is set, or clear.
type literal struct {
	r   ref
	set bool
}

// clause is that one of its literals holds. The first two are those that are looked at first.
type clause []literal

// mark is how far a thread is, to go back to.
type mark struct{ undo, clauses, literals int }

func (t *thread) mark() mark { return mark{len(t.undo), len(t.clauses), len(t.literals)} }

func (t *thread) back(to mark) {
	t.rollback(to.undo)
	t.clauses, t.literals = t.clauses[:to.clauses], t.literals[:to.literals]
}

// not has the packet be none that the match wants, now or once more is known; false if it is one.
func (t *thread) not(m pipeline.Match) bool {
	from := len(t.literals)
	for _, term := range m {
		w := t.get(term.Base)
		if t.differs(w, term) || !t.otherwise(w, term) {
			t.literals = t.literals[:from]
			return true
		}
	}
	c := clause(t.literals[from:len(t.literals):len(t.literals)])
	switch len(c) {
	case 0:
		return false
	case 1:
		return t.learn(c[0].r, c[0].set)
	}
	t.clauses = append(t.clauses, c)
	return true
}

// otherwise adds the literals by which a word is not as is wanted; false if it is known not to be.
func (t *thread) otherwise(w *word, term pipeline.Term) bool {
	rest := term.Mask.Without(w.fixed)
	if w.base != mixed { // of what is known of it, nothing differs
		rest = rest.Without(t.fact(w.base).Mask)
	}
	for at, part := range [2]uint64{rest.Lo, rest.Hi} {
		for ; part != 0; part &= part - 1 {
			i := 64*at + bits.TrailingZeros64(part)
			r := w.bits[i]
			if w.base == mixed {
				r = t.resolved(r)
			}
			switch want := term.Value.Bit(i); {
			case r >= first:
				t.literals = append(t.literals, literal{r, !want})
			case (r == one) != want:
				return false
			}
		}
	}
	return true
}

// holds reports whether a literal is known to hold; open that it is not known.
func (t *thread) holds(l literal) (holds, open bool) {
	r := t.resolved(l.r)
	return r < first && (r == one) == l.set, r >= first
}

// propagate learns what clauses leave no choice about; false if one cannot hold, or no tracker
// answers so.
func (t *thread) propagate() bool {
	for changed := true; changed; {
		changed = false
		for _, c := range t.clauses {
			switch i, n := t.undecided(c); {
			case n == 0:
				return false
			case n == 1:
				changed = t.learn(c[i].r, c[i].set) || changed
			}
		}
	}
	return t.answerable()
}

// undecided is how many literals of a clause are open, up to two, and the last of these. It is 2
// for a clause that holds.
func (t *thread) undecided(c clause) (at, n int) {
	for i, l := range c {
		holds, open := t.holds(l)
		if holds {
			c[0], c[i] = c[i], c[0]
			return 0, 2
		}
		if open {
			c[n], c[i] = c[i], c[n]
			at = n
			if n++; n == 2 {
				return at, n
			}
		}
	}
	return at, n
}

// answerable reports whether a tracker may answer as is asked for.
func (t *thread) answerable() bool {
	for i := range t.asked {
		want := t.fact(answerBase(i, pipeline.CTState))
		if !want.Mask.IsZero() && len(fitting(want)) == 0 {
			return false
		}
	}
	return true
}

func fits(state uint64, want pipeline.Term) bool {
	return (pipeline.Value{Lo: state | walk.Tracked}).Xor(want.Value).And(want.Mask).IsZero()
}

// solve has all clauses hold, if it finds out how.
func (t *thread) solve(budget *int) bool {
	if *budget--; *budget < 0 || !t.propagate() {
		return false
	}
	var open clause
	for _, c := range t.clauses {
		if _, n := t.undecided(c); n == 2 {
			if holds, _ := t.holds(c[0]); !holds {
				open = c
				break
			}
		}
	}
	if open == nil {
		return true
	}
	try := slices.Clone(open)
	t.random.Shuffle(len(try), func(i, j int) { try[i], try[j] = try[j], try[i] })
	slices.SortStableFunc(try, func(x, y literal) int { return t.typical(x) - t.typical(y) })
	for _, l := range try {
		if _, open := t.holds(l); !open {
			continue
		}
		from := t.mark()
		if t.choosing(l) && t.solve(budget) {
			return true
		}
		t.back(from)
	}
	return false
}

// typical is 1 for bits of fields of which only some values are usual.
func (t *thread) typical(l literal) int {
	switch pipeline.Base(min(int(l.r-first)/128, pipeline.Bases)) {
	case pipeline.EthType, pipeline.NWProto, pipeline.InPort:
		return 1
	}
	return 0
}

// choosing has a literal hold, by a usual value of its field where there are such.
func (t *thread) choosing(l literal) bool {
	if t.typical(l) == 0 {
		return t.learn(l.r, l.set)
	}
	base := pipeline.Base(int(l.r-first) / 128)
	w, at := t.identity(int(base)), int(l.r-first)%128
	from := len(t.undo)
	for _, v := range t.usual(base) {
		if v.Bit(at) != l.set {
			continue
		}
		ok := true
		for i := range t.p.Words.Full(base).Ones() {
			ok = ok && t.learn(w.bits[i], v.Bit(i))
		}
		if ok {
			return true
		}
		t.rollback(from)
	}
	return t.learn(l.r, l.set)
}
