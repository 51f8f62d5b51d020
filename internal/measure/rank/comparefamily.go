package rank

import (
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Reach is what a family of tests could have found.
type Reach struct {
	// Question of the family; nil where the family is the comparison.
	Question *sample.Question `json:"question,omitempty"`
	// Tests is the number of rows that were tested.
	Tests int `json:"tests"`
	// Change is the size of change, 0.1 for 10 %, that Found and Needs are about.
	Change float64 `json:"change"`
	// Found is how many of the rows could show it at the repetitions that there are.
	Found int `json:"found"`
	// Needs is the number of repetitions by which so many rows can: those of the row that
	// needs most, and of the one in the middle. 0 where no number would do.
	NeedsMost   int `json:"needs_most"`
	NeedsMedian int `json:"needs_median"`
}

// mostRepetitions bounds what is recommended.
const mostRepetitions = 500

// family names the family of a row.
func (c *comparer) family(r Change) sample.Question {
	if c.o.Family == PerComparison {
		return sample.Question{}
	}
	return r.Question()
}

// adjust makes families of the networks' rows and draws the verdicts.
func (c *comparer) adjust() {
	c.out.Family, c.out.Correction, c.out.Conditions = c.o.Family, c.o.Correction, c.o.Conditions
	families := map[sample.Question][]int{}
	var all []int
	for i, r := range c.out.Changes {
		if r.Tested && r.Verdict != Reference {
			f := c.family(r)
			families[f], all = append(families[f], i), append(all, i)
		}
	}
	for _, rows := range families {
		c.spread(rows, stat.Holm, func(r *Change, p float64) { r.Adjusted = p })
		for _, i := range rows {
			c.out.Changes[i].count((1-c.o.Level)/float64(len(rows)), c.o.Change)
		}
	}
	c.spread(all, stat.FalseDiscovery, func(r *Change, p float64) { r.Discovery = p })
	for _, i := range all {
		row := &c.out.Changes[i]
		p := row.Adjusted
		if c.o.Correction == ByDiscovery {
			p = row.Discovery
		}
		if p < 1-c.o.Level {
			row.Significant = true
			row.Verdict = row.direction()
		}
	}
}

// adjustReference makes the baseline's rows a family of their own.
func (c *comparer) adjustReference() {
	var rows []int
	for i, r := range c.out.Changes {
		if r.Tested && r.Verdict == Reference {
			rows = append(rows, i)
		}
	}
	c.spread(rows, stat.Holm, func(r *Change, p float64) { r.Adjusted = p })
}

// spread adjusts the p-values of rows together and hands each row its own.
func (c *comparer) spread(rows []int, adjust func([]float64) []float64, set func(*Change, float64)) {
	p := make([]float64, len(rows))
	for k, i := range rows {
		p[k] = c.out.Changes[i].P
	}
	for k, adjusted := range adjust(p) {
		set(&c.out.Changes[rows[k]], adjusted)
	}
}

// count says what the row's test at alpha could find, and needs for a change of that size.
// It takes the bound that a row meets which alone has changed, the strictest of Holm's and
// of Benjamini and Hochberg's in a family of one question.
func (r *Change) count(alpha, change float64) {
	if !r.shifted || !r.shift.Log {
		return
	}
	if finds := math.Expm1(r.shift.Detectable(alpha, stat.Power)); finite(finds) {
		r.Finds = &finds
	}
	r.Needs = r.shift.Repetitions(math.Log1p(change), alpha, stat.Power, mostRepetitions)
}

// reach sums up what each family could find, in the order of its first row.
func (c *comparer) reach() {
	at := map[sample.Question]int{}
	needs := map[sample.Question][]int{}
	for _, r := range c.out.Changes {
		if !r.Tested || r.Verdict == Reference || r.Finds == nil {
			continue
		}
		f := c.family(r)
		i, known := at[f]
		if !known {
			i = len(c.out.Families)
			at[f] = i
			c.out.Families = append(c.out.Families, Reach{Change: c.o.Change})
			if c.o.Family == PerQuestion {
				q := r.Question()
				c.out.Families[i].Question = &q
			}
		}
		c.out.Families[i].Tests++
		if *r.Finds <= c.o.Change {
			c.out.Families[i].Found++
		}
		need := r.Needs
		if need == 0 {
			need = math.MaxInt
		}
		needs[f] = append(needs[f], need)
	}
	for f, i := range at {
		n := needs[f]
		slices.Sort(n)
		c.out.Families[i].NeedsMost, c.out.Families[i].NeedsMedian = known(n[len(n)-1]), known(n[(len(n)-1)/2])
	}
}

// known is 0 for what no number of repetitions does.
func known(n int) int {
	if n == math.MaxInt {
		return 0
	}
	return n
}
