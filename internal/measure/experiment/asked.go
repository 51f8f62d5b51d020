package experiment

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// Asks returns an error for a claim that no question of the experiment answers.
func (e Experiment) Asks(c claim.Claim) error {
	var knobs []float64
	for _, w := range c.Places() {
		w.Kernels = nil // chosen when the run begins
		n := 0
		for _, q := range e.questions() {
			if !w.Picks(q) {
				continue
			}
			n++
			if o := c.Test.Optimum; o != nil {
				knobs = appendNew(knobs, o.Over.Of(q))
			} else if t := c.Test.Trend; t != nil {
				knobs = appendNew(knobs, t.Over.Of(q))
			}
		}
		if n == 0 {
			return fmt.Errorf("no question of the experiment is the claim's: workload %s has no such topology, pairs, MTU, family or load", w.Workload)
		}
	}
	if (c.Test.Optimum != nil || c.Test.Trend != nil) && len(knobs) < 2 {
		return fmt.Errorf("the experiment has one value of what the claim varies: expected two or more")
	}
	return nil
}

// claimed tells of a cell whether a claim compares it, on a kernel whose networks the
// experiment is left with.
func (e Experiment) claimed() func(sample.Cell) bool {
	claims := e.Answerable()
	return func(cell sample.Cell) bool {
		return slices.ContainsFunc(claims, func(c claim.Claim) bool {
			return slices.Contains(c.Subjects(), cell.Network) &&
				slices.ContainsFunc(c.Places(), func(w claim.Where) bool { return w.Picks(cell.Question()) })
		})
	}
}

// questions lists what the experiment asks.
func (e Experiment) questions() (out []sample.Question) {
	for _, entry := range e.Entries {
		for _, s := range entry.Scenarios {
			for _, l := range entry.Loads {
				out = append(out, sample.Question{Scenario: s, Workload: entry.Workload, Load: l})
			}
		}
	}
	return out
}

// Answerable returns the claims that can be put to what is left of an experiment
// once its networks and workloads are settled (see Only).
func (e Experiment) Answerable() (out []claim.Claim) {
	var names []string
	for _, n := range e.Networks {
		names = append(names, n.Name)
	}
	for _, c := range e.Claims {
		if left, ok := c.Among(names); ok && (e.Paper != nil || e.Asks(left) == nil) {
			out = append(out, left)
		}
	}
	return out
}
