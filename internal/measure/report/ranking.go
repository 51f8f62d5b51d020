package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// recommendationGrid is the table of one scenario, in the words of Table 6 of
// Atici and Boluk (2020). Notes on an application's choices are long, so the
// end of a run goes without them.
func recommendationGrid(g rank.Grid, withNotes bool) grid {
	out := grid{title: fmt.Sprintf("Recommended networks, %s", g.Scenario)}
	out.table.cols = []column{{head: "application"}, {head: "load"}, {head: "robust"}, {head: "not robust"}}
	for _, r := range g.Rows {
		marks := ""
		if notes := warningsOf(r); withNotes && len(notes) > 0 {
			marks = out.notes.mark([]string{r.App + ": " + strings.Join(notes, "; ")})
		}
		out.table.add(r.App, "optimum", chosen(r.OptimumRobust), chosen(r.OptimumUnrobust))
		out.table.add(marks, "high", chosen(r.HighRobust), chosen(r.HighUnrobust))
	}
	out.legend = "In percent: the probability that the first one is the best. = practically equal; ? the data cannot tell which is better."
	return out
}

// answers lists an application's four answers, as tables show them.
func answers(r rank.GridRow) []rank.Recommendation {
	return []rank.Recommendation{r.OptimumRobust, r.OptimumUnrobust, r.HighRobust, r.HighUnrobust}
}

// warningsOf gathers what is to be said about an application's four answers, once.
func warningsOf(r rank.GridRow) (out []string) {
	for _, rec := range answers(r) {
		texts := leftOut(rec.Ranking.Outlook)
		for _, w := range rec.Warnings {
			texts = append(texts, w.Gate+": "+w.Text)
		}
		for _, text := range texts {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// chosen names the recommended network with its probability, and those tied with it.
func chosen(r rank.Recommendation) string {
	if len(r.Chosen) == 0 {
		return "none"
	}
	out := r.Chosen[0]
	first, _ := r.Ranking.Outlook.Find(out)
	if first.Best != nil {
		out += " " + rank.Probability(*first.Best)
	}
	const shown = 1
	for i, n := range r.Chosen[1:] {
		if more := len(r.Chosen) - 1 - i; i >= shown && more > 0 {
			return out + fmt.Sprintf(" and %d more", more)
		}
		out += " " + tieMark(r, n) + " " + n
	}
	return out
}

// tieMark is how a network is tied with the first one.
func tieMark(r rank.Recommendation, network string) string {
	if odds, ok := r.Ranking.Outlook.Find(network); ok && odds.Tie == rank.Equal {
		return "="
	}
	return "?"
}
