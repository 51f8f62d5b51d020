package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
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
	Why []string
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
	out := gridView{Scenario: scenarioWords(g.Scenario)}
	for _, r := range g.Rows {
		row := gridRowView{App: r.App}
		for _, rec := range answers(r) {
			row.Cells = append(row.Cells, newChoiceView(rec))
		}
		row.Why = reasons(r)
		out.Rows = append(out.Rows, row)
	}
	return out
}

// reasons are those of an application's four answers; answers for the same reason share it.
func reasons(r rank.GridRow) (out []string) {
	var texts []string
	needs := map[string][]string{}
	for _, rec := range answers(r) {
		if needs[rec.Why] == nil {
			texts = append(texts, rec.Why)
		}
		needs[rec.Why] = append(needs[rec.Why], newChoiceView(rec).Need)
	}
	for _, t := range texts {
		where := strings.Join(needs[t], "; ")
		if len(needs[t]) == len(answers(r)) {
			where = "any load, robust or not"
		}
		out = append(out, where+": "+t)
	}
	return out
}

// adviceView is the recommendation tables.
type adviceView struct {
	Grids []gridView
	// Open are the scenarios where no answer tells any network from another.
	Open string
	// Notes on the answers that are not said elsewhere.
	Notes []string
}

// newAdviceView leaves to one sentence the tables that would tell nothing, and leaves out the
// notes that are said already.
func newAdviceView(a *analysis, said []string) (out adviceView) {
	var open []string
	var notes sharedNotes
	for _, g := range a.grids {
		if !tells(g) {
			open = append(open, scenarioWords(g.Scenario))
			continue
		}
		out.Grids = append(out.Grids, newGridView(g))
		for _, r := range g.Rows {
			for _, text := range warningsOf(r) {
				if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix("left out: "+s, text+" (") }) {
					notes.add(text, r.App)
				}
			}
		}
	}
	out.Open, out.Notes = inWords(open, 6), notes.list()
	return out
}

// tells tells whether some answer of the grid leaves out a network.
func tells(g rank.Grid) bool {
	return slices.ContainsFunc(g.Rows, func(r rank.GridRow) bool {
		return slices.ContainsFunc(answers(r), func(rec rank.Recommendation) bool {
			o := rec.Ranking.Outlook
			return o != nil && (len(o.Tied()) < len(o.Odds) || len(o.Named(rank.Open)) == 0)
		})
	})
}

// newScoredView is the table by sums of z-scores, as Atici and Boluk (2020) have it.
func newScoredView(g rank.Grid) gridView {
	out := gridView{Scenario: scenarioWords(g.Scenario)}
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

// rankingsView are the rankings over all questions of each scenario.
type rankingsView struct {
	Tables []rankView
	// Open are the rankings that tell no network from another.
	Open []openRank
	// LeftOut are the figures that tell nothing, with the scenarios where they do not.
	LeftOut []string
}

// rankView is a ranking over several questions.
type rankView struct {
	// Title is the scenario.
	Title string
	Rows  []prospect
	// Notes are numbers of the page's notes, on the ranking as a whole.
	Notes []int
}

// openRank is a ranking in which any network may be the best.
type openRank struct{ Scenario, Networks, Least, Wants string }

func newRankingsView(a *analysis, notes *footnotes) (out rankingsView) {
	var left sharedNotes
	for _, r := range a.overall() {
		o := r.Outlook
		for _, w := range o.LeftOut() {
			left.add(weightName(w)+": "+w.LeftOut, scenarioWords(*r.Scenario))
		}
		if o == nil || len(o.Odds) < 2 || len(o.Tied()) < len(o.Odds) || len(o.Named(rank.Open)) == 0 {
			t := rankView{Title: scenarioText(*r.Scenario), Rows: prospects(r)}
			if warn := rankingWarnings(r); warn != "" {
				t.Notes = []int{notes.number(warn)}
			}
			out.Tables = append(out.Tables, t)
			continue
		}
		row := openRank{Scenario: scenarioWords(*r.Scenario), Networks: listed(o.Tied(), ", ", 0)}
		least, wants := math.Inf(1), 0
		for _, n := range o.Odds[1:] {
			wants = max(wants, o.Wants(n, mostBlocks))
			if n.ToFirst != nil && n.ToFirst.Bounded() {
				least = min(least, n.ToFirst.Low)
			}
		}
		if row.Wants = fmt.Sprint(wants); wants == mostBlocks {
			row.Wants = fmt.Sprintf("%d or more", mostBlocks)
		}
		if !math.IsInf(least, 1) {
			row.Least = reaching(least)
		}
		out.Open = append(out.Open, row)
	}
	out.LeftOut = left.list()
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

// appMatrix has the regrets of the recommendations, so that a figure has one value; it is nil
// where there is no more to tell than the overall ranking does.
func appMatrix(a *analysis) *matrix {
	out := &matrix{}
	rows := make([]matrixRow, len(a.networks))
	told := make([]bool, len(a.networks))
	for _, g := range a.grids {
		for _, row := range g.Rows {
			out.Head = append(out.Head, row.App+", "+scenarioWords(g.Scenario))
			for i, n := range a.networks {
				cell := matrixCell{Text: "-"}
				odds, ok := row.OptimumUnrobust.Ranking.Outlook.Find(n)
				if ok && odds.Regret != nil {
					cell.Text, cell.Shade = rank.Percent(*odds.Regret), shade(*odds.Regret, a.opts.Rank.EqualBelow())
					told[i] = true
				}
				rows[i].Network, rows[i].Cells = n, append(rows[i].Cells, cell)
			}
		}
	}
	for i, t := range told {
		if t {
			out.Rows = append(out.Rows, rows[i])
		}
	}
	if len(out.Head) < 2 || len(out.Rows) == 0 {
		return nil
	}
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

// strip is a network's interval drawn small alongside its figures, in parts of
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
