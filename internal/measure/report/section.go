package report

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

// sectionView is a workload on one placement: tables, and places for charts.
type sectionView struct {
	ID        string
	Title     string
	Doc       string
	Questions []questionView
	// Metrics are those that the bars can show, by their index in the data.
	Metrics []string
	// Main is the first of them with its unit.
	Main    string
	Figures []figureView
	// Baseline heads the column of ratios.
	Baseline string
}

// figureView is a place for a chart and the same data as a table.
type figureView struct {
	// Kind names the chart for the script: bars, load, curve, cost, modes, start.
	Kind    string
	Caption string
	Axes    []string
	Table   *dataTable
}

// dataTable is a chart's data for readers.
type dataTable struct {
	Head []string
	Rows [][]string
}

// questionView is the ranking table of one question.
type questionView struct {
	Load  string
	Heads []string
	Rows  []lineView
	// Notes are numbers of the page's notes, on the ranking as a whole.
	Notes []int
}

type lineView struct {
	Network  string
	Baseline bool
	Rank     string
	Tie      string
	// Main is the main figure; Failed the status where there is none.
	Main   string
	Failed string
	Strip  *strip
	Ratio  string
	Span   string
	// Others are the other figures, each under its head.
	Others []pair
	Score  string
	Trials string
	// Notes are numbers of the page's notes, counting from 1.
	Notes []int
}

func newSectionView(i int, s section, a *analysis, notes *footnotes) sectionView {
	out := sectionView{ID: sectionID(i), Title: s.title(), Baseline: a.baseline()}
	if len(s.Metrics) > 0 {
		m := s.Metrics[0]
		out.Main = title(m) + " (" + s.scaleOf(m).unit + ")"
		out.Doc = fmt.Sprintf("Main figure: %s, %s; %s.", title(m), m.Doc, better(m))
	}
	for _, q := range s.Questions {
		out.Questions = append(out.Questions, newQuestionView(q, notes))
	}
	out.Figures = s.figures(a)
	// Only bars and lines show a metric of the reader's choice.
	if slices.ContainsFunc(out.Figures, func(f figureView) bool { return f.Kind == "bars" }) {
		for _, m := range s.Metrics {
			out.Metrics = append(out.Metrics, title(m))
		}
	}
	return out
}

func newQuestionView(q question, notes *footnotes) questionView {
	out := questionView{Load: load(q.Question)}
	if warn := rankingWarnings(q.Ranking); warn != "" {
		out.Notes = []int{notes.number(warn)}
	}
	for _, m := range q.Metrics {
		out.Heads = append(out.Heads, title(m)+" ["+shortUnit(q.scaleOf(m).unit)+"]")
	}
	if len(out.Heads) == 0 {
		out.Heads = []string{"figure"}
	}
	for _, l := range q.Lines {
		v := lineView{
			Network: l.Network, Baseline: l.Row.Baseline, Rank: rankText(l.Row), Tie: tieLetter(q.Ranking, l.Row),
			Trials: l.trials(),
		}
		if len(l.Row.Features) > 0 {
			v.Score = score(l.Row.Score)
		}
		q.fill(&v, l)
		v.Notes = notes.numbers(q.notes(l))
		out.Rows = append(out.Rows, v)
	}
	return out
}

// fill puts the figures into v.
func (q question) fill(v *lineView, l line) {
	if len(q.Metrics) == 0 {
		v.Failed = l.status()
		return
	}
	for _, m := range q.Metrics[1:] {
		v.Others = append(v.Others, pair{title(m) + " [" + shortUnit(q.scaleOf(m).unit) + "]", q.value(l, m, false)})
	}
	main := q.Metrics[0]
	if _, ok := l.figure(main.Name); !ok {
		v.Failed = l.status()
		return
	}
	v.Main = q.value(l, main, true)
	if s, ok := stripOf(q, l); ok {
		v.Strip = &s
	}
	if f, ok := l.feature(main.Name); ok && f.ToBaseline != nil {
		v.Ratio = ratio(f.ToBaseline.Center)
		if f.ToBaseline.Bounded() && !v.Baseline {
			v.Span = ratio(f.ToBaseline.Low) + "-" + ratio(f.ToBaseline.High)
		}
	}
}

