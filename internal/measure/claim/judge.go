package claim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Judged is a claim and what trials say of it.
type Judged struct {
	Claim
	// Findings, at least one: one for each question, and each network where the
	// claim speaks of several one by one.
	Findings []Finding `json:"findings"`
}

// Finding is what became of a claim under one question.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	// Question without what the test varies. Its scenario names the kernel on
	// which every figure of the finding was taken.
	Question sample.Question `json:"question"`
	// Network is the one of the claim's Networks.
	Network string `json:"network,omitempty"`
	// Steps are the comparisons on which the verdict rests; none for a value.
	Steps []Step `json:"steps,omitempty"`
	// Value is what was measured of a network, where the test is of a value.
	Value *stat.Interval `json:"value,omitempty"`
	// At is the knob's value at which the figure is best, where the test is of
	// an optimum.
	At *float64 `json:"at,omitempty"`
	// Chosen are the networks that are recommended, the best first and then
	// those tied with it, where the test is of a choice.
	Chosen []string `json:"chosen,omitempty"`
	// Lacks lists what could not be compared. Where the verdict is another one
	// than NotTested it rests on the rest alone.
	Lacks []Lack `json:"lacks,omitempty"`
	// Warnings of the trials that entered, by gate, and of the intervals.
	Warnings []sample.Warning `json:"warnings,omitempty"`
	// Notes of the trials on how a network was built.
	Notes []string `json:"notes,omitempty"`
	// cells are those whose figures entered.
	cells []sample.Cell
}

// Step compares two figures.
type Step struct {
	Of      Figure        `json:"of"`
	To      Figure        `json:"to"`
	Ratio   stat.Interval `json:"ratio"`
	Verdict Verdict       `json:"verdict"`
}

// Figure is one side of a comparison, as the mean over repetitions.
type Figure struct {
	Name string        `json:"name"`
	Mean stat.Interval `json:"mean"`
}

// Lack is a network without a figure.
type Lack struct {
	Network string `json:"network,omitempty"`
	// Kernel of the guest on which the figure is lacking; "" for the host's.
	Kernel string `json:"kernel,omitempty"`
	Why    string `json:"why"`
	// tried: it was run there, and did not come to a figure.
	tried bool
}

// Judge holds claims against trials, in the claims' order. Each verdict is
// by itself at the level of confidence: of many claims that sit just at the end
// of their range some will be judged wrongly by chance. Recommend answers claims
// of a choice.
func Judge(claims []Claim, trials []sample.Trial, r Rule, recommend Recommend) []Judged {
	b := newBook(trials)
	if r.Raced {
		return judgeRaced(claims, b, r.Level, recommend)
	}
	return judgeAll(claims, b, func(sample.Question) (stat.Prior, float64) { return stat.Prior{}, r.Level }, recommend)
}

// looks is by what a comparison of a question is judged: what is known of its spread, and
// the level of confidence.
type looks func(sample.Question) (stat.Prior, float64)

func judgeAll(claims []Claim, b *book, look looks, recommend Recommend) []Judged {
	out := make([]Judged, 0, len(claims))
	for _, c := range claims {
		if c.Untested != "" {
			out = append(out, Judged{c, []Finding{{Verdict: NotTested, Lacks: []Lack{{Why: c.Untested}}}}})
			continue
		}
		metric, _ := sample.MetricByName(c.Metric)
		j := judge{book: b, claim: c, metric: metric, look: look, recommend: recommend}
		var all []Finding
		for _, network := range c.each() {
			all = append(all, j.settle(network, j.findings(network))...)
		}
		out = append(out, Judged{c, all})
	}
	return out
}

// judge holds one claim against a book.
type judge struct {
	*book
	claim  Claim
	metric sample.Metric
	look   looks
	// level and prior are those of the question that is looked at: see at.
	level float64
	prior stat.Prior
	// recommend answers claims of a choice.
	recommend Recommend
}

// at is the judge of one question.
func (j judge) at(q sample.Question) judge {
	j.prior, j.level = j.look(q)
	return j
}

