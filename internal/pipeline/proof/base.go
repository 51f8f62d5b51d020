package proof

import "pathwise.dev/pathwise/internal/pipeline"

// Base is a pipeline that others are held against. What is found of it alone is found once, however
// many these are.
type Base struct {
	whole   *pipeline.Pipeline
	entered []*entrance
}

// NewBase is of a pipeline that is not changed any more.
func NewBase(p *pipeline.Pipeline) *Base {
	b := &Base{whole: p, entered: []*entrance{{Pipeline: p}}}
	if !p.Several() {
		return b
	}
	b.entered = nil
	for i := range p.Entries() {
		b.entered = append(b.entered, &entrance{Pipeline: p.From(i)})
	}
	return b
}

// Is reports whether a pipeline is the base.
func (b *Base) Is(p *pipeline.Pipeline) bool { return b != nil && b.whole == p }

// Of decides whether another pipeline, which was read with the same names, does the same. Of several
// bridges, which are the same in both, packets come to each.
func (b *Base) Of(other *pipeline.Pipeline, o Options) Decision {
	var out Decision
	for i, a := range b.entered {
		to := other
		if b.whole.Several() {
			to = other.From(i)
		}
		d := entered(a, to, o)
		if i == 0 || d.Verdict == Different || d.Verdict == Undecided && out.Verdict == Equal {
			d.Tried += out.Tried
			out = d
		} else {
			out.Tried += d.Tried
		}
		if d.Verdict == Different {
			break
		}
	}
	return out
}

// entrance is a base that packets come to by one bridge.
type entrance struct {
	*pipeline.Pipeline
	came   *reach
	sought bool
}

// reached is what packets may be in each table, nil if that is too much.
func (e *entrance) reached() *reach {
	if !e.sought {
		s := newSide(e.Pipeline)
		l := &lockstep{a: s, b: s}
		l.flee()
		l.reads[0] = newLive(s)
		e.came, e.sought = l.findReach(s), true
	}
	return e.came
}
