package claim

import (
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Doubt is a claim, or one of its findings, that the trials so far leave open.
type Doubt struct {
	// Cells are those whose further repetitions would help.
	Cells []sample.Cell
	// Blocks is how many more repetitions of them all are expected to settle it, 1 or
	// more; MostBlocks where no number of them is in sight.
	Blocks int
}

// MostBlocks is the number of repetitions beyond which nobody waits for a verdict.
const MostBlocks = 200

// Doubts lists the findings that are open while repetitions are still run: each by itself, as
// one that no number of repetitions settles is no reason to leave the claim's others open.
// Each comparison is judged by its blocks up to its last look (stat.NextLook), so that looking
// more often claims nothing more.
func Doubts(claims []Claim, trials []sample.Trial, level float64) []Doubt {
	b := newBook(trials)
	b.running = true
	judged := judgeRaced(claims, b, level, nil)
	var out []Doubt
	for _, j := range judged {
		for _, f := range j.Findings {
			if d := (Judged{j.Claim, []Finding{f}}).Doubt(); d.Blocks > 0 {
				out = append(out, d)
			}
		}
	}
	return out
}

// Doubt is what the claim's open findings want: all of them must be settled. It has no
// cells where none is open, or where none of those compares figures.
func (j Judged) Doubt() (d Doubt) {
	for _, f := range j.Findings {
		if f.Verdict != Open || len(f.cells) == 0 {
			continue
		}
		d.Blocks = max(d.Blocks, f.wants(j.Test))
		for _, c := range f.cells {
			if !slices.Contains(d.Cells, c) {
				d.Cells = append(d.Cells, c)
			}
		}
	}
	return d
}

// wants is how many more blocks the finding's open comparisons are expected to take.
func (f Finding) wants(t Test) (most int) {
	one := 1.0
	edges := Range{Least: &one}
	if t.Ratio != nil {
		edges = t.Ratio.Range
	}
	for _, s := range f.Steps {
		if s.Verdict == Open {
			most = max(most, wanted(s.Ratio, edges.distance(math.Log(s.Ratio.Center), math.Log)))
		}
	}
	if f.Value != nil {
		c := f.Value.Center
		most = wanted(*f.Value, t.Value.distance(c, func(v float64) float64 { return v })/math.Abs(c))
	}
	return most
}

func wanted(i stat.Interval, half float64) int {
	n := i.Blocks(half, MostBlocks)
	if n == MostBlocks {
		return MostBlocks
	}
	return max(n-i.N, 1)
}

// distance is how narrow half an interval around center, on the given scale, has to be to
// tell on which side of the range's ends it lies, or that it is practically at its border.
func (r Range) distance(center float64, scale func(float64) float64) float64 {
	out := math.Inf(1)
	for _, end := range []*float64{r.Least, r.Most} {
		if end != nil {
			out = min(out, math.Abs(center-scale(*end)))
		}
	}
	if r.border() {
		out = max(out, math.Log(Same)-out)
	}
	return out
}

// looked is the pair up to the last look at it, where more is still to come.
func (b *book) looked(x, y stat.Blocks) (stat.Blocks, stat.Blocks) {
	if !b.running {
		return x, y
	}
	var shared []int
	for rep := range x {
		if _, ok := y[rep]; ok {
			shared = append(shared, rep)
		}
	}
	slices.Sort(shared)
	n := 0
	for next := stat.NextLook(0); next <= len(shared); next = stat.NextLook(n) {
		n = next
	}
	if n == 0 {
		return x, y
	}
	a, z := stat.Blocks{}, stat.Blocks{}
	for _, rep := range shared[:n] {
		a[rep], z[rep] = x[rep], y[rep]
	}
	return a, z
}
