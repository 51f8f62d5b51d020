package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/rank"
)

// rankingGrid is one ranking as a table.
func rankingGrid(title string, r rank.Ranking, baseline string) grid {
	g := grid{title: title}
	g.table.cols = []column{{head: "rank"}, {head: "tie", drop: 3}, {head: "network"}, {head: "z", right: true},
		{"x " + baseline, true, 2}, {head: "notes"}}
	for _, row := range r.Rows {
		var notes []string
		if len(row.Missing) > 0 {
			notes = append(notes, fmt.Sprintf("no OK trial for %s: %s", plural(len(row.Missing), "sub-feature"), listed(row.Missing, "; ", 3)))
		}
		z := ""
		if len(row.Features) > 0 {
			z = score(row.Score)
		}
		g.table.add(rankText(row), tieLetter(r, row), row.Network, z, ratioRange(row), g.notes.mark(notes))
	}
	g.legend = rankingWarnings(r)
	return g
}

// ratioRange is the span of a row's ratios to the baseline over what was
// summed: a sum of z-scores alone does not say whether the worst is 2 or 50
// times slower. Only metrics that are better when higher enter.
func ratioRange(row rank.Row) string {
	var low, high float64
	n := 0
	for _, f := range row.Features {
		if f.ToBaseline == nil || f.Metric.Better < 0 || ratio(f.ToBaseline.Center) == "-" {
			continue
		}
		c := f.ToBaseline.Center
		if n == 0 {
			low, high = c, c
		}
		low, high = min(low, c), max(high, c)
		n++
	}
	switch {
	case n == 0:
		return ""
	case ratio(low) == ratio(high):
		return ratio(low)
	}
	return ratio(low) + "-" + ratio(high)
}

// recommendationGrid is the table of one scenario, in the words of Table 6 of
// Atici and Boluk (2020). Notes on an application's choices are long, so the
// end of a run goes without them.
func recommendationGrid(g rank.Grid, withNotes bool) grid {
	out := grid{title: fmt.Sprintf("Recommended networks, %s", g.Scenario)}
	out.table.cols = []column{{head: "application"}, {head: "load"}, {head: "robust"}, {head: "not robust"}, {head: "notes"}}
	for _, r := range g.Rows {
		marks := ""
		if notes := warningsOf(r); withNotes && len(notes) > 0 {
			marks = out.notes.mark([]string{r.App + ": " + strings.Join(notes, "; ")})
		}
		out.table.add(r.App, "optimum", chosen(r.OptimumRobust), chosen(r.OptimumUnrobust), marks)
		out.table.add("", "high", chosen(r.HighRobust), chosen(r.HighUnrobust), "")
	}
	out.legend = "= tied: the data cannot tell them apart; the best-scored one stands first."
	return out
}

// warningsOf gathers what is to be said about an application's four answers, once.
func warningsOf(r rank.GridRow) (out []string) {
	for _, rec := range []rank.Recommendation{r.OptimumRobust, r.OptimumUnrobust, r.HighRobust, r.HighUnrobust} {
		for _, w := range rec.Warnings {
			if text := w.Gate + ": " + w.Text; !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// chosen names the recommended network and those tied with it.
func chosen(r rank.Recommendation) string {
	if len(r.Chosen) == 0 {
		return "none"
	}
	return listed(r.Chosen, " = ", 2)
}
