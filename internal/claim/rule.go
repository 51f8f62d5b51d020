package claim

import "pathwise.dev/pathwise/internal/stat"

// Rule is by what a claim is judged.
type Rule struct {
	// Level of confidence of the intervals.
	Level float64
	// Raced: repetitions were run until verdicts could be told. The level is then that of
	// all looks together (stat.Prior.Sequential), and comparisons share what they know of their
	// spread (stat.Prior).
	Raced bool
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

// judgeRaced judges by what the comparisons know together.
func judgeRaced(claims []Claim, b *book, level float64, recommend Recommend) []Judged {
	prior := stat.Prior{}
	out := judgeAll(claims, b, prior.Sequential(level), prior, recommend)
	if prior = stat.Pool(spreads(out)); prior.DF > 0 {
		out = judgeAll(claims, b, prior.Sequential(level), prior, recommend)
	}
	return out
}
