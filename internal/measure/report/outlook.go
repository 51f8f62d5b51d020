package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// prospect is one network's line in a table of prospects.
type prospect struct {
	Network, Best, Regret, Keeps, Tie, Ratio, Score, Rank string
	Baseline                                              bool
	// Missing is why the network has no rank.
	Missing string
}

// prospects lists the networks of a ranking: the likeliest first, then those
// that are not ranked.
func prospects(r rank.Ranking) (out []prospect) {
	var ranked []string
	if o := r.Outlook; o != nil {
		for i, odds := range o.Odds {
			ranked = append(ranked, odds.Network)
			row, _ := findRank(r, odds.Network)
			p := newProspect(row)
			p.Best, p.Regret, p.Tie = "?", "?", string(odds.Tie)
			if i == 0 && len(o.Tied()) > 1 {
				p.Tie = "first"
			}
			if odds.Best != nil {
				p.Best, p.Regret = rank.Probability(*odds.Best), rank.Percent(*odds.Regret)
			}
			if odds.Keeps != nil {
				p.Keeps = rank.Probability(*odds.Keeps)
			}
			if odds.ToBaseline != nil {
				p.Ratio = ratio(odds.ToBaseline.Center)
			}
			out = append(out, p)
		}
	}
	for _, row := range r.Rows {
		if !slices.Contains(ranked, row.Network) {
			out = append(out, newProspect(row))
		}
	}
	return out
}

// newProspect has what the ranking by z-scores tells of a network.
func newProspect(row rank.Row) prospect {
	p := prospect{Network: row.Network, Rank: rankText(row), Baseline: row.Baseline}
	if row.Baseline {
		p.Best, p.Ratio = "baseline", "1.00"
	}
	if len(row.Features) > 0 {
		p.Score = score(row.Score)
	}
	if len(row.Missing) > 0 {
		p.Missing = fmt.Sprintf("no OK trial for %s: %s", Plural(len(row.Missing), "sub-feature"),
			listed(row.Missing, "; ", 3))
	}
	return p
}

// keeps heads the probability that a network keeps the application's bounds.
const keeps = "keeps"

// prospectGrid is one ranking as a table.
func prospectGrid(title string, r rank.Ranking, baseline string) grid {
	g := grid{title: title}
	g.table.cols = []column{{head: "network"}, {head: "best", right: true}, {head: "regret", right: true},
		{head: keeps, right: true}, {head: "tie", drop: 3},
		{"x " + baseline, true, 2}, {"z", true, 4}, {"z rank", true, 5}, {head: "notes"}}
	if o := r.Outlook; o == nil || o.Odds[0].Keeps == nil { // without bounds
		g.table.cols = slices.DeleteFunc(g.table.cols, func(c column) bool { return c.head == keeps })
	}
	for _, p := range prospects(r) {
		var notes []string
		if p.Missing != "" {
			notes = append(notes, p.Missing)
		}
		cells := []string{p.Network, p.Best, p.Regret}
		if p.Keeps != "" || slices.ContainsFunc(g.table.cols, func(c column) bool { return c.head == keeps }) {
			cells = append(cells, p.Keeps)
		}
		g.table.add(append(cells, p.Tie, p.Ratio, p.Score, p.Rank, g.notes.mark(notes))...)
	}
	g.legend = strings.Join(append(leftOut(r.Outlook), rankingWarnings(r)), "; ")
	g.legend = strings.Trim(g.legend, "; ")
	return g
}

// leftOut says which figures tell nothing, and why; many of a workload in one.
func leftOut(o *rank.Outlook) (out []string) {
	left := o.LeftOut()
	const shown = 6
	for i, w := range left {
		if i == shown {
			return append(out, fmt.Sprintf("left out: %d more figures", len(left)-shown))
		}
		out = append(out, fmt.Sprintf("left out: %s: %s", weightName(w), w.LeftOut))
	}
	return out
}

// weightName is "tcp-stream c=8 throughput".
func weightName(w rank.Weight) string {
	return strings.Join(strings.Fields(w.Question.Workload+" "+w.Question.Load.String()+" "+w.Metric.Name), " ")
}

// weighed says what an index is made of: "tcp-stream c=8 throughput 50 %, ...".
func weighed(o *rank.Outlook) string {
	if o == nil {
		return ""
	}
	var parts []string
	for _, w := range o.Weights {
		if w.Share > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", weightName(w), rank.Percent(w.Share)))
		}
	}
	return strings.Join(parts, ", ")
}

// prospectLegend explains the columns of prospects.
func prospectLegend(o Options, baseline string) string {
	return fmt.Sprintf("best is the probability of being the best network; regret is the expected loss against the best, in percent of performance, "+
		"over draws from the repetitions. Tied with the first: equal (regret under %s), or open (the data cannot tell). x %s compares "+
		"the weighted geometric mean of the figures with the network %s's. z is the sum of z-scores of Atici and Boluk (2020).",
		rank.Percent(o.Rank.EqualBelow()), baseline, baseline)
}
