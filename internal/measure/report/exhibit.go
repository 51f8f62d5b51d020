package report

import (
	"cmp"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// paperView is the section about the figures and tables of a document.
type paperView struct {
	Title, Authors, Reference, Setup, Differs string
	Networks                                  []paper.Alias
	Exhibits                                  []exhibitView
	// Without are the figures and tables that have neither figures nor claims here.
	Without []exhibitGroup
}

// exhibitGroup are exhibits without a counterpart, for one reason.
type exhibitGroup struct {
	Exhibits []exhibitName
	Why      string
}

type exhibitName struct{ ID, Title string }

// exhibitView is one figure or table of the document and its counterpart.
type exhibitView struct {
	ID, Title, Why, Left string
	// Claims that it is the first to show, and Also those that an earlier one shows too.
	Claims []claimView
	Also   []exhibitClaim
	// Grids is the recommendation table where that is the counterpart.
	Grids  []gridView
	Charts []exhibitChart
}

type exhibitClaim struct{ ID, Verdict, Class string }

// exhibitChart is a metric by network along a knob, as a drawing and a table.
type exhibitChart struct {
	Caption string
	Plot    *plot
	Table   *dataTable
}

// newPaperView is nil for a result that repeats no document's study.
func newPaperView(a *analysis, claims []claimView) *paperView {
	if a.Paper == nil {
		return nil
	}
	p := a.Paper
	out := &paperView{Title: p.Title, Authors: p.Authors, Reference: p.Reference, Setup: p.Setup, Differs: p.Differs,
		Networks: p.Networks}
	shown, said := map[string]bool{}, saidBefore{}
	for _, e := range p.Exhibits {
		v := newExhibitView(e, a)
		for _, j := range claimsOf(e, a.claims) {
			if shown[j.ID] {
				v.Also = append(v.Also, exhibitClaim{j.ID, string(j.Verdict()), verdictClass(j.Verdict())})
				continue
			}
			shown[j.ID] = true
			i := slices.IndexFunc(claims, func(c claimView) bool { return c.ID == j.ID })
			v.Claims = append(v.Claims, claims[i])
		}
		why, name := cmp.Or(e.Why, e.Left), exhibitName{e.ID, e.Title}
		if len(e.Shows) > 0 && len(v.Charts) == 0 {
			why = "this run has no figures for it: the networks or workloads are missing here, or the quick variant leaves them out; the reasons stand with the claims and trials"
		}
		if len(v.Claims)+len(v.Also)+len(v.Charts)+len(v.Grids) > 0 || why == "" {
			out.Exhibits = append(out.Exhibits, v)
			continue
		}
		i := slices.IndexFunc(out.Without, func(g exhibitGroup) bool { return g.Why == why })
		if i < 0 {
			i = len(out.Without)
			out.Without = append(out.Without, exhibitGroup{Why: why})
		}
		out.Without[i].Exhibits = append(out.Without[i].Exhibits, name)
	}
	// Figures come first, then what has claims alone; within either the order is the document's.
	slices.SortStableFunc(out.Exhibits, func(x, y exhibitView) int {
		return cmp.Compare(min(len(y.Charts)+len(y.Grids), 1), min(len(x.Charts)+len(x.Grids), 1))
	})
	for i, e := range out.Exhibits {
		out.Exhibits[i].Why, out.Exhibits[i].Left = said.once(e.Why, e.ID), said.once(e.Left, e.ID)
	}
	return out
}

// shows tells whether an exhibit shows a claim.
func shows(e paper.Exhibit, id string, judged []claim.Judged) bool {
	return slices.ContainsFunc(claimsOf(e, judged), func(j claim.Judged) bool { return j.ID == id })
}

func newExhibitView(e paper.Exhibit, a *analysis) exhibitView {
	out := exhibitView{ID: e.ID, Title: e.Title, Why: e.Why, Left: e.Left}
	if e.Choice {
		for _, g := range a.grids {
			out.Grids = append(out.Grids, newScoredView(g))
		}
	}
	for _, v := range e.Shows {
		out.Charts = append(out.Charts, a.charts(v)...)
	}
	return out
}

// series is one network's figures along a knob; N is 0 where there is none.
type exhibitSeries struct {
	Network string
	Points  []stat.Interval
}

// charts draws what a view shows: one chart for each set of questions that
// differ in the knob alone.
func (a *analysis) charts(v paper.View) (out []exhibitChart) {
	m, ok := sample.MetricByName(v.Metric)
	if !ok {
		return nil
	}
	figures := a.figures(v)
	over := v.Over
	if over == "" {
		over = varies(figures.questions)
	}
	var keys []sample.Question
	groups := map[sample.Question][]sample.Question{}
	alike := alikeOver(over, figures.questions)
	for _, q := range figures.questions {
		key := alike(q)
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], q)
	}
	for _, key := range keys {
		if c, ok := figures.chart(v, m, over, key, groups[key]); ok {
			out = append(out, c)
		}
	}
	return out
}

// alikeOver maps the questions of one chart to the same key. Connections that each
// offer a rate of their own, as iperf3's streams do, are alike by that: what they
// offer together grows with them.
func alikeOver(over claim.Knob, questions []sample.Question) func(sample.Question) sample.Question {
	each := func(q sample.Question) sample.Question {
		q.Load.Rate /= float64(max(q.Load.Connections, 1))
		return over.Without(q)
	}
	distinct := func(key func(sample.Question) sample.Question) int {
		seen := map[sample.Question]bool{}
		for _, q := range questions {
			seen[key(q)] = true
		}
		return len(seen)
	}
	if over == claim.Connections && distinct(each) < distinct(over.Without) {
		return each
	}
	return over.Without
}