// figures lists the charts for which the section has data.
func (s section) figures(a *analysis) (out []figureView) {
	if len(s.Metrics) == 0 {
		return nil
	}
	main := s.Metrics[0]
	st := s.startup(a.networks)
	if st != nil {
		out = append(out, figureView{Kind: "start", Table: s.stackTable(st, a.networks),
			Caption: "Start-up until the first answered ping: CNI ADD and the rest (" + st.Unit + ")"})
	}
	// A start-up's parts say more than a bar of the whole.
	if st == nil || main.Name != sample.Startup {
		out = append(out, figureView{Kind: "bars", Caption: "with " + a.opts.level() + " intervals"})
	}
	if axes := s.axes(); len(axes) > 0 {
		f := figureView{Kind: "load", Caption: "against load" + s.peaks(main, a), Table: s.matrixOf(main, a)}
		for _, x := range axes {
			f.Axes = append(f.Axes, x.Title)
		}
		out = append(out, f)
	}
	if c := s.curves(a.networks); c != nil {
		out = append(out, figureView{Kind: "curve", Table: s.percentiles(a),
			Caption: fmt.Sprintf("Service time (%s) by percentile, as far as %d values are slower", c.Unit, minTail)})
	}
	if cost, ok := costOf(s.Metrics); ok {
		out = append(out, figureView{Kind: "cost",
			Caption: fmt.Sprintf("CPU cost (%s) against %s; best at the lower right", cost.Unit, title(main))})
	}
	if m := s.modes(a.networks); m != nil {
		out = append(out, figureView{Kind: "modes", Table: s.stackTable(m, a.networks),
			Caption: "CPU by mode, whole machine, idle baseline subtracted (" + m.Unit + ")"})
	}
	return out
}

// matrixOf is a metric by network and load.
func (s section) matrixOf(m sample.Metric, a *analysis) *dataTable {
	sc := s.scaleOf(m)
	out := &dataTable{Head: []string{"network"}}
	for _, q := range s.Questions {
		out.Head = append(out.Head, load(q.Question)+" ["+sc.unit+"]")
	}
	for _, n := range a.networks {
		row := []string{n}
		for _, q := range s.Questions {
			l, _ := q.line(n)
			if f, ok := l.figure(m.Name); ok {
				row = append(row, sc.pm(f.Interval))
			} else {
				row = append(row, l.status())
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// percentiles is the latency distribution by load and network.
func (s section) percentiles(a *analysis) *dataTable {
	ps := []float64{50, 90, 99, 99.9, 99.99}
	c := s.curves(a.networks)
	out := &dataTable{Head: []string{"load", "network"}}
	for _, p := range ps {
		out.Head = append(out.Head, fmt.Sprintf("%g %% [%s]", p, c.Unit))
	}
	out.Head = append(out.Head, "max ["+c.Unit+"]", "values")
	by := map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[c.Unit]
	sc := scale{c.Unit, by}
	for _, q := range s.Questions {
		for _, n := range a.networks {
			l, ok := q.line(n)
			if !ok || l.Sum == nil || l.Sum.Latency == nil {
				continue
			}
			h := l.Sum.Latency
			row := []string{load(q.Question), n}
			for _, p := range ps {
				row = append(row, sc.num(h.Percentile(p)))
			}
			out.Rows = append(out.Rows, append(row, sc.num(h.Max()), fmt.Sprint(h.Count())))
		}
	}
	return out
}

// stackTable is a stack's parts by load and network.
func (s section) stackTable(st *chartStack, networks []string) *dataTable {
	out := &dataTable{Head: []string{"load", "network"}}
	for _, p := range st.Parts {
		out.Head = append(out.Head, p+" ["+strings.TrimPrefix(st.Unit, "CPU-")+"]")
	}
	one := scale{by: 1}
	for i, q := range s.Questions {
		for j, n := range networks {
			c := st.Cells[i][j]
			if c == nil {
				continue
			}
			row := []string{load(q.Question), n}
			for k := range st.Parts {
				row = append(row, one.num(float64(c[k])))
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}
