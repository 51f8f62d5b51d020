package report

import (
	"math"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// scale shows values of one unit in a multiple that people read easily.
type scale struct {
	// unit as shown: "Gbit/s".
	unit string
	// by is what a value is divided by to be shown.
	by float64
}

// scaleFor picks the scale for values up to top of a metric's unit. All values
// of a column or an axis share one, so that they can be compared at a glance.
func scaleFor(unit string, top float64) scale {
	top = math.Abs(top)
	step := func(steps ...scale) scale {
		for _, s := range steps[:len(steps)-1] {
			// Three significant digits of 0.9995 read 1.00 of the next unit.
			if top >= s.by*0.9995 {
				return s
			}
		}
		return steps[len(steps)-1]
	}
	switch unit {
	case "bit/s":
		return step(scale{"Tbit/s", 1e12}, scale{"Gbit/s", 1e9}, scale{"Mbit/s", 1e6}, scale{"kbit/s", 1e3}, scale{unit, 1})
	case "s":
		if top == 0 {
			return scale{unit, 1}
		}
		return step(scale{"s", 1}, scale{"ms", 1e-3}, scale{"us", 1e-6}, scale{"ns", 1e-9})
	case "CPU-s":
		return step(scale{unit, 1}, scale{"CPU-ms", 1e-3}, scale{"CPU-us", 1e-6})
	case "ratio":
		return scale{"%", 0.01}
	}
	return scale{unit, 1}
}

// num is v in the scale, three significant digits, without the unit.
func (s scale) num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v/s.by, 'f', decimals(v/s.by), 64)
}

// pm is the interval as "9.41 ± 0.12"; without a bound, the centre alone.
func (s scale) pm(i stat.Interval) string {
	if !i.Bounded() {
		return s.num(i.Center)
	}
	half := (i.High - i.Low) / 2 / s.by
	d := decimals(i.Center / s.by)
	// A narrow interval needs more digits than the centre alone, lest it reads 0.
	for more := 0; more < 2 && half > 0 && half < 0.5*math.Pow10(-d); more++ {
		d++
	}
	return strconv.FormatFloat(i.Center/s.by, 'f', d, 64) + " ± " + strconv.FormatFloat(half, 'f', d, 64)
}

// with is v with its unit: "9.41 Gbit/s".
func (s scale) with(v float64) string { return s.num(v) + " " + s.unit }

// decimals is how many digits after the point show v with three significant ones.
func decimals(v float64) int {
	v = math.Abs(v)
	if v == 0 {
		return 0
	}
	// What rounds up to the next power of ten needs one digit less.
	return min(max(2-int(math.Floor(math.Log10(v*1.0005))), 0), 6)
}

// Figure is one value of a metric with its unit, as progress and tables show it.
func Figure(m sample.Metric, v float64) string { return human(v, m.Unit) }

// human is one value in its own best scale, with its unit.
func human(v float64, unit string) string { return scaleFor(unit, v).with(v) }

// ratio shows a ratio: "0.93".
func ratio(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// percent shows the change that a ratio means: "-7.0 %".
func percent(r float64) string {
	if math.IsNaN(r) || math.IsInf(r, 0) {
		return "-"
	}
	return signed((r-1)*100, 1) + " %"
}

// signed shows v with its sign and d decimals; never "-0.0".
func signed(v float64, d int) string {
	out := strconv.FormatFloat(v, 'f', d, 64)
	if strings.Trim(out, "-0.") == "" {
		return strings.TrimPrefix(out, "-")
	}
	if v > 0 {
		out = "+" + out
	}
	return out
}

// score shows a sum of z-scores.
func score(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return signed(v, 2)
}

// pvalue shows a p-value as far as it means something.
func pvalue(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// title is a metric's name for people.
func title(m sample.Metric) string {
	switch m.Name {
	case sample.LatencyP50:
		return "p50"
	case sample.LatencyP99:
		return "p99"
	case sample.LatencyP999:
		return "p99.9"
	case sample.LatencyMean:
		return "mean"
	case sample.StartupNetwork:
		return "CNI ADD"
	case sample.Startup:
		return "start-up"
	case sample.CPUPerGB, sample.CPUPerKop:
		return "CPU"
	}
	return strings.ReplaceAll(m.Name, "_", " ")
}
