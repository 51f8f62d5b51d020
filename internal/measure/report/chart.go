package report

import (
	"encoding/json"
	"math"
	"strconv"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// chartData is what the scripts of the HTML report draw. Values are scaled
// already, so that the scripts only place and round them. Field names are
// short because they are repeated in every report.
type chartData struct {
	Networks []chartNetwork `json:"networks"`
	Sections []chartSection `json:"sections"`
	// Phases is the mean seconds per trial of each network, by phaseNames.
	Phases     [][]num  `json:"phases"`
	PhaseNames []string `json:"phaseNames"`
	ModeNames  []string `json:"modeNames"`
}

type chartNetwork struct {
	Name string `json:"name"`
	// Color counts the palette, 0 being the baseline's; Cycle how often the
	// palette was used up before, which patterns and symbols show.
	Color    int  `json:"color"`
	Cycle    int  `json:"cycle"`
	Baseline bool `json:"baseline,omitempty"`
}

// chartSection holds a section's figures, indexed by load and then network.
type chartSection struct {
	ID      string        `json:"id"`
	Title   string        `json:"title"`
	Loads   []string      `json:"loads"`
	Metrics []chartMetric `json:"metrics"`
	// Ends says in a word why a network has no figure under a load.
	Ends [][]string `json:"ends"`
	// Cost is the index of the metric that is the cost; -1 without one.
	Cost  int         `json:"cost"`
	Axes  []loadAxis  `json:"axes,omitempty"`
	Curve *chartCurve `json:"curve,omitempty"`
	Modes *chartStack `json:"modes,omitempty"`
	Start *chartStack `json:"start,omitempty"`
}

// chartMetric is a metric of all cells of a section: centre, low, high.
type chartMetric struct {
	Title string    `json:"title"`
	Unit  string    `json:"unit"`
	Lower bool      `json:"lower"`
	Cells [][][]num `json:"cells"`
}

// loadAxis is a knob along which the load grows while the others stay.
type loadAxis struct {
	Title string `json:"title"`
	// X are the knob's values, Loads the indexes of the loads at them.
	X     []float64 `json:"x"`
	Loads []int     `json:"loads"`
}

// chartCurve is a latency distribution by load and network: points of
// -log10(1-p) and latency.
type chartCurve struct {
	Unit   string      `json:"unit"`
	Points [][][][]num `json:"points"`
}

// chartStack is a total split in parts, by load and network.
type chartStack struct {
	Unit  string    `json:"unit"`
	Parts []string  `json:"parts"`
	Cells [][][]num `json:"cells"`
}

// num is a value as JSON: six digits, and null for what JSON lacks.
type num float64

func (n num) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(rounded)
}

// palette is the number of colours besides the baseline's; symbols and
// patterns tell apart what shares one.
const palette = 7

func chartNetworks(a *analysis) []chartNetwork {
	out := []chartNetwork{}
	next := 0
	for _, name := range a.networks {
		n := chartNetwork{Name: name, Baseline: name == a.baseline()}
		if !n.Baseline {
			n.Color, n.Cycle = 1+next%palette, next/palette
			next++
		}
		out = append(out, n)
	}
	return out
}

func newChartData(a *analysis) chartData {
	out := chartData{
		Networks: chartNetworks(a), Sections: []chartSection{},
		Phases: phaseMeans(a), PhaseNames: phaseNames(), ModeNames: modeNames(),
	}
	for i, s := range a.sections {
		c := chartSection{ID: sectionID(i), Title: s.title(), Cost: -1, Axes: s.axes(), Curve: s.curves(a.networks)}
		for _, q := range s.Questions {
			c.Loads = append(c.Loads, load(q.Question))
			c.Ends = append(c.Ends, q.ends(a.networks))
		}
		cost, hasCost := costOf(s.Metrics)
		for m, metric := range s.Metrics {
			if hasCost && metric.Name == cost.Name {
				c.Cost = m
			}
			c.Metrics = append(c.Metrics, s.chartMetric(metric, a.networks))
		}
		c.Modes = s.modes(a.networks)
		c.Start = s.startup(a.networks)
		out.Sections = append(out.Sections, c)
	}
	return out
}

func sectionID(i int) string { return "s" + strconv.Itoa(i+1) }

// line finds a network's line; false where it was never tried.
func (q question) line(network string) (line, bool) {
	for _, l := range q.Lines {
		if l.Network == network {
			return l, true
		}
	}
	return line{}, false
}

func (q question) ends(networks []string) []string {
	out := make([]string, len(networks))
	for i, n := range networks {
		if l, ok := q.line(n); ok {
			out[i] = l.status()
		}
	}
	return out
}

