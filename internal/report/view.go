package report

import (
	"fmt"
	"math"
	"strings"

	"pathwise.dev/pathwise/internal/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// gridView is the recommendation table of one scenario.
type gridView struct {
	Scenario string
	Rows     []gridRowView
}

// gridRowView is one application: robust and not, at optimum and at high load.
type gridRowView struct {
	App   string
	Cells []choiceView
	// Why are the reasons of the four answers, without repetition.
	Why   []string
	Notes []string
}

type choiceView struct {
	Need   string
	Chosen []string
	// More counts the tied networks that are not named.
	More int
	Why  string
}

func newGridView(g rank.Grid) gridView {
	out := gridView{Scenario: g.Scenario.String()}
	for _, r := range g.Rows {
		row := gridRowView{App: r.App, Notes: warningsOf(r)}
		for _, rec := range []rank.Recommendation{r.OptimumRobust, r.OptimumUnrobust, r.HighRobust, r.HighUnrobust} {
			need := "not robust"
			if rec.Robust {
				need = "robust"
			}
			c := choiceView{Need: fmt.Sprintf("%s load, %s", rec.Load, need), Chosen: rec.Chosen, Why: rec.Why}
			if len(c.Chosen) > 4 {
				c.More, c.Chosen = len(c.Chosen)-3, c.Chosen[:3]
			}
			row.Cells = append(row.Cells, c)
			row.Why = append(row.Why, c.Need+": "+rec.Why)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// rankView is a ranking over several questions.
type rankView struct {
	// Title is the scenario.
	Title string
	Rows  []rankRowView
	Notes []string
}

type rankRowView struct {
	Network  string
	Rank     string
	Tie      string
	Score    string
	Ratio    string
	Baseline bool
	// Missing is why the network has no rank.
	Missing string
}

func newRankView(r rank.Ranking) *rankView {
	out := &rankView{Title: scenarioText(*r.Scenario)}
	for _, row := range r.Rows {
		v := rankRowView{Network: row.Network, Rank: rankText(row), Tie: tieLetter(r, row), Ratio: ratioRange(row), Baseline: row.Baseline}
		if len(row.Features) > 0 {
			v.Score = score(row.Score)
		}
		if len(row.Missing) > 0 {
			v.Missing = fmt.Sprintf("no OK trial for %s: %s", plural(len(row.Missing), "sub-feature"), listed(row.Missing, "; ", 3))
		}
		out.Rows = append(out.Rows, v)
	}
	if s := rankingWarnings(r); s != "" {
		out.Notes = append(out.Notes, s)
	}
	return out
}

// matrix shows the rank of every network in every application and scenario.
type matrix struct {
	Head []string
	Rows []matrixRow
}

type matrixRow struct {
	Network string
	Cells   []matrixCell
}

type matrixCell struct {
	Text string
	// Shade is 0 for none, else 1 (the best fifth) to 5. It follows the middle
	// of the rank's interval, so that ties do not look like differences.
	Shade int
}

// appMatrix is nil where there is no more to tell than the overall ranking does.
func appMatrix(a *analysis) *matrix {
	out := &matrix{}
	rows := make([]matrixRow, len(a.networks))
	for _, r := range a.rankings {
		if r.Scope != rank.OfApplication {
			continue
		}
		out.Head = append(out.Head, strings.Replace(r.Name, "/", ", ", 1))
		ranked := 0
		for _, row := range r.Rows {
			ranked = max(ranked, row.Rank)
		}
		for i, n := range a.networks {
			cell := matrixCell{Text: "-"}
			if row, ok := findRank(r, n); ok {
				cell.Text = rankText(row)
				if row.Rank > 0 {
					cell.Shade = 1 + (row.RankLow+row.RankHigh-2)*5/(2*max(ranked, 1))
				}
			}
			rows[i].Network, rows[i].Cells = n, append(rows[i].Cells, cell)
		}
	}
	if len(out.Head) < 2 {
		return nil
	}
	out.Rows = rows
	return out
}

// strip is a network's interval drawn small beside its figures, in parts of
// the strip's width, 0 to 100. Base is the baseline's centre; below 0 without.
type strip struct{ Low, Mid, High, Base float64 }

// stripOf returns false where the line has no main figure.
func stripOf(q question, l line) (strip, bool) {
	if len(q.Metrics) == 0 {
		return strip{}, false
	}
	f, ok := l.figure(q.Metrics[0].Name)
	if !ok {
		return strip{}, false
	}
	var top, base float64
	for _, o := range q.Lines {
		g, ok := o.figure(q.Metrics[0].Name)
		if !ok {
			continue
		}
		top = max(top, center(g))
		if g.Interval.Bounded() && g.Interval.High < 3*center(g) {
			top = max(top, g.Interval.High)
		}
		if o.Row.Baseline {
			base = center(g)
		}
	}
	// A wide interval of few repetitions is clipped, or it would shrink all others.
	part := func(v float64) float64 {
		if math.IsNaN(v) || top <= 0 {
			return 0
		}
		return math.Round(1000*min(max(v/top, 0), 1)) / 10
	}
	out := strip{part(f.Interval.Low), part(center(f)), part(f.Interval.High), -1}
	if !f.Interval.Bounded() {
		out.Low, out.High = out.Mid, out.Mid
	}
	if base > 0 {
		out.Base = part(base)
	}
	return out, true
}

// better says the direction of a metric in a word.
func better(m sample.Metric) string {
	if m.Better == sample.Lower {
		return "lower is better"
	}
	return "higher is better"
}
