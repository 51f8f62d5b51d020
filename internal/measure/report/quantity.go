package report

import (
	"math"
	"strconv"
	"strings"
)

// quantity shows a drill's value with its unit.
func quantity(v float64, unit string) string { return quantityTo(v, unit, 0) }

// quantityTo shows more digits than three.
func quantityTo(v float64, unit string, more int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	s, d := quantityScale(unit, v), 0
	shown := v / s.by
	switch {
	case unit == "ratio":
		d = 3
	case unit == "count" && v == math.Trunc(v):
		d, more = 0, 0
	default:
		d = decimals(shown)
	}
	out := strconv.FormatFloat(shown, 'f', d+more, 64)
	if unit == "change" {
		out = signed(shown, 2+more)
	}
	if s.unit != "" {
		out += " " + s.unit
	}
	return out
}

func quantityScale(unit string, v float64) scale {
	switch unit {
	case "share", "change":
		return scale{"%", 0.01}
	case "ratio", "count":
		return scale{"", 1}
	case "B":
		for _, s := range []scale{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if math.Abs(v) >= s.by {
				return s
			}
		}
	}
	return scaleFor(unit, v)
}

// value shows the figure, with as many digits as it takes to tell it from the
// bar: "60.0 ms, at most 60.0 ms, not met" would puzzle.
func (f SteeringFigure) value() string {
	if f.N == 0 {
		return "-"
	}
	out := quantity(f.Value, f.Unit)
	if f.Bar == nil || f.Value == f.Bar.Limit {
		return out
	}
	for more := 1; more <= 4 && out == quantityTo(f.Bar.Limit, f.Unit, more-1); more++ {
		out = quantityTo(f.Value, f.Unit, more)
	}
	return out
}

// bar is "≤ 60.0 ms"; empty without one.
func (f SteeringFigure) bar() string {
	if f.Bar == nil {
		return ""
	}
	return f.Bar.Sign("≥", "≤") + " " + quantity(f.Bar.Limit, f.Unit)
}

// verdict is "met" or "not met"; empty without a bar.
func (f SteeringFigure) verdict() string {
	switch {
	case f.Bar == nil:
		return ""
	case f.Met():
		return "met"
	case f.N == 0:
		return "not measured"
	}
	return "not met"
}

// interval is empty where there is none.
func (f SteeringFigure) interval() string {
	if f.N < 2 || f.Low == f.High || math.IsNaN(f.Low) || math.IsNaN(f.High) {
		return ""
	}
	return f.between(f.Low, f.High)
}

// between is "44.6 to 50.2 ms", both in the figure's own scale.
func (f SteeringFigure) between(low, high float64) string {
	unit := quantityScale(f.Unit, f.Value)
	show := func(v float64) string {
		switch f.Unit {
		case "change", "ratio":
			return strings.TrimSuffix(quantity(v, f.Unit), " %")
		}
		return unit.num(v)
	}
	return strings.TrimSpace(show(low) + " to " + show(high) + " " + unit.unit)
}

// spread lists least, median, 99th percentile and most; nil where all are one.
func (f SteeringFigure) spread() []string {
	if f.N < 2 || f.Least == f.Most {
		return nil
	}
	var out []string
	for _, v := range []float64{f.Least, f.Median, f.P99, f.Most} {
		out = append(out, quantity(v, f.Unit))
	}
	return out
}

// strip draws the interval alongside the bar's limit.
func (f SteeringFigure) strip() *strip {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	if f.Bar == nil || f.N == 0 || !finite(f.Value) || f.Value < 0 || f.Bar.Limit < 0 {
		return nil
	}
	low, high := f.Low, f.High
	if !finite(low) || !finite(high) || low > f.Value || high < f.Value {
		low, high = f.Value, f.Value
	}
	top := max(f.Bar.Limit, f.Value, min(high, 3*max(f.Value, f.Bar.Limit))) * 1.1
	if top <= 0 || !finite(top) {
		return nil
	}
	at := func(v float64) float64 { return math.Round(1000*min(max(v/top, 0), 1)) / 10 }
	return &strip{Low: at(low), Mid: at(f.Value), High: at(high), Base: at(f.Bar.Limit)}
}

// gain shows a relative change as "+23 %"; change below a percent with a digit more.
func gain(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	d := 0
	if math.Abs(v) < 0.1 {
		d = 1
	}
	return signed(v*100, d) + " %"
}
