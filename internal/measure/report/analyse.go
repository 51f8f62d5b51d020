package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// analysis is all that is derived from an Input, once, for every format that
// shows more than the trials.
type analysis struct {
	Input
	opts      Options
	summaries []rank.Summary
	rankings  []rank.Ranking
	grids     []rank.Grid
	// networks in the order that gives them their colours: the baseline, then by name.
	networks []string
	sections []section
	claims   []claim.Judged
}

// section is a workload on one kernel, placement and MTU: what is drawn together.
// Its questions differ in pairs and load.
type section struct {
	Workload  string
	Placement topo.Placement
	MTU       int
	// Kernel of the guest; "" for the machine's own.
	Kernel string
	// Metrics that some trial told, the main one first and costs last.
	Metrics   []sample.Metric
	Questions []question
}

// question is one question with an answer per network.
type question struct {
	sample.Question
	Ranking rank.Ranking
	Lines   []line
	// Metrics that some trial told here, the main one first and costs last.
	Metrics []sample.Metric
}

// line is one network under one question.
type line struct {
	Network string
	// Row is its place in the ranking; zero Rank without one.
	Row rank.Row
	// Sum is nil where no trial of the cell has run.
	Sum *rank.Summary
}

func analyse(in Input, o Options) *analysis {
	o.Rank.Applications = in.Applications
	a := &analysis{Input: in, opts: o}
	trials := in.Results.Trials
	a.summaries = rank.Summarize(trials, o.Rank)
	a.rankings = rank.Rank(trials, o.Rank)
	a.grids = rank.Table(trials, o.Rank)
	a.networks = networksOf(a.summaries, a.baseline())
	a.sections = a.sectionsOf()
	a.claims = Judge(in, o)
	return a
}

func (a *analysis) baseline() string { return cmp.Or(a.opts.Rank.Baseline, rank.Baseline) }

// level is the confidence level for people: "95 %".
func (o Options) level() string {
	return strconv.FormatFloat(o.confidence()*100, 'g', 4, 64) + " %"
}

// title is the result's name for people.
func (a *analysis) title() string { return cmp.Or(a.Name, a.Results.Header.Experiment, "result") }

// overall lists the rankings over every question of a scenario.
func (a *analysis) overall() (out []rank.Ranking) {
	for _, r := range a.rankings {
		if r.Scope == rank.Overall {
			out = append(out, r)
		}
	}
	return out
}

func networksOf(sums []rank.Summary, baseline string) []string {
	var names []string
	for _, s := range sums {
		names = append(names, s.Network)
	}
	slices.SortFunc(names, func(x, y string) int {
		switch {
		case x == y:
			return 0
		case x == baseline:
			return -1
		case y == baseline:
			return 1
		}
		return cmp.Compare(x, y)
	})
	return slices.Compact(names)
}

func (a *analysis) sectionsOf() []section {
	byQuestion := map[sample.Question][]*rank.Summary{}
	var order []sample.Question
	for i := range a.summaries {
		q := a.summaries[i].Question()
		if byQuestion[q] == nil {
			order = append(order, q)
		}
		byQuestion[q] = append(byQuestion[q], &a.summaries[i])
	}
	slices.SortStableFunc(order, sample.Question.Compare)
	var out []section
	for _, q := range order {
		n := len(out) - 1
		if n < 0 || !out[n].holds(q) {
			out = append(out, section{Workload: q.Workload, Placement: q.Scenario.Placement, MTU: q.Scenario.MTU,
				Kernel: q.Scenario.Kernel})
			n++
		}
		out[n].Questions = append(out[n].Questions, a.question(q, byQuestion[q]))
	}
	for i := range out {
		var all []*rank.Summary
		for _, q := range out[i].Questions {
			all = append(all, byQuestion[q.Question]...)
		}
		out[i].Metrics = a.metricsOf(out[i].Workload, out[i].Questions[0].Load, all)
	}
	return out
}

// holds reports whether the question belongs into the section.
func (s section) holds(q sample.Question) bool {
	return s.Workload == q.Workload && s.Placement == q.Scenario.Placement && s.MTU == q.Scenario.MTU &&
		s.Kernel == q.Scenario.Kernel &&
		s.Questions[0].Scenario.VM == q.Scenario.VM && s.Questions[0].Scenario.Outside == q.Scenario.Outside &&
		s.Questions[0].Scenario.Cores == q.Scenario.Cores && s.Questions[0].Scenario.Rmem == q.Scenario.Rmem &&
		s.Questions[0].Scenario.Family == q.Scenario.Family
}

