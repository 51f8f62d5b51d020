package rank

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Summary is what the trials of one cell say together. Only OK trials enter
// its figures.
type Summary struct {
	sample.Cell
	// Trials is the number of trials of any status, OK of those that count.
	Trials int `json:"trials"`
	OK     int `json:"ok"`
	// Ends counts how the trials ended, by status and reason, OK first.
	Ends []End `json:"ends"`
	// Kernels on which OK trials ran, sorted.
	Kernels []string `json:"kernels,omitempty"`
	// Notes of the OK trials on how the network was built, sorted.
	Notes []string `json:"notes,omitempty"`
	// Figures, one per metric, in the order of sample.Metrics.
	Figures []Figure `json:"figures,omitempty"`
	// Latency is the merged histogram of all repetitions; nil without any.
	Latency *sample.Histogram `json:"latency,omitempty"`
	// CPU is nil when no trial told it.
	CPU *CPU `json:"cpu,omitempty"`
	// Warnings of the OK trials, and of their gathering.
	Warnings []Counted `json:"warnings,omitempty"`
}

// End is a way in which trials of a cell ended.
type End struct {
	Status sample.Status `json:"status"`
	Reason string        `json:"reason,omitempty"`
	Count  int           `json:"count"`
}

// Counted is a warning with the number of trials that gave it.
type Counted struct {
	sample.Warning
	Count int `json:"count"`
}

// Figure is one metric of one cell.
type Figure struct {
	Metric sample.Metric `json:"metric"`
	// Repetitions and Values run in parallel, by rising repetition; only
	// finite values are kept.
	Repetitions []int     `json:"repetitions"`
	Values      []float64 `json:"values"`
	// Interval is of the mean over repetitions. For a latency percentile it
	// speaks of the percentile that one rebuild shows.
	Interval stat.Interval `json:"interval"`
	// Pooled is the latency figure of the merged histogram, in seconds: the
	// one to show as the cell's percentile, because a mean of percentiles is
	// not one. Nil for metrics that are not of latency, or when a repetition
	// has no histogram.
	Pooled *float64 `json:"pooled,omitempty"`
}

// CPU is the processor time of a cell's OK trials, in CPU-seconds of the
// measured window, idle baseline subtracted.
type CPU struct {
	// Mean by mode over the trials.
	Mean sample.CPU `json:"mean"`
	// Busy is the interval of user, system, softirq and irq time together.
	Busy stat.Interval `json:"busy"`
}

// Figure returns the figure of the metric called name.
func (s Summary) Figure(name string) (Figure, bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Metric.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return s.Figures[i], true
}

// blocks returns the values by repetition, which is the block of the experiment.
func (f Figure) blocks() stat.Blocks {
	out := make(stat.Blocks, len(f.Values))
	for i, r := range f.Repetitions {
		out[r] = f.Values[i]
	}
	return out
}

// Summarize gathers trials by cell, in the order of questions and then of
// network names. A repetition that is there twice (a run resumed, two
// results put together) counts once: the trial of higher Order, with a warning.
func Summarize(trials []sample.Trial, o Options) []Summary {
	o = o.withDefaults()
	cells := byCell(trials)
	out := make([]Summary, 0, len(cells))
	for _, c := range sortedCells(cells) {
		s, counted := gather(c, cells[c], o.Level)
		s.pool(counted)
		out = append(out, s)
	}
	return out
}

func byCell(trials []sample.Trial) map[sample.Cell][]sample.Trial {
	out := map[sample.Cell][]sample.Trial{}
	for _, t := range trials {
		out[t.Cell] = append(out[t.Cell], t)
	}
	return out
}

func sortedCells(cells map[sample.Cell][]sample.Trial) []sample.Cell {
	return slices.SortedFunc(maps.Keys(cells), func(a, b sample.Cell) int {
		return cmp.Or(a.Question().Compare(b.Question()), cmp.Compare(a.Network, b.Network))
	})
}

// gather makes a cell's summary, all but the merged histogram, which only
// Summarize needs and which is the slow part. It also returns the trials that count.
func gather(c sample.Cell, trials []sample.Trial, level float64) (Summary, []sample.Trial) {
	s := Summary{Cell: c, Trials: len(trials), Ends: endsOf(trials)}
	counted := okByRepetition(trials)
	s.OK = len(counted)
	for _, t := range counted {
		s.Kernels = append(s.Kernels, t.Kernel)
		s.Notes = append(s.Notes, t.Notes...)
	}
	slices.Sort(s.Kernels)
	s.Kernels = slices.Compact(s.Kernels)
	slices.Sort(s.Notes)
	s.Notes = slices.Compact(s.Notes)
	s.Figures = figuresOf(counted, level)
	s.CPU = cpuOf(counted, level)
	s.Warnings = countWarnings(counted)
	if extra := countOK(trials) - s.OK; extra > 0 {
		s.warn("repetitions", extra, "a repetition was measured again: the later trial counts")
	}
	if len(s.Kernels) > 1 {
		s.warn("kernel", s.OK, fmt.Sprintf("repetitions ran on different kernels: %v", s.Kernels))
	}
	return s, counted
}