// findings puts the test to every question, for a network of those of the claim.
func (j judge) findings(network string) []Finding {
	switch t := j.claim.Test; {
	case t.Ratio != nil:
		return j.ratio(*t.Ratio, network)
	case t.Order != nil:
		return j.order(t.Order)
	case t.Choice != nil:
		return j.choice(*t.Choice)
	case t.Value != nil:
		return j.value(*t.Value, network)
	case t.Optimum != nil:
		return j.overKnob(t.Optimum.Over, network,
			func(j judge, f *Finding, points []point) { j.optimum(*t.Optimum, f, points) })
	default:
		return j.overKnob(t.Trend.Over, network, func(j judge, f *Finding, points []point) { j.trend(*t.Trend, f, points) })
	}
}

// grouped gathers questions that are one to the test: those that common maps
// to the same question. Keys are in the order of questions.
func grouped(questions []sample.Question, common func(sample.Question) sample.Question) (keys []sample.Question,
	by map[sample.Question][]sample.Question) {
	by = map[sample.Question][]sample.Question{}
	for _, q := range questions {
		key := common(q)
		by[key] = append(by[key], q)
	}
	return slices.SortedFunc(maps.Keys(by), sample.Question.Compare), by
}

// shared leaves out of a question what the claim takes the mean over.
func (j judge) shared(q sample.Question) sample.Question {
	if j.claim.Overall {
		q.Load = sample.Load{}
	}
	return q
}

// ratio compares two sides.
func (j judge) ratio(r Ratio, network string) []Finding {
	common := func(q sample.Question) sample.Question { return j.shared(r.Of.Where.common(r.To.Where.common(q))) }
	keys, of := grouped(j.questions(j.claim.Where.with(r.Of.Where)), common)
	more, to := grouped(j.questions(j.claim.Where.with(r.To.Where)), common)
	keys = append(keys, more...)
	slices.SortFunc(keys, sample.Question.Compare)
	var out []Finding
	for _, key := range lend(slices.Compact(keys), of, to) {
		j := j.at(key)
		f := Finding{Question: key, Network: network}
		a, b := j.side(r.Of, network, of[key]), j.side(r.To, network, to[key])
		if a.name == b.name {
			a.name, b.name = tellApart(a.name, of[key], to[key])
		}
		if f.lacking(a, b) {
			out = append(out, f)
			continue
		}
		i := j.over(a, b, j.level)
		f.Verdict = r.Range.verdict(i)
		f.Steps = []Step{{Of: a.figure(j.level), To: b.figure(j.level), Ratio: i, Verdict: f.Verdict}}
		f.warn(a, b)
		out = append(out, f)
	}
	return out
}

// over is the ratio of two figures.
func (j judge) over(a, b series, level float64) stat.Interval {
	x, y := j.looked(a.values, b.values)
	return j.prior.RatioT(x, y, level)
}

// lend gives each kind of virtual machine on one side of a ratio what the other side
// has without any, and returns the keys that are left.
func lend(keys []sample.Question, of, to map[sample.Question][]sample.Question) []sample.Question {
	lent := map[sample.Question]bool{}
	for _, key := range keys {
		bare := key
		if bare.Scenario.VM = ""; bare == key {
			continue
		}
		for _, side := range []map[sample.Question][]sample.Question{of, to} {
			if side[key] == nil && side[bare] != nil {
				side[key], lent[bare] = side[bare], true
			}
		}
	}
	return slices.DeleteFunc(keys, func(k sample.Question) bool { return lent[k] && (of[k] == nil || to[k] == nil) })
}

// side takes the figures of one side of a ratio.
func (j judge) side(s Side, network string, questions []sample.Question) series {
	if s.Network != "" {
		network = s.Network
	}
	switch {
	case len(questions) == 0:
		return series{name: network, lack: &Lack{Network: network, Why: "was not asked the question"}}
	case len(questions) > 1 && !j.claim.Overall:
		return series{name: network, lack: &Lack{Network: network, Why: fmt.Sprintf(
			"the claim does not say which of %d questions it means, such as %v and %v", len(questions), questions[0], questions[1])}}
	}
	return j.series(network, questions)
}

// tellApart names two sides of one network by what they were asked.
func tellApart(network string, of, to []sample.Question) (a, b string) {
	if len(of) != 1 || len(to) != 1 {
		return network, network
	}
	x, y := of[0], to[0]
	a, b = network, network
	add := func(differ bool, left, right string) {
		if differ {
			a, b = a+" "+left, b+" "+right
		}
	}
	add(x.Workload != y.Workload, x.Workload, y.Workload)
	add(x.Scenario != y.Scenario, x.Scenario.String(), y.Scenario.String())
	add(x.Load != y.Load, x.Load.String(), y.Load.String())
	return a, b
}

