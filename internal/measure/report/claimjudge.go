package report

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Judge holds the input's claims against its trials.
func Judge(in Input, o Options) []claim.Judged {
	o.Rank.Applications = in.Applications
	all := claim.Judge(in.Claims, in.Results.Trials, claim.Rule{Level: o.confidence(), Raced: in.Results.Header.Raced},
		recommender(in.Results.Trials, o))
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

// recommender answers claims of a choice by the sum of z-scores, which is the rule of
// the document that makes them (Atici and Boluk 2020).
func recommender(trials []sample.Trial, o Options) claim.Recommend {
	return func(t claim.Choice, s topo.Scenario) (claim.Recommended, error) {
		r, err := rank.Recommend(trials, rank.Need{App: t.App, Load: rank.LoadPoint(t.Load), Robust: t.Robust, Scenario: s},
			o.Rank)
		out := claim.Recommended{Chosen: r.Scored, Warnings: append(r.Warnings, r.Ranking.Warnings...)}
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

// claimLegend says once what the verdicts mean.
func claimLegend(judged []claim.Judged, o Options) para {
	out := fmt.Sprintf("A claim holds where the %s interval of what was measured lies in the range tested, and does not hold where "+
		"the two have nothing in common; between these the data cannot tell. Where one figure should be above another and the two "+
		"are the same within 5 %%, they are practically equal. Ratios are paired by repetition, and each verdict is judged by itself: "+
		"of many, a few are wrong by chance. Figures of different kernels are never compared. The documents measured other machines, "+
		"kernels and versions, over real wires: that a claim does not hold here does not make it wrong there.", o.level())
	if raced(judged, o) {
		out += " Repetitions were run until claims could be told: each interval is wider, so that the level holds for all looks together, " +
			"and its spread is moderated by that of all comparisons."
	}
	return para(out)
}

// raced tells whether the claims were looked at while repetitions were still run.
func raced(judged []claim.Judged, o Options) bool {
	return slices.ContainsFunc(judged, func(j claim.Judged) bool {
		return slices.ContainsFunc(j.Findings, func(f claim.Finding) bool {
			return slices.ContainsFunc(f.Steps, func(s claim.Step) bool { return s.Ratio.Level > o.confidence() })
		})
	})
}
