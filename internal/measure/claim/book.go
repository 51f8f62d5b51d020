package claim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// book holds trials by what was asked of which network.
type book struct {
	cells map[sample.Cell]*record
	// asked lists every question, in order.
	asked []sample.Question
	// running: more trials are to come.
	running bool
}

// record is what became of one cell.
type record struct {
	// ok holds the trials that count by repetition: of one that was measured
	// again the later trial.
	ok map[int]sample.Trial
	// ends counts the others.
	ends map[end]int
}

type end struct {
	status sample.Status
	reason string
}

func newBook(trials []sample.Trial) *book {
	b := &book{cells: map[sample.Cell]*record{}}
	known := map[sample.Question]bool{}
	for _, t := range trials {
		c := t.Cell
		if c.Scenario.Kernel == "" && t.Kernel != HostKernel {
			c.Scenario.Kernel = t.Kernel // a question of its own, whatever its mark says
		}
		r := b.cells[c]
		if r == nil {
			r = &record{ok: map[int]sample.Trial{}, ends: map[end]int{}}
			b.cells[c] = r
		}
		if q := c.Question(); !known[q] {
			known[q] = true
			b.asked = append(b.asked, q)
		}
		if t.Status != sample.OK {
			r.ends[end{t.Status, strings.Join(strings.Fields(t.Reason), " ")}]++
		} else if old, ok := r.ok[t.Repetition]; !ok || t.Order >= old.Order {
			r.ok[t.Repetition] = t
		}
	}
	slices.SortFunc(b.asked, sample.Question.Compare)
	return b
}

// questions lists what was asked where w looks.
func (b *book) questions(w Where) []sample.Question {
	return slices.DeleteFunc(slices.Clone(b.asked), func(q sample.Question) bool { return !w.Picks(q) })
}

// series is the figure of a network by repetition, or why there is none.
type series struct {
	// name is the network, and what else sets it apart in a comparison.
	name   string
	values stat.Blocks
	trials []sample.Trial
	// cells are those that it was taken of.
	cells []sample.Cell
	lack  *Lack
}

// Figure is a series in short.
func (s series) figure(level float64) Figure {
	return Figure{Name: s.name, Mean: stat.MeanT(s.values.Values(), level)}
}

// series takes the claim's metric of a network, as the mean over the questions.
// A repetition counts that has them all.
func (j judge) series(network string, questions []sample.Question) series {
	s := series{name: network, values: stat.Blocks{}}
	for i, q := range questions {
		one, base, lack := j.relative(network, q)
		if lack != nil {
			if len(questions) > 1 {
				lack.Why = fmt.Sprintf("at load %s: %s", q.Load, lack.Why)
			}
			s.lack = lack
			return s
		}
		if i == 0 {
			s.values = one
		} else {
			s.values = sum(s.values, one)
		}
		s.cells = append(s.cells, cell(network, q))
		s.cells = append(s.cells, base...)
		for _, t := range j.cells[cell(network, q)].ok {
			s.trials = append(s.trials, t)
		}
	}
	for rep := range s.values {
		s.values[rep] /= float64(len(questions))
	}
	if len(s.values) == 0 {
		s.lack = &Lack{Network: network, Why: "no repetition has all loads", tried: true}
	}
	return s
}

// sum adds where both have a value.
func sum(a, b stat.Blocks) stat.Blocks {
	out := stat.Blocks{}
	for rep, v := range a {
		if w, ok := b[rep]; ok {
			out[rep] = v + w
		}
	}
	return out
}

func cell(network string, q sample.Question) sample.Cell {
	return sample.Cell{Network: network, Scenario: q.Scenario, Workload: q.Workload, Load: q.Load}
}

// relative takes the values of one question, as a share of those in the claim's
// other place where it has one, and the cell that is there.
func (j judge) relative(network string, q sample.Question) (stat.Blocks, []sample.Cell, *Lack) {
	of, lack := j.values(network, q)
	r := j.claim.Relative
	if r == nil || lack != nil {
		return of, nil, lack
	}
	place := j.claim.Where.with(*r)
	if r.Workload == "" {
		place.Workload = q.Workload // a ratio's side may have another one than the claim
	}
	others := slices.DeleteFunc(j.questions(place), func(o sample.Question) bool { return r.common(o) != r.common(q) })
	if len(others) != 1 {
		return nil, nil,
			&Lack{Network: network, Kernel: q.Scenario.Kernel,
				Why: fmt.Sprintf("%d questions fit what it is relative to: expected one", len(others))}
	}
	to, lack := j.values(network, others[0])
	if lack != nil {
		lack.Why = "at load " + others[0].Load.String() + ": " + lack.Why
		return nil, nil, lack
	}
	out := stat.Blocks{}
	for rep, v := range of {
		if w, ok := to[rep]; ok && w != 0 {
			out[rep] = v / w
		}
	}
	if len(out) == 0 {
		return nil, nil, &Lack{Network: network, Kernel: q.Scenario.Kernel, Why: "no repetition has both figures",
			tried: true}
	}
	return out, []sample.Cell{cell(network, others[0])}, nil
}

// values are those of one question. A trial whose value is no number counts as
// one that told none.
func (j judge) values(network string, q sample.Question) (stat.Blocks, *Lack) {
	lack := &Lack{Network: network, Kernel: q.Scenario.Kernel}
	r := j.cells[cell(network, q)]
	if r == nil {
		lack.Why = "was not run"
		return nil, lack
	}
	out := stat.Blocks{}
	for rep, t := range r.ok {
		if note, ok := j.excepted(t); ok {
			lack.Why = "does not count: " + note
			return nil, lack
		}
		if v, ok := t.Figure(j.metric.Name); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[rep] = v
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	lack.Why, lack.tried = r.why(j.metric.Name)
	return nil, lack
}

// excepted returns the note for which a trial does not count.
func (j judge) excepted(t sample.Trial) (note string, ok bool) {
	i := slices.IndexFunc(t.Notes,
		func(n string) bool { return j.claim.Except != "" && strings.Contains(n, j.claim.Except) })
	if i < 0 {
		return "", false
	}
	return t.Notes[i], true
}

// why says for what reason a cell has no figure, and whether it was tried in
// earnest: a network that cannot stand in a scenario has not failed in it.
func (r *record) why(metric string) (text string, tried bool) {
	var parts []string
	for _, e := range r.sorted() {
		tried = tried || e.status == sample.Failed || e.status == sample.Invalid
		text := string(e.status)
		if e.reason != "" {
			text += ": " + e.reason
		}
		if n := r.ends[e]; n > 1 {
			text += fmt.Sprintf(" (%d trials)", n)
		}
		parts = append(parts, text)
	}
	if n := len(r.ok); n > 0 {
		tried = true
		parts = append([]string{fmt.Sprintf("none of its %d trials told %s", n, metric)}, parts...)
	}
	return strings.Join(parts, "; "), tried
}

// sorted lists the ends, the most frequent first.
func (r *record) sorted() []end {
	var out []end
	for e := range r.ends {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b end) int {
		return cmp.Or(cmp.Compare(r.ends[b], r.ends[a]), cmp.Compare(a.status, b.status), cmp.Compare(a.reason, b.reason))
	})
	return out
}
