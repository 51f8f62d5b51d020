package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// resultBlocks is the whole result for readers of text and Markdown.
func resultBlocks(a *analysis) []block {
	out := headBlocks(a)
	for _, g := range a.grids {
		out = append(out, recommendationGrid(g, true))
	}
	for _, r := range a.overall() {
		out = append(out, prospectGrid("Ranking, "+r.Scenario.String(), r, a.baseline()))
	}
	if len(a.claims) > 0 {
		out = append(out, claimBlocks(a.claims, a.opts)...)
	}
	for _, s := range a.sections {
		for _, q := range s.Questions {
			out = append(out, questionGrid(q, a.baseline()))
		}
		for _, g := range s.curveGrids(a) {
			out = append(out, g)
		}
	}
	if len(a.sections) > 0 {
		if slices.ContainsFunc(a.overall(), func(r rank.Ranking) bool { return r.Outlook != nil }) {
			out = append(out, para(prospectLegend(a.opts, a.baseline())))
		}
		out = append(out, legend(a))
	}
	return out
}

// legend explains the columns once for all tables.
func legend(a *analysis) para {
	return para(fmt.Sprintf("Ranks count container networks by the sum of their z-scores (z); in brackets the %s interval of the rank. "+
		"Networks with the same letter are tied: the data cannot tell them from the group's best. "+
		"x %s is the ratio to the network %s. ± is the %s interval of the mean over rebuilt networks; p50, p99 and "+
		"p99.9 come from the merged histogram of all repetitions. n counts the trials that entered, of those that ran.",
		a.opts.level(), a.baseline(), a.baseline(), a.opts.level()))
}

// briefBlocks is what fits at the end of a run.
func briefBlocks(a *analysis) []block {
	out := headBlocks(a)
	for _, r := range a.overall() {
		out = append(out, prospectGrid("Ranking, "+r.Scenario.String(), r, a.baseline()))
	}
	for _, g := range a.grids {
		out = append(out, recommendationGrid(g, false))
	}
	out = append(out, a.optima()...)
	if len(a.claims) > 0 {
		out = append(out, claimsGrid(a.claims))
	}
	if a.Dir != "" {
		out = append(out, para("Details: pathwise report "+a.Dir))
	}
	return out
}

// headBlocks opens a page: what was run, how it ended, what is amiss.
func headBlocks(a *analysis) []block {
	out := []block{
		heading{1, a.title()},
		para(fmt.Sprintf("%s; %s; random order from seed %d.", counts(a.Results.Trials), Plural(len(a.networks), "network"),
			a.Results.Header.Seed)),
	}
	if s := a.incomplete(); s != "" {
		out = append(out, alert(s))
	}
	for _, g := range a.byGate() {
		out = append(out, alert(g.String()))
	}
	if len(a.networks) > 0 && !anyOK(a.Results.Trials) {
		out = append(out, alert("no trial ended ok: nothing can be ranked; the tables below say why"))
	}
	return out
}

func anyOK(trials []sample.Trial) bool {
	for _, t := range trials {
		if t.Status == sample.OK {
			return true
		}
	}
	return false
}

// questionGrid is the table of one question.
func questionGrid(q question, baseline string) grid {
	g := grid{title: fmt.Sprintf("%s, %s: %s", q.Workload, q.Scenario, load(q.Question))}
	g.table.cols = []column{{head: "rank"}, {head: "tie", drop: 3}, {head: "network"}}
	cost, hasCost := costOf(q.Metrics)
	if len(q.Metrics) == 0 {
		g.table.cols = append(g.table.cols, column{head: "figure", right: true})
	}
	for i, m := range q.Metrics {
		if m.Aspect != sample.Cost {
			g.table.cols = append(g.table.cols, column{title(m) + " " + q.scaleOf(m).unit, true, dropOf(i, m)})
		}
		if i == 0 {
			g.table.cols = append(g.table.cols, column{"x " + baseline, true, 1})
		}
	}
	if hasCost {
		g.table.cols = append(g.table.cols, column{title(cost) + " " + shortUnit(cost.Unit), true, 6})
	}
	g.table.cols = append(g.table.cols, column{"z", true, 2}, column{"n", true, 4}, column{head: "notes"})
	for _, l := range q.Lines {
		g.table.add(q.cells(l, &g.notes, cost, hasCost)...)
	}
	// Where every network failed, the rows say it all.
	if len(q.Metrics) > 0 {
		g.legend = rankingWarnings(q.Ranking)
	}
	return g
}

// dropOf says how early a narrow terminal goes without the i-th metric.
func dropOf(i int, m sample.Metric) int {
	switch {
	case i == 0:
		return 0
	case m.Name == sample.LatencyP99:
		return 5
	case m.Name == sample.LatencyP50:
		return 7
	}
	return 10 + i
}

// shortUnit leaves out of a cost's unit what the column's title says already.
func shortUnit(unit string) string { return strings.TrimPrefix(unit, "CPU-") }

func (q question) cells(l line, notes *footnotes, cost sample.Metric, hasCost bool) []string {
	out := []string{rankText(l.Row), tieLetter(q.Ranking, l.Row), l.Network}
	if len(q.Metrics) == 0 {
		out = append(out, l.status())
	}
	for i, m := range q.Metrics {
		if m.Aspect != sample.Cost {
			out = append(out, q.value(l, m, i == 0))
		}
		if i == 0 {
			out = append(out, l.toBaseline(m.Name))
		}
	}
	if hasCost {
		out = append(out, q.value(l, cost, false))
	}
	z := ""
	if len(l.Row.Features) > 0 {
		z = score(l.Row.Score)
	}
	return append(out, z, l.trials(), notes.mark(q.notes(l)))
}

// value is a figure of the line, with its interval where full; the status
// where the main figure is missing.
func (q question) value(l line, m sample.Metric, full bool) string {
	f, ok := l.figure(m.Name)
	switch {
	case !ok && full:
		return l.status()
	case !ok:
		return ""
	case full && f.Pooled == nil:
		return q.scaleOf(m).pm(f.Interval)
	}
	return q.scaleOf(m).num(center(f))
}

// feature is the line's sub-feature of a metric, as it was ranked.
func (l line) feature(name string) (rank.Feature, bool) {
	for _, f := range l.Row.Features {
		if f.Metric.Name == name {
			return f, true
		}
	}
	return rank.Feature{}, false
}

func (l line) toBaseline(name string) string {
	f, ok := l.feature(name)
	if !ok || f.ToBaseline == nil {
		return ""
	}
	return ratio(f.ToBaseline.Center)
}

// trials is "5", or "3/5" where some do not count.
func (l line) trials() string {
	ok, total := l.ok()
	if ok == total {
		return fmt.Sprint(ok)
	}
	return fmt.Sprintf("%d/%d", ok, total)
}