// scaleOf is the scale that all loads of a section share for a metric.
func (s section) scaleOf(m sample.Metric) scale {
	var lines []line
	for _, q := range s.Questions {
		lines = append(lines, q.Lines...)
	}
	return scaleOf(m, lines)
}

func (s section) chartMetric(m sample.Metric, networks []string) chartMetric {
	sc := s.scaleOf(m)
	out := chartMetric{Title: title(m), Unit: sc.unit, Lower: m.Better == sample.Lower}
	out.Cells = s.each(networks, func(l line) []num {
		f, ok := l.figure(m.Name)
		if !ok {
			return nil
		}
		return []num{num(center(f) / sc.by), num(f.Interval.Low / sc.by), num(f.Interval.High / sc.by)}
	})
	return out
}

// each calls get for every load and network; nil where there is no cell.
func (s section) each(networks []string, get func(line) []num) [][][]num {
	out := make([][][]num, len(s.Questions))
	for i, q := range s.Questions {
		out[i] = make([][]num, len(networks))
		for j, n := range networks {
			if l, ok := q.line(n); ok {
				out[i][j] = get(l)
			}
		}
	}
	return out
}

// any tells whether some cell is not nil.
func anyCell(cells [][][]num) bool {
	for _, load := range cells {
		for _, c := range load {
			if c != nil {
				return true
			}
		}
	}
	return false
}

func modeNames() []string { return []string{"user", "system", "softirq", "irq"} }

// modes is the CPU cost by mode: normalised to the work done where the cost
// is known, else the CPU-seconds of the window.
func (s section) modes(networks []string) *chartStack {
	cost, hasCost := costOf(s.Metrics)
	out := &chartStack{Unit: "CPU-s in the window", Parts: modeNames()}
	if hasCost {
		out.Unit = cost.Unit
	}
	out.Cells = s.each(networks, func(l line) []num {
		if l.Sum == nil || l.Sum.CPU == nil {
			return nil
		}
		c := l.Sum.CPU.Mean
		by := 1.0
		if hasCost {
			f, ok := l.figure(cost.Name)
			if !ok || c.Busy() <= 0 {
				return nil
			}
			by = f.Interval.Center / c.Busy()
		}
		return []num{num(c.User * by), num(c.System * by), num(c.SoftIRQ * by), num(c.IRQ * by)}
	})
	if !anyCell(out.Cells) {
		return nil
	}
	return out
}

// startup splits the start-up time into the CNI ADD part and the rest; the
// last two values are the interval of the total.
func (s section) startup(networks []string) *chartStack {
	m, _ := sample.MetricByName(sample.Startup)
	sc := s.scaleOf(m)
	out := &chartStack{Unit: sc.unit, Parts: []string{"CNI ADD", "rest"}}
	out.Cells = s.each(networks, func(l line) []num {
		total, ok := l.figure(sample.Startup)
		if !ok {
			return nil
		}
		var add float64
		if f, ok := l.figure(sample.StartupNetwork); ok {
			add = f.Interval.Center / sc.by
		}
		t := total.Interval
		return []num{num(add), num(t.Center/sc.by - add), num(t.Low / sc.by), num(t.High / sc.by)}
	})
	if !anyCell(out.Cells) {
		return nil
	}
	return out
}

func phaseNames() []string {
	return []string{"build", "ready", "warm-up", "window", "teardown", "other"}
}

// phaseSeconds are a trial's seconds by phaseNames.
func phaseSeconds(p sample.Phases) []float64 {
	known := p.Build + p.Ready + p.Warmup + p.Window + p.Teardown
	return []float64{p.Build, p.Ready, p.Warmup, p.Window, p.Teardown, max(p.Total-known, 0)}
}

// phaseSums are the seconds of all trials of each network, by phaseNames, and
// the number of its trials.
func phaseSums(a *analysis) (sums [][]float64, trials []int) {
	sums, trials = make([][]float64, len(a.networks)), make([]int, len(a.networks))
	index := map[string]int{}
	for i, n := range a.networks {
		index[n], sums[i] = i, make([]float64, len(phaseNames()))
	}
	for _, t := range a.Results.Trials {
		i, ok := index[t.Network]
		if !ok {
			continue
		}
		trials[i]++
		for j, v := range phaseSeconds(t.Phases) {
			sums[i][j] += v
		}
	}
	return sums, trials
}

func phaseMeans(a *analysis) [][]num {
	sums, trials := phaseSums(a)
	out := make([][]num, len(sums))
	for i, s := range sums {
		out[i] = make([]num, len(s))
		for j, v := range s {
			out[i][j] = num(v / float64(max(trials[i], 1)))
		}
	}
	return out
}

// findRank is a network's row in a ranking.
func findRank(r rank.Ranking, network string) (rank.Row, bool) {
	for _, row := range r.Rows {
		if row.Network == network {
			return row, true
		}
	}
	return rank.Row{}, false
}
