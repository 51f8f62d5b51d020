package rank

import (
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// book holds summaries by question and network, as rankings look them up.
type book struct {
	o     Options
	cells map[sample.Question]map[string]Summary
	// asked lists every question in order.
	asked []sample.Question
}

func newBook(trials []sample.Trial, o Options) *book {
	b := &book{o: o.withDefaults(), cells: map[sample.Question]map[string]Summary{}}
	for c, of := range byCell(trials) {
		q := c.Question()
		if b.cells[q] == nil {
			b.cells[q] = map[string]Summary{}
			b.asked = append(b.asked, q)
		}
		b.cells[q][c.Network], _ = gather(c, of, b.o.Level)
	}
	slices.SortFunc(b.asked, sample.Question.Compare)
	return b
}

// scenarios lists the scenarios in the order of their questions.
func (b *book) scenarios() (out []topo.Scenario) {
	ordered := slices.Clone(b.asked)
	// Only the scenario is to decide here, not the workload before it.
	for i := range ordered {
		ordered[i].Workload, ordered[i].Load = "", sample.Load{}
	}
	slices.SortFunc(ordered, sample.Question.Compare)
	for _, q := range slices.Compact(ordered) {
		out = append(out, q.Scenario)
	}
	return out
}

// tried lists, sorted, the networks that any of the questions was put to in
// earnest: one that carries no traffic by design, or cannot stand in the
// scenario, has not failed.
func (b *book) tried(questions []sample.Question) []string {
	names := map[string]bool{}
	for _, q := range questions {
		for n, s := range b.cells[q] {
			for _, e := range s.Ends {
				if e.Status != sample.Refused && e.Status != sample.Unsupported {
					names[n] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// candidates is tried without the yardstick.
func (b *book) candidates(questions []sample.Question) []string {
	return slices.DeleteFunc(b.tried(questions), b.o.yardstick)
}

// column is the sub-feature of a question and a metric.
func (b *book) column(q sample.Question, m sample.Metric) column {
	c := column{question: q, metric: m, figures: map[string]Figure{}}
	for network, s := range b.cells[q] {
		if f, ok := s.Figure(m.Name); ok {
			c.figures[network] = f
		}
	}
	return c
}

// columns lists the performance sub-features of questions.
func (b *book) columns(questions []sample.Question) (out []column) {
	for _, q := range questions {
		out = append(out, b.performance(q)...)
	}
	return out
}

// performance lists the sub-features of one question: those that an
// application names, else every performance metric that was measured.
func (b *book) performance(q sample.Question) (out []column) {
	if names := application.Named(b.o.apps(), q.Workload, q.Load); len(names) > 0 {
		return b.named(q, names)
	}
	for _, m := range sample.Metrics() {
		if c := b.column(q, m); m.Aspect == sample.Performance && len(c.figures) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func (b *book) named(q sample.Question, names []string) (out []column) {
	for _, name := range names {
		if m, ok := sample.MetricByName(name); ok {
			out = append(out, b.column(q, m))
		}
	}
	return out
}

// nonEmpty keeps the questions in which a candidate has an OK figure of metric.
func (b *book) nonEmpty(questions []sample.Question, metric string) []sample.Question {
	return slices.DeleteFunc(slices.Clone(questions), func(q sample.Question) bool {
		for network, s := range b.cells[q] {
			if _, ok := s.Figure(metric); ok && !b.o.yardstick(network) {
				return false
			}
		}
		return true
	})
}
