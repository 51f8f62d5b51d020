package claim

import (
	"fmt"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Verdict says what trials make of a claim.
type Verdict string

// Verdicts.
const (
	// Holds: the interval lies in the claim's range.
	Holds Verdict = "holds"
	// Fails: the interval and the range have nothing in common.
	Fails Verdict = "does not hold"
	// Equal: the claim is that one figure is above another, and the two are the same
	// within Same, whichever is above.
	Equal Verdict = "practically equal"
	// Open: the data allow both.
	Open Verdict = "cannot tell"
	// NotTested: a network or a question has no figures.
	NotTested Verdict = "not tested"
)

// Same is the ratio up to which two figures are practically equal, either way.
const Same = 1.05

// InPart is the verdict on a claim of several findings of which some hold and some do not,
// and on a finding of several comparisons of which some hold and the others are practically
// equal.
const InPart Verdict = "holds in part"

// Verdict is that on the claim as a whole: of the findings that were tested all
// hold, or none does, or some do; it cannot be told where one that could decide
// is open.
func (j Judged) Verdict() Verdict {
	n := map[Verdict]int{}
	for _, f := range j.Findings {
		n[f.Verdict]++
	}
	switch {
	case n[Holds]+n[InPart] > 0 && n[Fails] > 0:
		return InPart
	case n[Open] > 0:
		return Open
	case n[InPart] > 0 || n[Holds] > 0 && n[Equal] > 0:
		return InPart
	case n[Holds] > 0:
		return Holds
	case n[Fails] > 0:
		return Fails
	case n[Equal] > 0:
		return Equal
	}
	return NotTested
}

// Verdicts lists them in the order in which they are counted.
func Verdicts() []Verdict { return []Verdict{Holds, InPart, Fails, Equal, Open, NotTested} }

// verdict holds an interval against the range.
func (r Range) verdict(i stat.Interval) Verdict {
	switch {
	case math.IsNaN(i.Center):
		return Open
	case r.Contains(i.Low) && r.Contains(i.High):
		return Holds
	case r.Above(i.Low) || r.Below(i.High):
		return Fails
	case r.border() && equal(i):
		return Equal
	}
	return Open
}

// border tells whether the range is of all ratios on one side of 1.
func (r Range) border() bool {
	least, most := r.Least != nil && *r.Least == 1, r.Most != nil && *r.Most == 1
	return least && r.Most == nil || most && r.Least == nil
}

// equal tells whether an interval of a ratio says that it is practically 1.
func equal(i stat.Interval) bool { return i.Low >= 1/Same && i.High <= Same }

// compare judges pairs of which the first must have the higher figure, or the
// lower one. All of them must, so the claim holds where each interval says so
// by itself; but one that says the contrary refutes it, and the more pairs are
// looked at the more often chance does that, so intervals that refute are
// widened for their number (Bonferroni).
func (f *Finding) compare(j judge, pairs [][2]series, higher bool) {
	level := j.level
	strict := 1 - (1-level)/float64(len(pairs))
	for _, p := range pairs {
		a, b := p[0], p[1]
		s := Step{Of: a.figure(level), To: b.figure(level), Ratio: j.over(a, b, level), Verdict: Open}
		wide := j.over(a, b, strict)
		above, below := s.Ratio.Low > 1, wide.High < 1
		if !higher {
			above, below = s.Ratio.High < 1, wide.Low > 1
		}
		if s.Ratio.Method == stat.RatioOfMeans {
			above, below = differs(a, b, higher, level), differs(b, a, higher, strict)
		}
		switch {
		case above:
			s.Verdict = Holds
		case below:
			s.Verdict = Fails
		case equal(s.Ratio):
			s.Verdict = Equal
		}
		f.Steps = append(f.Steps, s)
	}
	f.Verdict = worst(f.Steps)
}

// differs tests whether a has the higher (or lower) mean where values of 0 have
// no ratio: losses and retransmissions are often none.
func differs(a, b series, higher bool, level float64) bool {
	t := stat.Welch(a.values.Values(), b.values.Values())
	x, y := a.figure(level).Mean.Center, b.figure(level).Mean.Center
	return t.Valid() && t.P < 1-level && (x > y) == higher && x != y
}

// worst is the verdict of all steps together.
func worst(steps []Step) Verdict {
	n := map[Verdict]int{}
	for _, s := range steps {
		n[s.Verdict]++
	}
	switch {
	case n[Fails] > 0:
		return Fails
	case n[Open] > 0:
		return Open
	case n[Equal] == 0:
		return Holds
	case n[Holds] > 0:
		return InPart
	}
	return Equal
}

// lacking notes sides without figures, and makes the finding one of NotTested.
func (f *Finding) lacking(sides ...series) bool {
	any := false
	for _, s := range sides {
		if s.lack != nil {
			lack := *s.lack
			lack.Kernel = f.Question.Scenario.Kernel
			if !slices.Contains(f.Lacks, lack) { // a network on both sides lacks once
				f.Lacks = append(f.Lacks, lack)
			}
			any = true
		}
	}
	if any {
		f.Verdict = NotTested
	}
	return any
}

// warn gathers what is to be known of the trials and intervals behind a finding.
func (f *Finding) warn(sides ...series) {
	gates, total := map[string]int{}, 0
	var names []string
	for _, s := range sides {
		f.cells = append(f.cells, s.cells...)
		for _, t := range s.trials {
			total++
			for _, n := range t.Notes {
				if n = t.Network + ": " + n; !slices.Contains(f.Notes, n) {
					f.Notes = append(f.Notes, n)
				}
			}
			seen := map[string]bool{}
			for _, w := range t.Warnings {
				if !seen[w.Gate] {
					seen[w.Gate] = true
					gates[w.Gate]++
					names = append(names, w.Gate)
				}
			}
		}
	}
	slices.Sort(f.Notes) // trials come in no order
	slices.Sort(names)
	for _, gate := range slices.Compact(names) {
		f.add(sample.Warning{Gate: gate, Text: fmt.Sprintf("in %d of %d trials", gates[gate], total)})
	}
	for _, s := range f.Steps {
		for _, w := range s.Ratio.Warnings {
			f.add(sample.Warning(w))
		}
	}
	if f.Value != nil {
		for _, w := range f.Value.Warnings {
			f.add(sample.Warning(w))
		}
	}
}

func (f *Finding) add(w sample.Warning) {
	if !slices.Contains(f.Warnings, w) {
		f.Warnings = append(f.Warnings, w)
	}
}

// settle makes of a network's findings those to show. Figures of two kernels
// are never compared, so a network that one kernel cannot build leaves the
// question open there; where it was tested on another kernel, that says nothing
// more, and where it was tested on none, one finding says why for all.
func (j judge) settle(network string, all []Finding) []Finding {
	if len(all) == 0 {
		return []Finding{j.unasked(network)}
	}
	var out []Finding
	var order []sample.Question
	by := map[sample.Question][]Finding{}
	for _, f := range all {
		key := f.Question
		key.Scenario.Kernel = ""
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], f)
	}
	for _, key := range order {
		of := by[key]
		told := slices.DeleteFunc(slices.Clone(of), func(f Finding) bool { return f.Verdict == NotTested && !f.tried() })
		switch {
		case len(told) > 0:
			out = append(out, told...)
		case len(of) == 1:
			out = append(out, of[0])
		default:
			f := Finding{Verdict: NotTested, Question: key, Network: network}
			for _, o := range of {
				f.Lacks = append(f.Lacks, o.Lacks...)
			}
			out = append(out, f)
		}
	}
	return out
}

// tried tells whether a network failed where the finding lacks it.
func (f Finding) tried() bool {
	return slices.ContainsFunc(f.Lacks, func(l Lack) bool { return l.tried })
}

// Unasked is the Why of a Lack where the run had no such question at all.
const Unasked = "no trial asked this question"

// unasked is the finding of a claim whose questions nobody was asked.
func (j judge) unasked(network string) Finding {
	w := j.claim.Places()[0]
	f := Finding{Verdict: NotTested, Network: network, Question: sample.Question{Workload: w.Workload}}
	if len(w.Placements) == 1 {
		f.Question.Scenario.Placement = w.Placements[0]
	}
	f.Lacks = []Lack{{Network: network, Why: Unasked}}
	return f
}
