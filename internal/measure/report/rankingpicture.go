package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/stat"
)

// The columns of a picture of rankings: where the names begin, the axis reaches from and to,
// and the figures end.
const (
	rankNames  = 44
	rankLeft   = 180
	rankRight  = 520
	rankRatio  = 582
	rankBest   = 658
	rankRegret = 730
	rankTie    = 810
	rankRow    = 24
	rankMost   = 16
)

// errUnranked is that of a result without two networks to compare.
var errUnranked = errors.New("no picture: the result ranks no networks")

// writeRankingPicture draws the rankings over every question, of two scenarios at most.
func writeRankingPicture(w io.Writer, a *analysis) error {
	d := &canvas{title: a.title() + ": ranking of networks"}
	y := 32.0
	drawn := 0
	for _, r := range a.overall() {
		if r.Outlook == nil || drawn == 2 {
			continue
		}
		d.text(drawingMargin, y, "ink head", scenarioText(*r.Scenario)+": which network is best?")
		y = a.drawRanking(d, y+28, r) + 34
		drawn++
	}
	if drawn == 0 {
		return errUnranked
	}
	y = d.paragraph(y-6, "soft", a.pictureLegend()...)
	d.height = y + 4
	return d.write(w)
}

// drawRanking draws one ranking below y and returns where it ends.
func (a *analysis) drawRanking(d *canvas, y float64, r rank.Ranking) float64 {
	rows, over := prospects(r), a.baseline()
	var items []forestItem
	intervals := map[string]stat.Interval{}
	for _, odds := range r.Outlook.Odds {
		of := odds.ToBaseline
		if of == nil {
			over, of = r.Outlook.Odds[0].Network, odds.ToFirst
		}
		if of != nil && of.Center > 0 && !math.IsInf(of.Center, 0) {
			intervals[odds.Network] = *of
			items = append(items, forestItem{of: *of})
		}
	}
	at, low, high := forestAxis(items, rankLeft, rankRight)
	for _, c := range []struct {
		at          float64
		class, name string
	}{{rankNames, "soft", "network"}, {rankRatio, "soft end", "x " + over}, {rankBest, "soft end", "best"},
		{rankRegret, "soft end", "regret"}, {rankTie, "soft end", "tie"}} {
		d.text(c.at, y, c.class, c.name)
	}
	top := y + 8
	for i, p := range rows[:min(len(rows), rankMost)] {
		a.drawProspect(d, top+float64(rankRow*i), i, p, intervals, at)
	}
	bottom := top + float64(rankRow*min(len(rows), rankMost))
	if more := len(rows) - rankMost; more > 0 {
		d.text(rankNames, bottom+14, "soft", fmt.Sprintf("and %d more", more))
	}
	d.line(rankLeft, bottom, rankRight, bottom, "edge")
	for _, v := range forestTicks(low, high) {
		d.line(at(v), bottom, at(v), bottom+4, "edge")
		d.text(at(v), bottom+17, "soft mid", fmt.Sprintf("%g", v))
	}
	d.line(at(1), top, at(1), bottom, "one")
	d.text((rankLeft+rankRight)/2, bottom+34, "soft mid", "performance over that of "+over+": more is better")
	return bottom + 34
}

// drawProspect draws a network's row, whose upper edge is at y.
func (a *analysis) drawProspect(d *canvas, y float64, i int, p prospect, intervals map[string]stat.Interval,
	at func(float64) float64) {
	if i%2 == 0 {
		d.rect(drawingMargin-8, y, drawingWidth-2*drawingMargin+16, rankRow, "stripe")
	}
	base, middleOf := y+rankRow/2+4, y+rankRow/2
	networks := chartNetworks(a)
	network := slices.IndexFunc(networks, func(n chartNetwork) bool { return n.Name == p.Network })
	colour := fmt.Sprint(networks[max(network, 0)].Color)
	if !p.Baseline && p.Missing == "" {
		d.text(rankNames-8, base, "soft end", fmt.Sprint(i+1))
	}
	weight := "ink"
	if i == 0 {
		weight = "ink bold"
	}
	d.text(rankNames, base, weight, middle(p.Network, 20))
	if p.Missing != "" {
		d.text(rankLeft, base, "soft", middle(p.Missing, 90))
		return
	}
	of, ok := intervals[p.Network]
	if p.Baseline {
		of, ok = stat.Interval{Center: 1, Low: 1, High: 1}, true
	}
	if ok {
		lo, hi := ends(of)
		d.line(at(lo), middleOf, at(hi), middleOf, "span s"+colour)
		d.dot(at(of.Center), middleOf, 4.5, "f"+colour)
	}
	d.text(rankRatio, base, "ink end", p.Ratio)
	d.text(rankBest, base, weight+" end", p.Best)
	d.text(rankRegret, base, "ink end", p.Regret)
	d.text(rankTie, base, "soft end", p.Tie)
}

// pictureLegend says how the figures were measured, on what and when, and what they mean.
func (a *analysis) pictureLegend() (out []string) {
	level := a.opts.level()
	if text := a.incomplete(); text != "" {
		out = append(out, capital(text)+".")
	}
	for _, r := range a.overall() {
		if r.Outlook != nil {
			out = append(out, fmt.Sprintf("Dots: weighted mean of %s; lines: its %s interval.", weighedShortly(r.Outlook),
				level))
			break
		}
	}
	out = append(out, "best: probability of being the best network; regret: expected loss against the best, in percent of "+
		"performance; tie with the first: equal, or open (the data cannot tell).", "Measured: "+subtitle(a)+".")
	if text := machineWords(a.Machine); text != "" {
		out = append(out, "Machine: "+text+".")
	}
	var gates []string
	for _, g := range a.byGate() {
		gates = append(gates, g.Gate)
	}
	if len(gates) > 0 {
		out = append(out, "Warnings of the run, which the report explains: "+strings.Join(gates, ", ")+".")
	}
	return out
}

// weighedShortly says what an index is made of, or of how many figures where they are many.
func weighedShortly(o *rank.Outlook) string {
	const shown = 6
	var workloads []string
	for _, w := range o.Weights {
		if w.Share > 0 {
			workloads = append(workloads, w.Question.Workload)
		}
	}
	n := len(workloads)
	if n <= shown {
		return weighed(o)
	}
	slices.Sort(workloads)
	return fmt.Sprintf("%d figures of %s", n, inWords(slices.Compact(workloads), shown))
}

// machineWords says on what a result was measured: "MODEL, CPUs 0-1, Linux 6.8.0".
func machineWords(record map[string]any) string {
	at := func(group, key string) string {
		v, _ := record[group].(map[string]any)
		s, _ := v[key].(string)
		return oneLine(s)
	}
	var parts []string
	for _, p := range [][2]string{{"", at("cpu", "model")}, {"CPUs ", at("cpu", "online")},
		{"Linux ", at("kernel", "release")}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, ", ")
}
