package rank

import (
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Verdict says in a word what became of a figure from one run to the other.
type Verdict string

// Verdicts.
const (
	// Same: no significant difference; not a proof that there is none.
	Same   Verdict = "~"
	Better Verdict = "better"
	Worse  Verdict = "worse"
	// Changed: significant, of a metric that has no better direction.
	Changed Verdict = "changed"
	// Reference: the baseline, by which the others are judged.
	Reference Verdict = "reference"
)

// Comparison is what changed from run a to run b of an experiment.
type Comparison struct {
	// Changes, one row per cell and metric that both runs have.
	Changes []Change `json:"changes"`
	// Statuses lists cells that ended otherwise: OK before, failed now.
	Statuses []StatusChange `json:"statuses,omitempty"`
	// Conditions are differences between the runs that are none of a network's.
	Conditions []Condition `json:"conditions,omitempty"`
	// Family and Correction are how the verdicts were drawn, Families the sentences of
	// what each family of tests could have found.
	Family     Family     `json:"family"`
	Correction Correction `json:"correction"`
	Families   []Reach    `json:"families,omitempty"`
	// Drift is how far runs of the same thing differ on this machine.
	Drift Drift `json:"drift"`
	// OnlyA and OnlyB are cells that one run alone tried.
	OnlyA []sample.Cell `json:"only_a,omitempty"`
	OnlyB []sample.Cell `json:"only_b,omitempty"`
	// Warnings about the comparison: gate "drift" when the baseline itself moved.
	Warnings []sample.Warning `json:"warnings,omitempty"`
}

// Compared is the number of rows that have a verdict: those of networks, and cells that
// ended otherwise.
func (c Comparison) Compared() int {
	n := len(c.Statuses)
	for _, ch := range c.Changes {
		if ch.Verdict != Reference {
			n++
		}
	}
	return n
}

// Change is one metric of one cell in two runs.
type Change struct {
	sample.Cell
	Metric sample.Metric `json:"metric"`
	A      stat.Interval `json:"a"`
	B      stat.Interval `json:"b"`
	// Ratio is b over a as measured, machine drift included.
	Ratio stat.Interval `json:"ratio"`
	// Relative is Ratio over the baseline's ratio, block by block: what the
	// verdict rests on. Nil where the baseline cannot serve (see Compare).
	Relative *stat.Interval `json:"relative,omitempty"`
	// Baseline is the baseline's own Ratio, nil with Relative.
	Baseline *stat.Interval `json:"baseline,omitempty"`
	// Tested is false where a side has fewer than two repetitions; P and
	// Adjusted are then 1.
	Tested bool `json:"tested"`
	// P is the p-value of no change; Adjusted is after Holm over the tested rows of its
	// family, and Discovery after Benjamini and Hochberg over all tested rows.
	P         float64 `json:"p"`
	Adjusted  float64 `json:"adjusted"`
	Discovery float64 `json:"discovery"`
	// Finds is the smallest rise, 0.1 for 10 %, that would have been found as the only
	// change of its family with 80 % power; nil where that cannot be told.
	Finds *float64 `json:"finds,omitempty"`
	// Needs is how many repetitions in each run would find a change of the size that was
	// asked about; 0 where that cannot be told or no number would.
	Needs int `json:"needs,omitempty"`
	// Significant: the p-value of the Correction is below 1 - Level, and the row is no
	// reference.
	Significant bool             `json:"significant"`
	Verdict     Verdict          `json:"verdict"`
	Warnings    []sample.Warning `json:"warnings,omitempty"`

	// shift is what was tested; ok is false where only a permutation bound is left.
	shift   stat.Shift
	shifted bool
	// baselineErr is the standard error of the baseline's own shift.
	baselineErr float64
}

// StatusChange is a cell whose trials ended otherwise.
type StatusChange struct {
	sample.Cell
	// OKA and OKB are the shares of OK trials, 0 to 1.
	OKA float64 `json:"ok_a"`
	OKB float64 `json:"ok_b"`
	// A and B count the ends in each run.
	A []End `json:"a"`
	B []End `json:"b"`
}

// Compare tells what changed from run a to run b of an experiment.
//
// Two runs of the same experiment on the same machine differ by more than the
// scatter within each: the machine drifts (frequency, temperature, neighbours,
// a page cache), and a plain test of b against a would call the drift a change
// of every network. The host network is in every block for this reason, so
// a network is judged by its log ratio to the host of the same question and
// block: what the machine did to the block cancels, and what it did between
// the runs does too, as far as it multiplies both alike. The price is the
// host's own scatter, which the test counts (Welch on the per-block log
// ratios of each run) and which costs power where the host varies more than
// the network; a wrongly claimed change is the worse error. Choosing per row
// between the plain and the relative test, by whether the host seems to have
// moved, would bring back the false claims for every drift too small to see.
//
// The host's own rows are the reference: they carry p-values, adjusted among
// themselves, are never called significant, and give the drift warning. They also
// tell how far runs of the same thing differ beyond what their repetitions tell
// (see Drift): by that the errors of all other rows are scaled, since a drift that
// hits networks or workloads unequally does not cancel in the ratio.
//
// The other tested rows are families, one a question: what a reader asks of a
// workload at a load. Holm's adjustment bounds the chance of any false claim in a
// family to 1 - Level. Alongside it is the false discovery rate over all rows.
//
// A row is judged by its plain values where the host cannot serve: it was not
// measured there, fewer than two blocks are shared, or a value is 0 (loss,
// retransmissions: drift of those is no factor). Its warnings say so.
func Compare(a, b []sample.Trial, o CompareOptions) Comparison {
	o = o.withDefaults()
	c := comparer{a: newBook(a, o.Options), b: newBook(b, o.Options), o: o}
	for _, cell := range c.cells() {
		c.compareCell(cell)
	}
	c.estimateDrift()
	c.warn() // of the host's rows, those that are not selected too
	c.out.Changes = slices.DeleteFunc(c.out.Changes, func(r Change) bool { return !o.Selection.row(r) })
	c.include()
	c.adjust()
	c.reach()
	return c.out
}

// comparer holds two runs and what was found so far.
type comparer struct {
	a, b *book
	o    CompareOptions
	out  Comparison
	// related tells whether any row had a baseline to be judged by.
	related bool
}

// cells lists the cells of both runs, once and in order.
func (c *comparer) cells() []sample.Cell {
	all := map[sample.Cell][]sample.Trial{}
	for _, run := range []*book{c.a, c.b} {
		for q, networks := range run.cells {
			for n := range networks {
				all[sample.Cell{Network: n, Scenario: q.Scenario, Workload: q.Workload, Load: q.Load}] = nil
			}
		}
	}
	return sortedCells(all)
}

func (c *comparer) compareCell(cell sample.Cell) {
	q := cell.Question()
	selected := c.o.Selection.cell(cell)
	a, inA := c.a.cells[q][cell.Network]
	b, inB := c.b.cells[q][cell.Network]
	switch {
	case !inB:
		if selected {
			c.out.OnlyA = append(c.out.OnlyA, cell)
		}
		return
	case !inA:
		if selected {
			c.out.OnlyB = append(c.out.OnlyB, cell)
		}
		return
	}
	if selected && !slices.Equal(statuses(a.Ends), statuses(b.Ends)) {
		c.out.Statuses = append(c.out.Statuses, StatusChange{
			Cell: cell, OKA: okShare(a.Ends), OKB: okShare(b.Ends), A: a.Ends, B: b.Ends,
		})
	}
	for _, f := range a.Figures {
		if g, ok := b.Figure(f.Metric.Name); ok {
			c.out.Changes = append(c.out.Changes, c.change(cell, f, g))
		}
	}
}

// change makes the row of one metric, all but what needs the other rows.
func (c *comparer) change(cell sample.Cell, f, g Figure) Change {
	out := Change{Cell: cell, Metric: f.Metric, A: f.Interval, B: g.Interval, P: 1, Adjusted: 1, Discovery: 1,
		Verdict: Same}
	out.Ratio = stat.RatioIndependent(g.Values, f.Values, c.o.Level)
	test := stat.Welch(f.Values, g.Values)
	out.shift, out.shifted = stat.ShiftOf(f.Values, g.Values)
	if cell.Network == c.o.Baseline {
		out.Verdict = Reference
	} else if why := c.relative(&out, &test, f, g); why == "" {
		c.related = true
	} else {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "baseline", Text: "judged without the baseline: " + why})
	}
	for _, w := range test.Warnings {
		out.Warnings = append(out.Warnings, sample.Warning(w))
	}
	if test.Valid() {
		out.Tested, out.P = true, test.P
	}
	return out
}

