package report

import (
	"math"
	"strconv"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// forest is a picture of intervals below one another, on a logarithmic axis of ratios: half
// and double are as far from 1. Coordinates are those of its view box.
type forest struct {
	Width, Height float64
	Caption       string
	Panels        []forestPanel
}

// forestPanel is a part of a forest with a title and an axis of its own.
type forestPanel struct {
	Title               string
	TitleY, Top, Bottom float64
	Rows                []forestRow
	Ticks               []plotTick
	// One is where the ratio is 1.
	One   float64
	TickY float64
}

// forestRow is an interval with its name and its figures. Band, where it has a width, is the
// range that it is held to.
type forestRow struct {
	// Label is as much of Name as there is room for.
	Label, Name, Text, Class string
	Network                  string
	Y, BandY                 float64
	Low, Mid, High           float64
	From, Band               float64
}

// forestItem is what a row shows.
type forestItem struct {
	label, network, class, text string
	of                          stat.Interval
	within                      claim.Range
}

// The frame of a forest, in units of its view box, which is narrow so that letters stay
// legible on a phone.
const (
	forestWidth = 400
	forestLeft  = 128
	forestRight = 286
	forestRow1  = 17
	forestMost  = 14
	forestName  = 17
)

// add adds a panel below the others.
func (f *forest) add(title string, items []forestItem) {
	if len(items) == 0 {
		return
	}
	if len(items) > forestMost {
		items = items[:forestMost]
	}
	at, low, high := forestAxis(items, forestLeft, forestRight)
	p := forestPanel{Title: title, TitleY: f.Height + 14, Top: f.Height + 20, One: at(1)}
	y := p.Top
	for _, it := range items {
		r := forestRow{Label: middle(it.label, forestName), Name: it.label, Network: it.network, Class: it.class,
			Text: it.text, Y: y + forestRow1/2, BandY: y + 2}
		lo, hi := ends(it.of)
		r.Low, r.Mid, r.High = at(lo), at(it.of.Center), at(hi)
		if it.within != (claim.Range{}) {
			r.From, r.Band = forestLeft, forestRight-forestLeft
			if it.within.Least != nil {
				r.From = at(*it.within.Least)
			}
			end := float64(forestRight)
			if it.within.Most != nil {
				end = at(*it.within.Most)
			}
			r.Band = round1(end - r.From)
		}
		p.Rows = append(p.Rows, r)
		y += forestRow1
	}
	p.Bottom, p.TickY = y, y+12
	for _, v := range forestTicks(low, high) {
		p.Ticks = append(p.Ticks, plotTick{at(v), strconv.FormatFloat(v, 'g', 3, 64)})
	}
	f.Panels = append(f.Panels, p)
	f.Width, f.Height = forestWidth, y+18
}

// middle shortens a name in its middle: long names often begin alike.
func middle(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	tail := limit * 3 / 5
	return string(r[:limit-1-tail]) + "…" + string(r[len(r)-tail:])
}

// forestAxis is the axis from left to right that has room for every centre, for 1 and for most of each interval.
func forestAxis(items []forestItem, left, right float64) (at func(float64) float64, low, high float64) {
	low, high = 1, 1
	for _, it := range items {
		c := it.of.Center
		lo, hi := ends(it.of)
		low, high = min(low, max(lo, c/3)), max(high, min(hi, c*3))
		for _, e := range []*float64{it.within.Least, it.within.Most} {
			if e != nil && *e > 0 {
				low, high = min(low, *e), max(high, *e)
			}
		}
	}
	low, high = low/1.08, high*1.08
	return func(v float64) float64 {
		if !(v > 0) {
			return left
		}
		part := min(max(math.Log(v/low)/math.Log(high/low), 0), 1)
		return round1(left + part*(right-left))
	}, low, high
}

// forestTicks are some round ratios of an axis, few enough to fit next to one another.
func forestTicks(low, high float64) (out []float64) {
	for _, set := range [][]float64{{0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5}, {0.4, 0.6, 0.8, 1, 1.5, 2, 3},
		{0.125, 0.25, 0.5, 1, 2, 4, 8},
		{1e-3, 0.01, 0.1, 1, 10, 100, 1e3}, {1e-6, 1e-4, 0.01, 1, 100, 1e4, 1e6}} {
		out = nil
		for _, v := range set {
			if v >= low && v <= high {
				out = append(out, v)
			}
		}
		// As far apart as the set's are on average, a tick has some 25 units of 158.
		if apart := math.Log(set[len(set)-1]/set[0]) / float64(len(set)-1); math.Log(high/low)/apart <= 6 {
			return out
		}
	}
	return out
}

// networkForest draws each network's index against the baseline's, or against the best one's
// where the baseline has none.
func networkForest(a *analysis) *forest {
	out := &forest{}
	baselined := false
	const panels = 2
	for _, r := range a.overall() {
		if r.Outlook == nil || len(out.Panels) == panels {
			continue
		}
		var items []forestItem
		for i, n := range r.Outlook.Odds {
			of := n.ToBaseline
			if of == nil {
				of = n.ToFirst
			} else {
				baselined = true
			}
			if of == nil && i == 0 {
				of = &stat.Interval{Center: 1, Low: 1, High: 1}
			}
			if of != nil && of.Center > 0 && !math.IsInf(of.Center, 0) {
				items = append(items, forestItem{label: n.Network, network: n.Network, text: ratioSpan(*of), of: *of})
			}
		}
		out.add(scenarioText(*r.Scenario), items)
	}
	out.Caption = "All figures of each network over those of the best one: mean and interval of the weighted ratio"
	if baselined {
		out.Caption = "All figures of each network over those of " + a.baseline() +
			": mean and interval of the weighted ratio"
	}
	if len(out.Panels) == 0 {
		return figureForest(a)
	}
	return out
}

// figureForest draws the main figure of the first question over the greatest one, where no
// network could be ranked.
func figureForest(a *analysis) *forest {
	for _, s := range a.sections {
		for _, q := range s.Questions {
			if len(q.Metrics) == 0 {
				continue
			}
			m := q.Metrics[0]
			top := 0.0
			for _, l := range q.Lines {
				if f, ok := l.figure(m.Name); ok {
					top = max(top, center(f))
				}
			}
			if top <= 0 {
				continue
			}
			out, items := &forest{Caption: title(m) + " over the greatest, " + better(m)}, []forestItem(nil)
			for _, l := range q.Lines {
				if f, ok := l.figure(m.Name); ok && center(f) > 0 {
					c := center(f)
					of := stat.Interval{Center: c / top, Low: f.Interval.Low / top, High: f.Interval.High / top}
					items = append(items, forestItem{label: l.Network, network: l.Network, text: q.value(l, m, true), of: of})
				}
			}
			out.add(q.Workload+", "+scenarioWords(q.Scenario)+", "+load(q.Question), items)
			return out
		}
	}
	return nil
}

// claimForest draws what was measured of claims next to the range that each is held to: first
// those that are told, then the open ones.
func claimForest(a *analysis) *forest {
	var items, open []forestItem
	for _, j := range a.claims {
		f := telling(j)
		if len(f.Steps) == 0 || !(f.Steps[0].Ratio.Center > 0) || math.IsInf(f.Steps[0].Ratio.Center, 0) {
			continue
		}
		m, _ := sample.MetricByName(j.Metric)
		s := f.Steps[0]
		it := forestItem{label: j.ID, class: verdictClass(j.Verdict()), text: ratioSpan(s.Ratio), of: s.Ratio,
			within: stepRange(j.Claim, m)}
		if j.Verdict() == claim.Open {
			open = append(open, it)
		} else {
			items = append(items, it)
		}
	}
	if len(items)+len(open) == 0 {
		return nil
	}
	out := &forest{Caption: "Ratios measured, with intervals, on the ranges that claims say (shaded)"}
	all := append(items, open...)
	out.add("", all)
	return out
}
