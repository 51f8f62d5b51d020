package claim

import "pathwise.dev/pathwise/internal/stat"

// Rule is by what a claim is judged.
type Rule struct {
	// Level of confidence of the intervals.
	Level float64
	// Raced: repetitions were run until verdicts could be told. The level is then that of
	// all looks together (stat.Sequential), and comparisons share what they know of their
	// spread (stat.Prior).
	Raced bool
}

// level is that of a single look.
func (r Rule) level() float64 {
	if r.Raced {
		return stat.Sequential(r.Level)
	}
	return r.Level
}

// spreads lists what every comparison knows of its own spread.
func spreads(judged []Judged) (out []stat.Spread) {
	for _, j := range judged {
		for _, f := range j.Findings {
			for _, s := range f.Steps {
				if spread, ok := s.Ratio.Spread(); ok {
					out = append(out, spread)
				}
			}
		}
	}
	return out
}
