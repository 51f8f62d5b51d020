package report

import (
	"math"
	"strconv"

	"pathwise.dev/pathwise/internal/stat"
)

// plot is a drawing without a script: lines along a logarithmic axis, or bars
// where there is one value of the knob. Coordinates are those of its view box.
type plot struct {
	Width, Height int
	XTitle, Unit  string
	XTicks        []plotTick
	YTicks        []plotTick
	Lines         []plotLine
	Bars          []plotBar
}

type plotTick struct {
	At   float64
	Text string
}

// plotLine is a network's line: its points with their intervals.
type plotLine struct {
	Network string
	Path    string
	Points  []plotPoint
}

type plotPoint struct{ X, Y, Low, High float64 }

type plotBar struct {
	// Label is as much of Network as there is room for.
	Network, Label              string
	Y, Width, Low, High, Middle float64
	Text                        string
}

// The drawing's frame, in units of its view box.
const (
	plotWidth  = 640
	plotHeight = 260
	plotLeft   = 56
	plotRight  = 12
	plotTop    = 10
	plotBottom = 34
	barHeight  = 20
	barLeft    = 150
	barName    = 21
)

// newPlot draws series along xs; values are divided by by.
func newPlot(xs []float64, all []exhibitSeries, by float64, over, unit string) *plot {
	top := 0.0
	for _, s := range all {
		for _, p := range s.Points {
			if p.N > 0 {
				top = max(top, p.Center/by, min(p.High/by, 1.5*p.Center/by)) // a wide interval must not flatten all others
			}
		}
	}
	if top <= 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		return nil
	}
	if len(xs) == 1 {
		return barPlot(all, by, top, unit)
	}
	p := &plot{Width: plotWidth, Height: plotHeight, XTitle: over, Unit: unit}
	step, limit := axisUpTo(top)
	y := func(v float64) float64 {
		return round1(plotHeight - plotBottom - (plotHeight-plotBottom-plotTop)*min(max(v/limit, 0), 1))
	}
	x := func(i int) float64 {
		low, high := math.Log(xs[0]), math.Log(xs[len(xs)-1])
		return round1(plotLeft + (plotWidth-plotLeft-plotRight-16)*(math.Log(xs[i])-low)/(high-low) + 8)
	}
	if xs[0] <= 0 { // no place on a logarithmic axis
		x = func(i int) float64 {
			return round1(plotLeft + (plotWidth-plotLeft-plotRight-16)*float64(i)/float64(len(xs)-1) + 8)
		}
	}
	for v := 0.0; v <= limit*1.0001; v += step {
		p.YTicks = append(p.YTicks, plotTick{y(v), strconv.FormatFloat(v, 'g', 4, 64)})
	}
	for i, v := range xs {
		p.XTicks = append(p.XTicks, plotTick{x(i), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	for _, s := range all {
		p.Lines = append(p.Lines, plotLineOf(s, by, x, y))
	}
	return p
}

func plotLineOf(s exhibitSeries, by float64, x func(int) float64, y func(float64) float64) plotLine {
	line := plotLine{Network: s.Network}
	for i, v := range s.Points {
		if v.N == 0 {
			continue
		}
		low, high := ends(v)
		line.Points = append(line.Points, plotPoint{x(i), y(v.Center / by), y(low / by), y(high / by)})
		verb := " L"
		if line.Path == "" {
			verb = "M"
		}
		line.Path += verb + coordinate(x(i)) + " " + coordinate(y(v.Center/by))
	}
	return line
}

func barPlot(all []exhibitSeries, by, top float64, unit string) *plot {
	p := &plot{Width: plotWidth, Height: 8 + barHeight*len(all), Unit: unit}
	wide := func(v float64) float64 {
		return round1((plotWidth - barLeft - 70) * min(max(v/top, 0), 1))
	}
	one := scale{by: 1}
	for i, s := range all {
		v := s.Points[0]
		low, high := ends(v)
		y := float64(4 + barHeight*i)
		p.Bars = append(p.Bars, plotBar{Network: s.Network, Label: middle(s.Network, barName), Y: y,
			Middle: y + barHeight/2 - 2, Width: wide(v.Center / by), Low: barLeft + wide(low/by), High: barLeft + wide(high/by),
			Text: one.num(v.Center / by)})
	}
	return p
}

// ends are those of an interval, or its centre twice where it has none.
func ends(v stat.Interval) (low, high float64) {
	if !v.Bounded() {
		return v.Center, v.Center
	}
	return v.Low, v.High
}

// axisUpTo is the distance of ticks on an axis from 0, and its end, which is one of them and
// not below most.
func axisUpTo(most float64) (step, limit float64) {
	step = niceStep(max(most, 1e-9) / 4)
	return step, max(math.Ceil(most/step)*step, step)
}

func round1(v float64) float64 { return math.Round(10*v) / 10 }

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
