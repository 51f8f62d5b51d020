package report

import (
	"fmt"

	"pathwise.dev/pathwise/internal/claim"
	"pathwise.dev/pathwise/internal/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Judge holds the input's claims against its trials.
func Judge(in Input, o Options) []claim.Judged {
	all := claim.Judge(in.Claims, in.Results.Trials, claim.Rule{Level: o.confidence(), Raced: in.Results.Header.Raced}, recommender(in.Results.Trials, o))
	if in.Paper == nil || !in.Paper.Abridged() {
		return all
	}
	for _, j := range all {
		for _, f := range j.Findings {
			for i, l := range f.Lacks {
				if l.Why == claim.Unasked {
					f.Lacks[i].Why += ": it is not in the quick variant, run without --quick"
				}
			}
		}
	}
	return all
}

// recommender answers claims of a choice by the ranking's rule.
func recommender(trials []sample.Trial, o Options) claim.Recommend {
	return func(t claim.Choice, s topo.Scenario) (claim.Recommended, error) {
		r, err := rank.Recommend(trials, rank.Need{App: t.App, Load: rank.LoadPoint(t.Load), Robust: t.Robust, Scenario: s}, o.Rank)
		out := claim.Recommended{Chosen: r.Chosen, Warnings: append(r.Warnings, r.Ranking.Warnings...)}
		for _, row := range r.Ranking.Rows {
			if row.Rank > 0 {
				out.Ranked = append(out.Ranked, row.Network)
			}
		}
		return out, err
	}
}

// choiceText is "the recommendation for bulk at high load, robust, is vxlan".
func choiceText(t claim.Choice) string {
	robust := "not robust"
	if t.Robust {
		robust = "robust"
	}
	return fmt.Sprintf("the recommendation for %s at %s load, %s, is %s", t.App, t.Load, robust, t.Network)
}