// varies is the first knob that takes several values, or connections.
func varies(questions []sample.Question) claim.Knob {
	for _, k := range claim.Knobs() {
		if slices.ContainsFunc(questions, func(q sample.Question) bool { return k.Of(q) != k.Of(questions[0]) }) {
			return k
		}
	}
	return claim.Connections
}

// viewFigures are a view's values by question, network and repetition.
type viewFigures struct {
	values    map[sample.Cell]map[int]sample.Trial
	questions []sample.Question
	networks  []string
	level     float64
	metric    string
	rank      rank.Options
}

func (a *analysis) figures(v paper.View) viewFigures {
	out := viewFigures{values: map[sample.Cell]map[int]sample.Trial{}, level: a.opts.confidence(), metric: v.Metric,
		rank: a.opts.Rank}
	for _, t := range a.Results.Trials {
		if _, ok := t.Figure(v.Metric); !ok || t.Status != sample.OK || !v.Where.Picks(t.Question()) {
			continue
		}
		if len(v.Networks) > 0 && !slices.Contains(v.Networks, t.Network) {
			continue
		}
		if out.values[t.Cell] == nil {
			out.values[t.Cell] = map[int]sample.Trial{}
		}
		// Of a repetition that was measured again the later trial counts.
		if old, ok := out.values[t.Cell][t.Repetition]; !ok || t.Order >= old.Order {
			out.values[t.Cell][t.Repetition] = t
		}
		if q := t.Question(); !slices.Contains(out.questions, q) {
			out.questions = append(out.questions, q)
		}
		if !slices.Contains(out.networks, t.Network) {
			out.networks = append(out.networks, t.Network)
		}
	}
	slices.SortFunc(out.questions, sample.Question.Compare)
	order := v.Networks
	if len(order) == 0 {
		order = a.networks
	}
	slices.SortFunc(out.networks,
		func(x, y string) int { return cmp.Compare(slices.Index(order, x), slices.Index(order, y)) })
	return out
}

// at is a network's mean under a question.
func (f viewFigures) at(network string, q sample.Question) (stat.Interval, bool) {
	values := f.of(network, q)
	return stat.MeanT(values, f.level), len(values) > 0
}

// of are a network's values under a question.
func (f viewFigures) of(network string, q sample.Question) (values []float64) {
	for _, t := range f.values[sample.Cell{Network: network, Scenario: q.Scenario, Workload: q.Workload, Load: q.Load}] {
		v, _ := t.Figure(f.metric)
		values = append(values, v)
	}
	slices.Sort(values) // a map has no order, and sums depend on it
	return values
}

// peak is where along the knob a network does best, "50 or 100"; "" where there
// are too few values for a curve.
func (f viewFigures) peak(network string, m sample.Metric, over claim.Knob, questions []sample.Question) string {
	if len(questions) < minCurve {
		return ""
	}
	figures, xs := make([]rank.Figure, len(questions)), make([]float64, len(questions))
	for i, q := range questions {
		figures[i].Values, xs[i] = f.of(network, q), over.Of(q)
	}
	p, ok := rank.PeakOf(m, figures, f.rank)
	if !ok {
		return ""
	}
	return peakText(p, xs)
}

// series are the networks' figures of the questions, and all their centers.
func (f viewFigures) series(questions []sample.Question) (all []exhibitSeries, centers []float64) {
	for _, n := range f.networks {
		s := exhibitSeries{Network: n}
		any := false
		for _, q := range questions {
			i, ok := f.at(n, q)
			if !ok {
				i = stat.Interval{}
			} else {
				any = true
				centers = append(centers, i.Center)
			}
			s.Points = append(s.Points, i)
		}
		if any {
			all = append(all, s)
		}
	}
	return all, centers
}

func (f viewFigures) chart(v paper.View, m sample.Metric, over claim.Knob, key sample.Question,
	questions []sample.Question) (exhibitChart, bool) {
	slices.SortFunc(questions, func(a, b sample.Question) int { return cmp.Compare(over.Of(a), over.Of(b)) })
	all, centers := f.series(questions)
	if len(all) == 0 {
		return exhibitChart{}, false
	}
	sc := scaleFor(m.Unit, slices.Max(centers))
	unit := cmp.Or(sc.unit, m.Unit)
	each := key != over.Without(questions[0])
	key.Scenario.Pairs, key.Scenario.MTU = max(key.Scenario.Pairs, 1), cmp.Or(key.Scenario.MTU, topo.DefaultMTU)
	where := []string{metricText(m), v.Where.Workload, key.Scenario.String()}
	if rest := key.Load.String(); rest != "default" {
		if each {
			rest += " by each connection"
		}
		where = append(where, rest)
	}
	out := exhibitChart{Caption: strings.Join(where, ", ") + " [" + unit + "]; " + better(m)}
	out.Table = &dataTable{Head: []string{"network"}}
	var xs []float64
	for _, q := range questions {
		xs = append(xs, over.Of(q))
		out.Table.Head = append(out.Table.Head, over.Say(over.Of(q)))
	}
	curve := len(questions) >= minCurve
	if curve {
		out.Table.Head = append(out.Table.Head, "best at")
	}
	for _, s := range all {
		row := []string{s.Network}
		for _, p := range s.Points {
			cell := "-"
			if p.N > 0 {
				cell = sc.pm(p)
			}
			row = append(row, cell)
		}
		if curve {
			row = append(row, f.peak(s.Network, m, over, questions))
		}
		out.Table.Rows = append(out.Table.Rows, row)
	}
	out.Plot = newPlot(xs, all, sc.by, string(over), unit)
	return out, true
}