func (a *analysis) question(q sample.Question, sums []*rank.Summary) question {
	out := question{Question: q, Metrics: a.metricsOf(q.Workload, q.Load, sums)}
	i := slices.IndexFunc(a.rankings, func(r rank.Ranking) bool { return r.Question != nil && *r.Question == q })
	if i >= 0 {
		out.Ranking = a.rankings[i]
	}
	left := slices.Clone(sums)
	for _, row := range out.Ranking.Rows {
		l := line{Network: row.Network, Row: row}
		if i := slices.IndexFunc(left, func(s *rank.Summary) bool { return s.Network == row.Network }); i >= 0 {
			l.Sum = left[i]
			left = slices.Delete(left, i, i+1)
		}
		out.Lines = append(out.Lines, l)
	}
	// A network whose every trial failed may be in no ranking; it stays visible.
	for _, s := range left {
		out.Lines = append(out.Lines, line{Network: s.Network, Row: rank.Row{Network: s.Network}, Sum: s})
	}
	return out
}

// metricsOf lists the metrics that sums have: first those by which the
// workload's application judges it at the load, then the others, costs last.
func (a *analysis) metricsOf(workload string, load sample.Load, sums []*rank.Summary) []sample.Metric {
	has := map[string]bool{}
	for _, s := range sums {
		for _, f := range s.Figures {
			has[f.Metric.Name] = true
		}
	}
	var out []sample.Metric
	add := func(m sample.Metric) {
		if has[m.Name] {
			has[m.Name] = false
			out = append(out, m)
		}
	}
	for _, name := range application.Named(slices.Concat(application.Shipped(), a.Applications), workload, load) {
		if m, ok := sample.MetricByName(name); ok {
			add(m)
		}
	}
	for _, m := range sample.Metrics() {
		if m.Aspect != sample.Cost {
			add(m)
		}
	}
	for _, m := range sample.Metrics() {
		add(m)
	}
	return out
}

// costOf is the cost that fits the main metric: per GB for streams, per 1000
// operations for the rest.
func costOf(metrics []sample.Metric) (sample.Metric, bool) {
	want := sample.CPUPerKop
	if len(metrics) > 0 && metrics[0].Unit == "bit/s" {
		want = sample.CPUPerGB
	}
	if i := slices.IndexFunc(metrics, func(m sample.Metric) bool { return m.Name == want }); i >= 0 {
		return metrics[i], true
	}
	i := slices.IndexFunc(metrics, func(m sample.Metric) bool { return m.Aspect == sample.Cost })
	if i < 0 {
		return sample.Metric{}, false
	}
	return metrics[i], true
}

// figure is the line's figure of a metric.
func (l line) figure(name string) (rank.Figure, bool) {
	if l.Sum == nil {
		return rank.Figure{}, false
	}
	return l.Sum.Figure(name)
}

// ok is how many trials count, total how many ran.
func (l line) ok() (ok, total int) {
	if l.Sum == nil {
		return 0, 0
	}
	return l.Sum.OK, l.Sum.Trials
}

// center is the value to show for a figure: the merged histogram's for a
// percentile, else the mean over repetitions.
func center(f rank.Figure) float64 {
	if f.Pooled != nil {
		return *f.Pooled
	}
	return f.Interval.Center
}

// scaleOf is the scale in which all lines of a question show a metric.
func (q question) scaleOf(m sample.Metric) scale { return scaleOf(m, q.Lines) }

// scaleOf fits the middle of the lines' figures: one network that is a hundred
// times slower must not turn the others' microseconds into 0.04 ms.
func scaleOf(m sample.Metric, lines []line) scale {
	all := centers(m.Name, lines)
	// Percentiles stand side by side, so they share the median's unit.
	if strings.HasPrefix(m.Name, "latency_") {
		if medians := centers(sample.LatencyP50, lines); len(medians) > 0 {
			all = medians
		}
	}
	if len(all) == 0 {
		return scaleFor(m.Unit, 0)
	}
	return scaleFor(m.Unit, all[len(all)/2])
}

// centers are the lines' figures of a metric, sorted.
func centers(metric string, lines []line) (out []float64) {
	for _, l := range lines {
		if f, ok := l.figure(metric); ok {
			out = append(out, center(f))
		}
	}
	slices.Sort(out)
	return out
}

// load is the question's load for people: "1 connection, 64 B"; with the
// number of pairs where it is not one.
func load(q sample.Question) string {
	var out string
	add := func(s string) {
		if out != "" {
			out += ", "
		}
		out += s
	}
	if n := q.Scenario.Pairs; n > 1 {
		add(strconv.Itoa(n) + " pairs")
	}
	if n := q.Load.Connections; n != 0 {
		add(Plural(n, "connection"))
	}
	if n := q.Load.Size; n != 0 {
		add(strconv.Itoa(n) + " B")
	}
	if r := q.Load.Rate; r != 0 {
		unit := "1/s"
		if m := application.Named(application.Shipped(), q.Workload, sample.Load{}); len(m) > 0 && m[0] == sample.Throughput {
			unit = "bit/s"
		}
		add("offered " + human(r, unit))
	}
	if c := q.Load.Congestion; c != "" {
		add("congestion control " + c)
	}
	return cmp.Or(out, "default load")
}

// Plural is a number of things in words.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
