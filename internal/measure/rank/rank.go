// Package rank turns trials into answers: which network is best for a
// workload, at which load, with how much certainty, and what changed between
// two runs.
//
// Scores are the summed z-scores of Atici and Boluk (2020), eq. (1), with what
// they lack alone: an interval of the rank, ties where the data cannot tell, and
// the raw ratio to the host network. Recommendations rest on an Outlook: the
// probability of being the best, and the expected regret in percent. The package
// is pure: it reads no file and no clock, measures nothing and prints nothing,
// and the same trials and seed always give the same answer.
package rank

import (
	"slices"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// Baseline is the network to which raw ratios are taken unless Options say otherwise.
const Baseline = "host"

// Options are the knobs of a ranking. The zero value is good.
type Options struct {
	// Seed of the draws. Every sub-feature draws from a generator of its own
	// (PCG from the seed and the sub-feature's name), so leaving out one
	// question does not move the intervals of another.
	Seed uint64
	// Draws is the number of Monte Carlo draws; 0 means 10,000.
	Draws int
	// Level of confidence of every interval, between 0 and 1; 0 means 0.95.
	Level float64
	// Baseline is the network for raw ratios and for drift; "" means "host".
	Baseline string
	// Equal is the expected regret under which a network is practically equal to
	// the best, as a part; 0 means 0.03. Networks that are installed afresh differ
	// from themselves by 0.5 to 4.4 % in the median (see docs/explanation/method.md), so that
	// less than 3 % would not be seen again.
	Equal float64
	// Applications of the experiment, alongside those that are shipped.
	Applications []application.Application
	// RankBaseline lets the baseline compete. Otherwise it is a yardstick: it
	// gets a score on the others' scale but neither enters their mean and
	// deviation nor takes a rank, since the question is which container
	// network to use, and "none of them" is not an answer to it.
	RankBaseline bool
}

func (o Options) withDefaults() Options {
	if o.Draws <= 0 {
		o.Draws = 10_000
	}
	if !(o.Level > 0 && o.Level < 1) {
		o.Level = stat.Level
	}
	if o.Baseline == "" {
		o.Baseline = Baseline
	}
	if o.Equal <= 0 {
		o.Equal = 0.03
	}
	return o
}

// EqualBelow is Equal, or its default.
func (o Options) EqualBelow() float64 { return o.withDefaults().Equal }

// apps are the shipped applications and the experiment's own.
func (o Options) apps() []application.Application {
	return slices.Concat(application.Shipped(), o.Applications)
}

// yardstick tells whether network is a reference that does not compete.
func (o Options) yardstick(network string) bool {
	return network == o.Baseline && !o.RankBaseline
}

// Scope says what a ranking covers.
type Scope string

// Scopes.
const (
	// Overall: every question of a scenario.
	Overall Scope = "overall"
	// OfApplication: all loads of an application's workloads in one scenario,
	// or in a Recommendation, those at the chosen load.
	OfApplication Scope = "application"
	// OfQuestion: one question.
	OfQuestion Scope = "question"
)

// Ranking orders networks by one sum of z-scores, and by their prospects.
type Ranking struct {
	Scope Scope `json:"scope"`
	// Name is unique among the rankings of a result: "overall/scenario",
	// "application/scenario" or the question's key.
	Name string `json:"name"`
	// Question is set for scope question.
	Question *sample.Question `json:"question,omitempty"`
	// Application and Scenario are set for scope application.
	Application string         `json:"application,omitempty"`
	Scenario    *topo.Scenario `json:"scenario,omitempty"`
	// Rows: ranked networks by falling score, then those without a rank by name.
	Rows []Row `json:"rows"`
	// Outlook is nil for scope question, and where no network is ranked.
	Outlook *Outlook `json:"outlook,omitempty"`
	// Level of the intervals, and the draws and seed behind them.
	Level    float64          `json:"level"`
	Draws    int              `json:"draws"`
	Seed     uint64           `json:"seed"`
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// Row is one network in a ranking.
type Row struct {
	Network string `json:"network"`
	// Score is the sum of the features' z-scores; the higher the better.
	Score float64 `json:"score"`
	// Rank counts from 1; equal scores share a rank. 0 means that the network
	// is not ranked: it is the baseline, or it lacks a sub-feature (see Missing).
	Rank int `json:"rank"`
	// RankLow and RankHigh are the interval of the rank, best first; 0 without a rank.
	RankLow  int `json:"rank_low"`
	RankHigh int `json:"rank_high"`
	// Tie numbers, from 1, the group of networks that the data cannot tell
	// from the group's best-scored one; 0 without a rank. Groups need not be
	// neighbours in score: a network measured with much noise can belong to
	// the first group although a better-scored one is told apart from it.
	Tie int `json:"tie"`
	// Baseline marks the yardstick network.
	Baseline bool `json:"baseline,omitempty"`
	// Features are the sub-features that were summed, one per question and metric.
	Features []Feature `json:"features,omitempty"`
	// Missing names the sub-features without any OK trial of this network.
	Missing []string `json:"missing,omitempty"`
}

// Feature is one sub-feature of one network: a metric under a question.
type Feature struct {
	Question sample.Question `json:"question"`
	Metric   sample.Metric   `json:"metric"`
	// Z is the z-score, its sign turned so that higher is better.
	Z float64 `json:"z"`
	// Value is the mean over repetitions, in the metric's unit.
	Value stat.Interval `json:"value"`
	// ToBaseline is Value over the baseline's on the same question, paired by
	// repetition; nil where the baseline has no OK trial.
	ToBaseline *stat.Interval `json:"to_baseline,omitempty"`
}

// Rank orders the networks of trials: first overall in each scenario, then by application and
// scenario, then by question. Sub-features are the performance metrics that
// Applications names for a workload, or all of them for a workload that it
// does not name; each counts the same, and the score is their sum, as in Atici
// and Boluk (2020), section 3.3.
//
// A network without an OK trial for a sub-feature is left out of that one; it
// keeps its score from the others but takes no rank, since a sum of fewer
// parts would treat its failure as an average result.
func Rank(trials []sample.Trial, o Options) []Ranking {
	b := newBook(trials, o)
	if len(b.asked) == 0 {
		return nil
	}
	wide := b.wide()
	var questions []*scored
	for _, q := range b.asked {
		asked := []sample.Question{q}
		r := b.score(b.performance(q), asked)
		r.Scope, r.Name, r.Question = OfQuestion, q.String(), &q
		b.drawShared(r, wide)
		r.finish()
		// The draws of a question are done with, those of the wide ones grow.
		r.draws = nil
		questions = append(questions, r)
	}
	var out []Ranking
	for _, r := range wide {
		r.finish()
		r.foresee(b, b.byWorkload(r.columns), nil)
		out = append(out, r.Ranking)
	}
	for _, r := range questions {
		out = append(out, r.Ranking)
	}
	return out
}

// wide scores the rankings of more than one question: overall by scenario, as
// networks that cannot span hosts would else be ranked nowhere, and every
// application in every scenario where it was asked.
func (b *book) wide() (out []*scored) {
	for _, s := range b.scenarios() {
		asked := slices.DeleteFunc(slices.Clone(b.asked), func(q sample.Question) bool { return q.Scenario != s })
		overall := b.score(b.columns(asked), asked)
		overall.Scope, overall.Name, overall.Scenario = Overall, string(Overall)+"/"+s.String(), &s
		out = append(out, overall)
	}
	for _, s := range b.scenarios() {
		for _, a := range b.o.apps() {
			asked := b.askedOf(a, s)
			if len(asked) == 0 {
				continue
			}
			r := b.score(b.columns(asked), asked)
			r.Scope, r.Name = OfApplication, a.Name+"/"+s.String()
			r.Application, r.Scenario = a.Name, &s
			out = append(out, r)
		}
	}
	return out
}

// drawShared draws the sub-features of a question for its own ranking and for
// the wide ones that sum them too.
func (b *book) drawShared(r *scored, wide []*scored) {
	for _, c := range r.columns {
		to := []*draws{r.draws}
		for _, w := range wide {
			if w.has(c) {
				to = append(to, w.draws)
			}
		}
		addDraws(c, c.entrants(b.candidates([]sample.Question{c.question})), b.o, to)
	}
}

// askedOf returns the questions of an application's workloads in a scenario.
func (b *book) askedOf(a application.Application, s topo.Scenario) []sample.Question {
	return slices.DeleteFunc(slices.Clone(b.asked), func(q sample.Question) bool {
		return q.Scenario != s ||
			!slices.ContainsFunc(a.Parts, func(p application.Part) bool { return p.Workload == q.Workload && p.Takes(q.Load) })
	})
}