func (s *Summary) warn(gate string, count int, text string) {
	s.Warnings = append(s.Warnings, Counted{sample.Warning{Gate: gate, Text: text}, count})
}

func countOK(trials []sample.Trial) (n int) {
	for _, t := range trials {
		if t.Status == sample.OK {
			n++
		}
	}
	return n
}

// okByRepetition returns the OK trials, one per repetition, in their order.
func okByRepetition(trials []sample.Trial) []sample.Trial {
	last := map[int]sample.Trial{}
	for _, t := range trials {
		if old, ok := last[t.Repetition]; t.Status == sample.OK && (!ok || t.Order >= old.Order) {
			last[t.Repetition] = t
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b sample.Trial) int {
		return cmp.Compare(a.Repetition, b.Repetition)
	})
}

func endsOf(trials []sample.Trial) []End {
	counts := map[End]int{}
	for _, t := range trials {
		e := End{Status: t.Status, Reason: t.Reason}
		if t.Status == sample.OK {
			// One line for OK, whatever else a trial says.
			e.Reason = ""
		}
		counts[e]++
	}
	var out []End
	for e, n := range counts {
		e.Count = n
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b End) int {
		switch {
		case a.Status == sample.OK:
			return -1
		case b.Status == sample.OK:
			return 1
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// figuresOf takes each metric of the trials. A metric that package sample
// does not know is kept without direction or aspect, so it is never ranked.
func figuresOf(trials []sample.Trial, level float64) []Figure {
	metrics := sample.Metrics()
	for _, name := range unknownMetrics(trials) {
		metrics = append(metrics, sample.Metric{Name: name})
	}
	var out []Figure
	for _, m := range metrics {
		f := Figure{Metric: m}
		var all []float64
		for _, t := range trials {
			v, ok := t.Metrics[m.Name]
			if !ok {
				continue
			}
			all = append(all, v)
			if finite(v) {
				f.Repetitions = append(f.Repetitions, t.Repetition)
				f.Values = append(f.Values, v)
			}
		}
		if len(f.Values) > 0 {
			f.Interval = stat.MeanT(all, level)
			out = append(out, f)
		}
	}
	return out
}

func unknownMetrics(trials []sample.Trial) []string {
	names := map[string]bool{}
	for _, t := range trials {
		for name := range t.Metrics {
			if _, known := sample.MetricByName(name); !known {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func cpuOf(trials []sample.Trial, level float64) *CPU {
	var out CPU
	var busy []float64
	for _, t := range trials {
		if c := t.CPU; c != nil {
			out.Mean.User += c.User
			out.Mean.System += c.System
			out.Mean.SoftIRQ += c.SoftIRQ
			out.Mean.IRQ += c.IRQ
			out.Mean.Steal += c.Steal
			out.Mean.Idle += c.Idle
			out.Mean.Cores = c.Cores
			busy = append(busy, c.Busy())
		}
	}
	if len(busy) == 0 {
		return nil
	}
	for _, p := range []*float64{&out.Mean.User, &out.Mean.System, &out.Mean.SoftIRQ, &out.Mean.IRQ, &out.Mean.Steal,
		&out.Mean.Idle} {
		*p /= float64(len(busy))
	}
	out.Busy = stat.MeanT(busy, level)
	return &out
}

func countWarnings(trials []sample.Trial) (out []Counted) {
	for _, t := range trials {
		for _, w := range t.Warnings {
			if i := slices.IndexFunc(out, func(c Counted) bool { return c.Warning == w }); i >= 0 {
				out[i].Count++
			} else {
				out = append(out, Counted{w, 1})
			}
		}
	}
	return out
}

// pool merges the trials' histograms and takes the latency figures from the whole.
func (s *Summary) pool(trials []sample.Trial) {
	merged, with := sample.NewHistogram(), 0
	for _, t := range trials {
		if t.Latency != nil {
			merged.Merge(t.Latency)
			with++
		}
	}
	if with == 0 {
		return
	}
	s.Latency = merged
	if with < len(trials) {
		s.warn("histogram", len(trials)-with, "no latency histogram: percentiles are means over repetitions")
		return
	}
	pooled := map[string]float64{
		sample.LatencyMean: merged.Mean(),
		sample.LatencyP50:  merged.Percentile(50),
		sample.LatencyP99:  merged.Percentile(99),
		sample.LatencyP999: merged.Percentile(99.9),
	}
	for i, f := range s.Figures {
		if v, ok := pooled[f.Metric.Name]; ok {
			s.Figures[i].Pooled = &v
		}
	}
}
