package claim

import (
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Rule is by what a claim is judged.
type Rule struct {
	// Level of confidence of the intervals.
	Level float64
	// Raced: repetitions were run until verdicts could be told. The level is then that of
	// all looks together (stat.Prior.Sequential), and comparisons share what they know of their
	// spread (stat.Prior).
	Raced bool
}

// kind is what comparisons have in common that differ by as much from block to block: a
// bulk stream varies less than a search for a rate, and a guest more than the machine.
type kind struct{ workload, kernel string }

func kindOf(q sample.Question) kind { return kind{q.Workload, q.Scenario.Kernel} }

// priors are what the comparisons of each kind know together of their spread. Kinds of too
// few comparisons share one.
type priors struct {
	own  map[kind]stat.Prior
	rest stat.Prior
}

// newPriors pools what every comparison knows of its own spread, by kind; nil where they are
// too few to know anything.
func newPriors(judged []Judged) *priors {
	var kinds []kind // in the order of claims, so that sums are the same each time
	var all, few []stat.Spread
	by := map[kind][]stat.Spread{}
	for _, j := range judged {
		for _, f := range j.Findings {
			for _, s := range f.Steps {
				if spread, ok := s.Ratio.Spread(); ok {
					k := kindOf(f.Question)
					if by[k] == nil {
						kinds = append(kinds, k)
					}
					by[k], all = append(by[k], spread), append(all, spread)
				}
			}
		}
	}
	whole := stat.Pool(all)
	if whole.DF == 0 {
		return nil
	}
	p := &priors{own: map[kind]stat.Prior{}}
	for _, k := range kinds {
		if prior := stat.Pool(by[k]); prior.DF > 0 {
			p.own[k] = prior
		} else {
			few = append(few, by[k]...)
		}
	}
	if p.rest = stat.Pool(few); p.rest.DF == 0 {
		p.rest = whole
	}
	return p
}

// of is what is known of the spread of a comparison of that question; a nil priors knows
// nothing.
func (p *priors) of(q sample.Question) stat.Prior {
	if p == nil {
		return stat.Prior{}
	}
	if prior, ok := p.own[kindOf(q)]; ok {
		return prior
	}
	return p.rest
}

// judgeRaced judges by what the comparisons know together.
func judgeRaced(claims []Claim, b *book, level float64, recommend Recommend) []Judged {
	look := func(p *priors) looks {
		return func(q sample.Question) (stat.Prior, float64) {
			prior := p.of(q)
			return prior, prior.Sequential(level)
		}
	}
	out := judgeAll(claims, b, look(nil), recommend)
	if p := newPriors(out); p != nil {
		out = judgeAll(claims, b, look(p), recommend)
	}
	return out
}