// relative compares by the ratio to the baseline; why says why that cannot be.
func (c *comparer) relative(out *Change, test *stat.Test, f, g Figure) (why string) {
	q := out.Question()
	baseA, okA := c.a.cells[q][c.o.Baseline].Figure(f.Metric.Name)
	baseB, okB := c.b.cells[q][c.o.Baseline].Figure(f.Metric.Name)
	if !okA || !okB {
		return c.o.Baseline + " was not measured in both runs"
	}
	for _, values := range [][]float64{f.Values, g.Values, baseA.Values, baseB.Values} {
		if slices.ContainsFunc(values, func(v float64) bool { return v <= 0 }) {
			return "values of 0 have no ratio"
		}
	}
	i, t := stat.Relative(f.blocks(), baseA.blocks(), g.blocks(), baseB.blocks(), c.o.Level)
	if !t.Valid() && min(len(f.Values), len(g.Values)) >= 2 {
		return "fewer than two repetitions are shared with " + c.o.Baseline
	}
	own := stat.RatioIndependent(baseB.Values, baseA.Values, c.o.Level)
	out.Relative, out.Baseline, *test = &i, &own, t
	if base, ok := stat.ShiftOf(baseA.Values, baseB.Values); ok {
		out.baselineErr = base.Stderr
	}
	out.shift, out.shifted = stat.RelativeShift(f.blocks(), baseA.blocks(), g.blocks(), baseB.blocks())
	return ""
}

// direction is the verdict of a significant row.
func (r Change) direction() Verdict {
	up := r.B.Center > r.A.Center
	if r.Relative != nil {
		up = r.Relative.Center > 1
	}
	switch {
	case r.Metric.Better == 0:
		return Changed
	case up == (r.Metric.Better == sample.Higher):
		return Better
	}
	return Worse
}

// statuses lists the distinct statuses of ends, sorted.
func statuses(ends []End) (out []sample.Status) {
	for _, e := range ends {
		out = append(out, e.Status)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// okShare is the share of OK trials.
func okShare(ends []End) float64 {
	ok, all := 0, 0
	for _, e := range ends {
		all += e.Count
		if e.Status == sample.OK {
			ok += e.Count
		}
	}
	return float64(ok) / float64(max(all, 1))
}
