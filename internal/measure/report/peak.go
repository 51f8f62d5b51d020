package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// minCurve is how many loads make a curve: of two, the better one is no optimum.
const minCurve = 3

// curveGrids are the section's curves of its main metric against each knob, a
// line for each network, with the load at which the network does best.
func (s section) curveGrids(a *analysis) (out []grid) {
	if len(s.Metrics) == 0 {
		return nil
	}
	m := s.Metrics[0]
	sc := s.scaleOf(m)
	for _, x := range s.axes() {
		if len(x.X) < minCurve {
			continue
		}
		g := grid{title: fmt.Sprintf("%s: %s %s against %s", s.title(), title(m), sc.unit, x.Title)}
		g.table.cols = []column{{head: "network"}}
		for i, v := range x.X {
			// The loads nearest to the middle are the first that a narrow terminal does without.
			g.table.cols = append(g.table.cols, column{fmt.Sprint(v), true, min(i, len(x.X)-1-i) + 1})
		}
		g.table.cols = append(g.table.cols, column{head: "best at"})
		for _, n := range a.networks {
			row := []string{n}
			for _, i := range x.Loads {
				if l, _ := s.Questions[i].line(n); l.Sum == nil {
					row = append(row, "")
				} else if f, ok := l.figure(m.Name); ok {
					row = append(row, sc.pm(f.Interval))
				} else {
					row = append(row, l.status())
				}
			}
			g.table.add(append(row, s.peak(m, x, n, a))...)
		}
		g.legend = fmt.Sprintf("Best at is the load with the best mean; after \"or\" stand those that the data cannot tell from it with %s confidence.", a.opts.level())
		out = append(out, g)
	}
	return out
}

// peak names the load at which the network does best, "50 or 100"; "" for want of figures.
func (s section) peak(m sample.Metric, x loadAxis, network string, a *analysis) string {
	figures := make([]rank.Figure, len(x.Loads))
	for i, load := range x.Loads {
		l, _ := s.Questions[load].line(network)
		figures[i], _ = l.figure(m.Name)
	}
	p, ok := rank.PeakOf(m, figures, a.opts.Rank)
	if !ok {
		return ""
	}
	return peakText(p, x.X)
}

// peakText is "50 or 100".
func peakText(p rank.Peak, xs []float64) string {
	out := fmt.Sprint(xs[p.Best])
	for _, i := range p.Ties {
		out += fmt.Sprintf(" or %v", xs[i])
	}
	return out
}

// optima are the sections in which a claim speaks of an optimum, each with the load
// at which every network does best there and how well, for the end of a run.
func (a *analysis) optima() (out []block) {
	for _, s := range a.sections {
		spoken := slices.ContainsFunc(a.claims,
			func(j claim.Judged) bool { return j.Test.Optimum != nil && j.Where.Workload == s.Workload })
		if !spoken || len(s.Metrics) == 0 {
			continue
		}
		m := s.Metrics[0]
		sc := s.scaleOf(m)
		for _, x := range s.axes() {
			if len(x.X) < minCurve {
				continue
			}
			g := grid{title: fmt.Sprintf("%s: optimum of %s", s.title(), x.Title)}
			g.table.cols = []column{{head: "network"}, {head: "best at"},
				{head: strings.TrimSpace(title(m) + " " + sc.unit), right: true}}
			for _, n := range a.networks {
				if at := s.peak(m, x, n, a); at != "" {
					g.table.add(n, at, s.best(m, x, n))
				}
			}
			if len(g.table.rows) > 0 {
				out = append(out, g)
			}
		}
	}
	return out
}

// best is the figure at the load at which the network does best, with its interval.
func (s section) best(m sample.Metric, x loadAxis, network string) string {
	var best rank.Figure
	found := false
	for _, load := range x.Loads {
		l, _ := s.Questions[load].line(network)
		f, ok := l.figure(m.Name)
		if ok && (!found || float64(m.Better)*(f.Interval.Center-best.Interval.Center) > 0) {
			best, found = f, true
		}
	}
	if !found {
		return ""
	}
	return s.scaleOf(m).pm(best.Interval)
}

// peaks says for each network at which load it does best, for a chart's caption.
func (s section) peaks(m sample.Metric, a *analysis) string {
	var parts []string
	for _, x := range s.axes() {
		if len(x.X) < minCurve {
			continue
		}
		var best []string
		for _, n := range a.networks {
			if at := s.peak(m, x, n, a); at != "" {
				best = append(best, n+" "+at)
			}
		}
		if len(best) > 0 {
			parts = append(parts, x.Title+": "+strings.Join(best, ", "))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; best at " + strings.Join(parts, "; ")
}
