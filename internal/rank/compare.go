package rank

import (
	"fmt"
	"math"
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
	// OnlyA and OnlyB are cells that one run alone tried.
	OnlyA []sample.Cell `json:"only_a,omitempty"`
	OnlyB []sample.Cell `json:"only_b,omitempty"`
	// Warnings about the comparison: gate "drift" when the baseline itself moved.
	Warnings []sample.Warning `json:"warnings,omitempty"`
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
	// Tested is false where a side has fewer than two repetitions; P and
	// Adjusted are then 1.
	Tested bool `json:"tested"`
	// P is the p-value of no change; Adjusted is after Holm over all tested rows.
	P        float64 `json:"p"`
	Adjusted float64 `json:"adjusted"`
	// Significant: Adjusted is below 1 - Level, and the row is no reference.
	Significant bool             `json:"significant"`
	Verdict     Verdict          `json:"verdict"`
	Warnings    []sample.Warning `json:"warnings,omitempty"`
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
// of every network. The host network stands in every block for this reason, so
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
// themselves, are never called significant, and give the drift warning. All
// other tested rows, of every cell and metric, form one family for Holm's
// adjustment, so the chance of any false claim at all is at most 1 - Level. A
// drift that hits the networks unequally does not cancel in the ratio; unless
// it is large, that adjustment keeps it from being claimed
// (TestCompareSimulated, uneven drift).
//
// A row is judged by its plain values where the host cannot serve: it was not
// measured there, fewer than two blocks are shared, or a value is 0 (loss,
// retransmissions: drift of those is no factor). Its warnings say so.
func Compare(a, b []sample.Trial, o Options) Comparison {
	c := comparer{a: newBook(a, o), b: newBook(b, o), o: o.withDefaults()}
	for _, cell := range c.cells() {
		c.compareCell(cell)
	}
	c.adjust()
	c.warn()
	return c.out
}

// comparer holds two runs and what was found so far.
type comparer struct {
	a, b *book
	o    Options
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
	a, inA := c.a.cells[q][cell.Network]
	b, inB := c.b.cells[q][cell.Network]
	switch {
	case !inB:
		c.out.OnlyA = append(c.out.OnlyA, cell)
		return
	case !inA:
		c.out.OnlyB = append(c.out.OnlyB, cell)
		return
	}
	if !slices.Equal(statuses(a.Ends), statuses(b.Ends)) {
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
	out := Change{Cell: cell, Metric: f.Metric, A: f.Interval, B: g.Interval, P: 1, Adjusted: 1, Verdict: Same}
	out.Ratio = stat.RatioIndependent(g.Values, f.Values, c.o.Level)
	test := stat.Welch(f.Values, g.Values)
	if cell.Network == c.o.Baseline {
		out.Verdict = Reference
	} else if rel, relTest, why := c.relative(cell.Question(), f, g); why == "" {
		c.related = true
		out.Relative, test = &rel, relTest
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
func (c *comparer) relative(q sample.Question, f, g Figure) (i stat.Interval, t stat.Test, why string) {
	baseA, okA := c.a.cells[q][c.o.Baseline].Figure(f.Metric.Name)
	baseB, okB := c.b.cells[q][c.o.Baseline].Figure(f.Metric.Name)
	if !okA || !okB {
		return i, t, c.o.Baseline + " was not measured in both runs"
	}
	for _, values := range [][]float64{f.Values, g.Values, baseA.Values, baseB.Values} {
		if slices.ContainsFunc(values, func(v float64) bool { return v <= 0 }) {
			return i, t, "values of 0 have no ratio"
		}
	}
	i, t = stat.Relative(f.blocks(), baseA.blocks(), g.blocks(), baseB.blocks(), c.o.Level)
	if !t.Valid() && min(len(f.Values), len(g.Values)) >= 2 {
		return i, t, "fewer than two repetitions are shared with " + c.o.Baseline
	}
	return i, t, ""
}

// adjust makes the p-values of the networks' rows one family, and those of the
// baseline another, and draws the verdicts.
func (c *comparer) adjust() {
	for _, reference := range []bool{false, true} {
		p := make([]float64, len(c.out.Changes))
		for i, row := range c.out.Changes {
			p[i] = math.NaN()
			if row.Tested && (row.Verdict == Reference) == reference {
				p[i] = row.P
			}
		}
		for i, adjusted := range stat.Holm(p) {
			if !math.IsNaN(adjusted) {
				c.out.Changes[i].Adjusted = adjusted
			}
		}
	}
	for i := range c.out.Changes {
		row := &c.out.Changes[i]
		if row.Verdict != Reference && row.Adjusted < 1-c.o.Level {
			row.Significant = true
			row.Verdict = row.direction()
		}
	}
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

// warn tells what must be known about the whole: drift, or that it cannot be seen.
func (c *comparer) warn() {
	moved, total, worst := 0, 0, Change{}
	for _, row := range c.out.Changes {
		if row.Verdict != Reference || !row.Tested {
			continue
		}
		total++
		if row.Adjusted < 1-c.o.Level {
			moved++
			if worst.Verdict == "" || row.P < worst.P {
				worst = row
			}
		}
	}
	if moved > 0 {
		c.out.Warnings = append(c.out.Warnings, sample.Warning{Gate: "drift", Text: fmt.Sprintf(
			"the baseline %s itself moved between the runs, in %d of %d figures (clearest: %s %s, x%.3f): the machine or its kernel changed; rows are judged relative to it",
			c.o.Baseline, moved, total, worst.Cell, worst.Metric.Name, worst.Ratio.Center)})
	}
	if len(c.out.Changes) > 0 && !c.related {
		c.out.Warnings = append(c.out.Warnings, sample.Warning{Gate: "baseline", Text: "no row could be judged relative to " +
			c.o.Baseline + ": a drift of the machine cannot be told from a change of a network"})
	}
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
