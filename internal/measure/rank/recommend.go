package rank

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// LoadPoint names a load by what it does, as in Table 6 of Atici and Boluk (2020).
type LoadPoint string

// Load points.
const (
	// Optimum is the load at which the networks reach their maximum: where the
	// mean over networks of a workload's first metric is best.
	Optimum LoadPoint = "optimum"
	// High is the highest load measured.
	High LoadPoint = "high"
)

// Errors that Recommend wraps.
var (
	// ErrUnknownApplication: the need names no application.
	ErrUnknownApplication = errors.New("unknown application")
	// ErrNotMeasured: no candidate has an OK trial of the application's workloads in the scenario.
	ErrNotMeasured = errors.New("not measured")
)

// Need is what an application asks of a network.
type Need struct {
	// App names an application.
	App  string    `json:"app"`
	Load LoadPoint `json:"load"`
	// Robust adds jitter, retransmissions and loss to the sum.
	Robust   bool          `json:"robust"`
	Scenario topo.Scenario `json:"scenario"`
}

// Recommendation answers a Need.
type Recommendation struct {
	Need
	// Chosen is the network with the least expected regret, then those tied with
	// it (Outlook.Tied); empty when no network could be ranked.
	Chosen []string `json:"chosen"`
	// Scored is the network with the highest sum of z-scores, then those that the
	// data cannot tell from it: the answer of Atici and Boluk (2020).
	Scored []string `json:"scored"`
	// Why is one sentence for people.
	Why string `json:"why"`
	// Asked lists the questions behind the answer, performance first.
	Asked   []sample.Question `json:"asked"`
	Ranking Ranking           `json:"ranking"`
	// Warnings about the answer, besides those of the ranking.
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// Grid is the recommendation table of one scenario.
type Grid struct {
	Scenario topo.Scenario `json:"scenario"`
	Rows     []GridRow     `json:"rows"`
	// Warnings name workloads that were measured and belong to no application.
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// GridRow is one application's line of the table, in the columns of Table 6
// of Atici and Boluk (2020).
type GridRow struct {
	App             string         `json:"app"`
	HighRobust      Recommendation `json:"high_robust"`
	HighUnrobust    Recommendation `json:"high_unrobust"`
	OptimumRobust   Recommendation `json:"optimum_robust"`
	OptimumUnrobust Recommendation `json:"optimum_unrobust"`
}

// Recommend names the network, or the tied networks, for a need. Each workload
// of the application is looked at on its own load at the asked load point. A
// robust need adds retransmissions, jitter and loss of the stream workloads in
// the same scenario, at the load nearest to that of the application's first
// workload; in the outlook, on which the choice rests, they have half of the
// weight together. In the sum of z-scores every sub-feature weighs the same, so
// that three robust ones outweigh one of performance: that is the method of
// Atici and Boluk (2020), section 5.
//
// It fails with ErrUnknownApplication or ErrNotMeasured.
func Recommend(trials []sample.Trial, need Need, o Options) (Recommendation, error) {
	return newBook(trials, o).recommend(need)
}

// Table answers every need that the trials can answer: a grid per scenario
// with a row for each application that was measured there.
func Table(trials []sample.Trial, o Options) []Grid {
	b := newBook(trials, o)
	var out []Grid
	for _, s := range b.scenarios() {
		g := Grid{Scenario: s}
		for _, a := range b.o.apps() {
			if row, ok := b.gridRow(a.Name, s); ok {
				g.Rows = append(g.Rows, row)
			}
		}
		g.Warnings = b.without(s)
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// without says which workloads of a scenario belong to no application, and why.
func (b *book) without(s topo.Scenario) (out []sample.Warning) {
	seen := map[string]bool{}
	for _, q := range b.asked {
		if q.Scenario != s || seen[q.Workload] || len(application.Named(b.o.apps(), q.Workload, q.Load)) > 0 {
			continue
		}
		seen[q.Workload] = true
		out = append(out, sample.Warning{Gate: "application", Text: fmt.Sprintf(
			"%s belongs to no application: %s; name one under applications: in the experiment", q.Workload, application.Own(q.Workload))})
	}
	return out
}

// gridRow answers the four needs of an application; ok is false where it was not measured.
func (b *book) gridRow(app string, s topo.Scenario) (row GridRow, ok bool) {
	row.App = app
	for _, cell := range []struct {
		to     *Recommendation
		load   LoadPoint
		robust bool
	}{
		{&row.HighRobust, High, true},
		{&row.HighUnrobust, High, false},
		{&row.OptimumRobust, Optimum, true},
		{&row.OptimumUnrobust, Optimum, false},
	} {
		r, err := b.recommend(Need{App: app, Load: cell.load, Robust: cell.robust, Scenario: s})
		if err != nil {
			return row, false
		}
		*cell.to = r
	}
	return row, true
}

func (b *book) recommend(need Need) (Recommendation, error) {
	out := Recommendation{Need: need}
	apps := b.o.apps()
	i := slices.IndexFunc(apps, func(a application.Application) bool { return a.Name == need.App })
	if i < 0 {
		return out, fmt.Errorf("%w %q: expected %s", ErrUnknownApplication, need.App, strings.Join(names(apps), ", "))
	}
	if need.Load != Optimum && need.Load != High {
		return out, fmt.Errorf("unknown load point %q: expected %s or %s", need.Load, Optimum, High)
	}
	groups := out.performance(b, apps[i])
	if len(groups) == 0 {
		return out, fmt.Errorf("%w: no network has an OK trial of %s in %s", ErrNotMeasured, need.App, need.Scenario)
	}
	if need.Robust {
		groups = append(groups, out.robustness(b)...)
	}
	s := b.rank(columnsOf(groups), out.Asked)
	s.Scope, s.Application, s.Scenario = OfApplication, need.App, &need.Scenario
	s.Name = need.App + "/" + need.Scenario.String()
	s.foresee(b, s.summed(groups), out.bounds(b, apps[i]))
	out.Ranking = s.Ranking
	out.conclude()
	return out, nil
}

// performance picks the load of each part and lists its sub-features. Together
// they have the weight of 1.
func (r *Recommendation) performance(b *book, a application.Application) (out []group) {
	var missing []string
	for _, p := range a.Parts {
		loads := b.loads(p, r.Scenario)
		if len(loads) == 0 {
			if !p.Also {
				missing = append(missing, p.Workload)
			}
			continue
		}
		q, warnings := b.choose(p, loads, r.Load)
		r.Warnings = append(r.Warnings, warnings...)
		r.Asked = append(r.Asked, q)
		out = append(out, b.group(q, p))
	}
	if len(missing) > 0 {
		r.warn("missing", "not measured in %s, and so not considered: %s", r.Scenario, strings.Join(missing, ", "))
	}
	return evened(out)
}

// group is a part of an application at one question.
func (b *book) group(q sample.Question, p application.Part) group {
	out := group{weight: p.Weight}
	for _, m := range p.At(q.Load) {
		if metric, ok := sample.MetricByName(m.Name); ok {
			out.parts = append(out.parts, part{b.column(q, metric), m.Weight})
		}
	}
	return out
}

// evened scales the groups' weights so that they make 1.
func evened(groups []group) []group {
	sum := 0.0
	for _, g := range groups {
		sum += g.weight
	}
	for i := range groups {
		groups[i].weight /= sum
	}
	return groups
}

// bounds are the application's, at the loads at which its parts are looked at.
func (r *Recommendation) bounds(b *book, a application.Application) (out []limit) {
	for _, bound := range a.Bounds {
		i := slices.IndexFunc(r.Asked, func(q sample.Question) bool { return q.Workload == bound.Workload })
		m, ok := sample.MetricByName(bound.Metric)
		if i < 0 || !ok {
			r.warn("bound", "%s: %s was not measured in %s: no network is held to it", bound, bound.Workload, r.Scenario)
			continue
		}
		out = append(out, limit{b.column(r.Asked[i], m), bound})
	}
	return out
}

// columnsOf lists the sub-features of groups.
func columnsOf(groups []group) (out []column) {
	for _, g := range groups {
		for _, p := range g.parts {
			out = append(out, p.column)
		}
	}
	return out
}

// summed keeps of groups what is in the sum.
func (s *scored) summed(groups []group) (out []group) {
	for _, g := range groups {
		g.parts = slices.DeleteFunc(g.parts, func(p part) bool { return !s.has(p.column) })
		if len(g.parts) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// robustness lists the robust sub-features nearest to the first question's load.
// Together they weigh as much as all of performance.
func (r *Recommendation) robustness(b *book) (out []group) {
	load := r.Asked[0].Load
	for _, p := range application.Robustness() {
		g := group{weight: p.Weight}
		for _, m := range p.Metrics {
			questions := b.loads(application.Alike(p.Workload, m.Name), r.Scenario)
			if len(questions) == 0 {
				r.warn("robustness", "no %s of %s was measured in %s: not considered", m.Name, p.Workload, r.Scenario)
				continue
			}
			q := nearest(questions, load)
			if q.Load != load {
				r.warn("robustness", "%s of %s is from load %s, the nearest to %s", m.Name, p.Workload, q.Load, load)
			}
			if !slices.Contains(r.Asked, q) {
				r.Asked = append(r.Asked, q)
			}
			g.parts = append(g.parts, b.group(q, application.Part{Metrics: []application.Metric{m}}).parts...)
		}
		if len(g.parts) > 0 {
			out = append(out, g)
		}
	}
	return evened(out)
}

// conclude names the chosen networks and the reason.
func (r *Recommendation) conclude() {
	for _, row := range r.Ranking.Rows {
		if row.Tie == 1 {
			r.Scored = append(r.Scored, row.Network)
		}
	}
	r.Chosen = r.Ranking.Outlook.Tied()
	r.Why = why(r.Need, r.Ranking.Outlook)
}

func (r *Recommendation) warn(gate, format string, args ...any) {
	r.Warnings = append(r.Warnings, sample.Warning{Gate: gate, Text: fmt.Sprintf(format, args...)})
}

func names(apps []application.Application) (out []string) {
	for _, a := range apps {
		out = append(out, a.Name)
	}
	return out
}
