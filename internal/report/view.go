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
	Chosen []chosenView
	// Best is the probability that the first one is the best.
	Best string
	// More counts the tied networks that are not named.
	More int
	Why  string
}

// chosenView is a recommended network; Mark says how it is tied with the first one.
type chosenView struct{ Network, Mark string }

func newGridView(g rank.Grid) gridView {
	out := gridView{Scenario: g.Scenario.String()}
	for _, r := range g.Rows {
		row := gridRowView{App: r.App, Notes: warningsOf(r)}
		for _, rec := range answers(r) {
			c := newChoiceView(rec)
			row.Cells = append(row.Cells, c)
			row.Why = append(row.Why, c.Need+": "+rec.Why)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// newScoredView is the table by sums of z-scores, as Atici and Boluk (2020) have it.
func newScoredView(g rank.Grid) gridView {
	out := gridView{Scenario: g.Scenario.String()}
	for _, r := range g.Rows {
		row := gridRowView{App: r.App}
		for _, rec := range answers(r) {
			rec.Chosen, rec.Ranking.Outlook = rec.Scored, nil
			row.Cells = append(row.Cells, newChoiceView(rec))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func newChoiceView(rec rank.Recommendation) choiceView {
	need := "not robust"
	if rec.Robust {
		need = "robust"
	}
	c := choiceView{Need: fmt.Sprintf("%s load, %s", rec.Load, need), Why: rec.Why}
	for i, n := range rec.Chosen {
		p := chosenView{Network: n}
		if i > 0 {
			p.Mark = tieMark(rec, n)
		} else if first, ok := rec.Ranking.Outlook.Find(n); ok && first.Best != nil {
			c.Best = rank.Probability(*first.Best)
		}
		c.Chosen = append(c.Chosen, p)
	}
	if len(c.Chosen) > 4 {
		c.More, c.Chosen = len(c.Chosen)-3, c.Chosen[:3]
	}
	return c
}

// rankView is a ranking over several questions.
type rankView struct {
	// Title is the scenario.
	Title string
	Rows  []prospect
	Notes []string
}

func newRankView(r rank.Ranking) *rankView {
	out := &rankView{Title: scenarioText(*r.Scenario), Rows: prospects(r), Notes: leftOut(r.Outlook)}
	if s := rankingWarnings(r); s != "" {
		out.Notes = append(out.Notes, s)
	}
	return out
}

// matrix shows the regret of every network in every application and scenario.
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
	// Shade is 0 for none, else 1 (practically equal to the best) to 5.
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
		for i, n := range a.networks {
			cell := matrixCell{Text: "-"}
			if odds, ok := r.Outlook.Find(n); ok && odds.Regret != nil {
				cell.Text, cell.Shade = rank.Percent(*odds.Regret), shade(*odds.Regret, a.opts.Rank.EqualBelow())
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

// shade grows with the regret.
func shade(regret, equal float64) int {
	out := 1
	for _, bound := range []float64{equal, 0.1, 0.25, 0.5} {
		if regret >= bound {
			out++
		}
	}
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
