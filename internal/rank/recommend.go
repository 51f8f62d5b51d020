package rank

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
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
	// ErrUnknownApplication: the need names none of Applications.
	ErrUnknownApplication = errors.New("unknown application")
	// ErrNotMeasured: no candidate has an OK trial of the application's workloads in the scenario.
	ErrNotMeasured = errors.New("not measured")
)

// Need is what an application asks of a network.
type Need struct {
	// App names one of Applications.
	App  string    `json:"app"`
	Load LoadPoint `json:"load"`
	// Robust adds jitter, retransmissions and loss to the sum.
	Robust   bool          `json:"robust"`
	Scenario topo.Scenario `json:"scenario"`
}

// Recommendation answers a Need.
type Recommendation struct {
	Need
	// Chosen is the best-scored network, then those tied with it; empty when
	// no network could be ranked.
	Chosen []string `json:"chosen"`
	// Margin of the first chosen network over the next in rank; nil without one.
	Margin *Margin `json:"margin,omitempty"`
	// Why is one sentence for people.
	Why string `json:"why"`
	// Asked lists the questions behind the answer, performance first.
	Asked   []sample.Question `json:"asked"`
	Ranking Ranking           `json:"ranking"`
	// Warnings about the answer, besides those of the ranking.
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// Margin is how far the chosen network leads.
type Margin struct {
	// Over is the network next in rank.
	Over string `json:"over"`
	// Score is the difference of the summed z-scores with its interval.
	Score stat.Interval `json:"score"`
	// Ratio is the chosen network's first sub-feature (throughput, rate) over
	// the other's, paired by repetition.
	Ratio *stat.Interval `json:"ratio,omitempty"`
}

// Grid is the recommendation table of one scenario.
type Grid struct {
	Scenario topo.Scenario `json:"scenario"`
	Rows     []GridRow     `json:"rows"`
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
// workload; every sub-feature weighs the same, so three robust ones outweigh
// one of performance. That is the method of Atici and Boluk (2020), section 5.
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
		for _, a := range Applications() {
			if row, ok := b.gridRow(a.Name, s); ok {
				g.Rows = append(g.Rows, row)
			}
		}
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
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
	apps := Applications()
	i := slices.IndexFunc(apps, func(a Application) bool { return a.Name == need.App })
	if i < 0 {
		return out, fmt.Errorf("%w %q: expected %s", ErrUnknownApplication, need.App, strings.Join(names(apps), ", "))
	}
	if need.Load != Optimum && need.Load != High {
		return out, fmt.Errorf("unknown load point %q: expected %s or %s", need.Load, Optimum, High)
	}
	columns := out.performance(b, apps[i])
	if len(columns) == 0 {
		return out, fmt.Errorf("%w: no network has an OK trial of %s in %s", ErrNotMeasured, need.App, need.Scenario)
	}
	if need.Robust {
		columns = append(columns, out.robustness(b)...)
	}
	s := b.rank(columns, out.Asked)
	s.Scope, s.Application, s.Scenario = OfApplication, need.App, &need.Scenario
	s.Name = need.App + "/" + need.Scenario.String()
	out.Ranking = s.Ranking
	out.conclude(b, s)
	return out, nil
}

// performance picks the load of each part and lists its sub-features.
func (r *Recommendation) performance(b *book, a Application) (out []column) {
	for _, p := range a.Parts {
		loads := b.loads(p, r.Scenario)
		if len(loads) == 0 {
			r.warn("missing", "%s was not measured in %s: not considered", p.Workload, r.Scenario)
			continue
		}
		q, warnings := b.choose(p, loads, r.Load)
		r.Warnings = append(r.Warnings, warnings...)
		r.Asked = append(r.Asked, q)
		out = append(out, b.named(q, p.Metrics)...)
	}
	return out
}

// robustness lists the robust sub-features nearest to the first question's load.
func (r *Recommendation) robustness(b *book) (out []column) {
	load := r.Asked[0].Load
	for _, p := range robustness() {
		for _, metric := range p.Metrics {
			questions := b.loads(Part{p.Workload, []string{metric}}, r.Scenario)
			if len(questions) == 0 {
				r.warn("robustness", "no %s of %s was measured in %s: not considered", metric, p.Workload, r.Scenario)
				continue
			}
			q := nearest(questions, load)
			if q.Load != load {
				r.warn("robustness", "%s of %s is from load %s, the nearest to %s", metric, p.Workload, q.Load, load)
			}
			if !slices.Contains(r.Asked, q) {
				r.Asked = append(r.Asked, q)
			}
			out = append(out, b.named(q, []string{metric})...)
		}
	}
	return out
}

// conclude names the chosen networks, their margin and the reason.
func (r *Recommendation) conclude(b *book, s *scored) {
	var ranked []Row
	for _, row := range s.Rows {
		if row.Rank > 0 {
			ranked = append(ranked, row)
		}
		if row.Tie == 1 {
			r.Chosen = append(r.Chosen, row.Network)
		}
	}
	if len(ranked) == 0 {
		r.Why = "no network has an OK trial for every sub-feature, so none can be named"
		return
	}
	if len(ranked) > 1 {
		r.Margin = b.margin(ranked[0], ranked[1], s)
	}
	r.Why = why(r.Chosen, ranked[0], r.Margin)
}

func (b *book) margin(best, next Row, s *scored) *Margin {
	first := b.column(best.Features[0].Question, best.Features[0].Metric)
	ratio := stat.RatioT(first.figures[best.Network].blocks(), first.figures[next.Network].blocks(), b.o.Level)
	return &Margin{Over: next.Network, Score: s.draws.difference(best, next), Ratio: &ratio}
}

// why says the outcome in one sentence.
func why(chosen []string, best Row, m *Margin) string {
	if m == nil {
		return best.Network + " is the only network with an OK trial for every sub-feature"
	}
	lead := fmt.Sprintf("%s has the highest sum of z-scores (%+.2f over %d sub-features), %.2f above %s; its %s is %.3g times that of %s",
		best.Network, best.Score, len(best.Features), m.Score.Center, m.Over, best.Features[0].Metric.Name, m.Ratio.Center, m.Over)
	if len(chosen) == 1 {
		return lead
	}
	return fmt.Sprintf("%s; the data cannot tell it from %s", lead, strings.Join(chosen[1:], ", "))
}

func (r *Recommendation) warn(gate, format string, args ...any) {
	r.Warnings = append(r.Warnings, sample.Warning{Gate: gate, Text: fmt.Sprintf(format, args...)})
}

func names(apps []Application) (out []string) {
	for _, a := range apps {
		out = append(out, a.Name)
	}
	return out
}