// value looks at one figure by itself.
func (j judge) value(r Range, network string) []Finding {
	keys, by := grouped(j.questions(j.claim.Where), j.shared)
	var out []Finding
	for _, key := range keys {
		j, f := j.at(key), Finding{Question: key, Network: network}
		s := j.series(network, by[key])
		if !f.lacking(s) {
			i := s.figure(j.level).Mean
			f.Value, f.Verdict = &i, r.verdict(i)
			f.warn(s)
		}
		out = append(out, f)
	}
	return out
}

// order compares each network with each of the next group.
func (j judge) order(o Order) []Finding {
	keys, by := grouped(j.questions(j.claim.Where), j.shared)
	var out []Finding
	for _, key := range keys {
		f := Finding{Question: key}
		var groups [][]series
		for _, names := range o {
			var group []series
			for _, n := range names {
				s := j.series(n, by[key])
				if !f.lacking(s) {
					group = append(group, s)
				}
			}
			if len(group) > 0 {
				groups = append(groups, group)
			}
		}
		j.at(key).climb(&f, groups)
		out = append(out, f)
	}
	return out
}

// climb judges an order of groups, the best first.
func (j judge) climb(f *Finding, groups [][]series) {
	if len(groups) < 2 {
		f.Verdict = NotTested
		return
	}
	var pairs [][2]series
	for i, group := range groups[1:] {
		for _, a := range groups[i] {
			for _, b := range group {
				pairs = append(pairs, [2]series{a, b})
			}
		}
	}
	f.compare(j, pairs, j.metric.Better == sample.Higher)
	f.warn(slices.Concat(groups...)...)
}

// point is a figure at one value of a knob.
type point struct {
	at float64
	series
}

// overKnob puts a test to the figures of a network along a knob.
func (j judge) overKnob(over Knob, network string, test func(judge, *Finding, []point)) []Finding {
	keys, by := grouped(j.questions(j.claim.Where), over.Without)
	var out []Finding
	for _, key := range keys {
		f := Finding{Question: key, Network: network}
		var points []point
		for _, q := range by[key] {
			s := j.series(network, []sample.Question{q})
			at := over.Say(over.Of(q))
			if s.lack != nil {
				s.lack.Why = "at " + at + ": " + s.lack.Why
			}
			if !f.lacking(s) {
				s.name = network + " at " + at
				points = append(points, point{over.Of(q), s})
			}
		}
		slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
		test(j.at(key), &f, points)
		out = append(out, f)
	}
	return out
}

// optimum compares the best of the values that the claim names with all others.
func (j judge) optimum(o Optimum, f *Finding, points []point) {
	better := func(a, b point) bool {
		x, y := a.figure(j.level).Mean.Center, b.figure(j.level).Mean.Center
		return float64(j.metric.Better)*(x-y) > 0
	}
	var named, best *point
	for i := range points {
		p := &points[i]
		if best == nil || better(*p, *best) {
			best = p
		}
		if o.Contains(p.at) && (named == nil || better(*p, *named)) {
			named = p
		}
	}
	var pairs [][2]series
	all := make([]series, 0, len(points))
	for _, p := range points {
		all = append(all, p.series)
		if named != nil && !o.Contains(p.at) {
			pairs = append(pairs, [2]series{named.series, p.series})
		}
	}
	if best != nil {
		f.At = &best.at
	}
	if len(pairs) == 0 {
		f.missing("no figures at the named load and at another one to compare")
		return
	}
	f.compare(j, pairs, j.metric.Better == sample.Higher)
	f.warn(all...)
}

// trend compares the figure at each value of the knob with that at the next.
func (j judge) trend(t Trend, f *Finding, points []point) {
	if len(points) < 2 {
		f.missing("fewer than two loads have figures")
		return
	}
	var pairs [][2]series
	all := []series{points[0].series}
	for i := 1; i < len(points); i++ {
		all = append(all, points[i].series)
		pairs = append(pairs, [2]series{points[i].series, points[i-1].series})
	}
	f.compare(j, pairs, !t.Falling)
	f.warn(all...)
}

// missing makes the finding one of NotTested, with a reason where it has none.
func (f *Finding) missing(why string) {
	f.Verdict = NotTested
	if len(f.Lacks) == 0 {
		f.Lacks = []Lack{{Network: f.Network, Kernel: f.Question.Scenario.Kernel, Why: why}}
	}
}
