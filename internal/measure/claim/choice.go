package claim

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Choice says which network is the best for an application, as Table 6 of Atici
// and Boluk (2020) does.
type Choice struct {
	// App is the application's name in the recommendation table.
	App string `json:"app" yaml:"app" key:"needed" doc:"application of the recommendation table"`
	// Load is "optimum" or "high".
	Load   string `json:"load" yaml:"load" is:"level" key:"needed" doc:"load at which networks are scored"`
	Robust bool   `json:"robust" yaml:"robust" doc:"the choice of users who need robustness" default:"false"`
	// Network is the one that is said to be the best.
	Network string `json:"network" yaml:"network" is:"measured" key:"needed" doc:"the network that is the best"`
}

// Recommend answers which networks are the best for a choice's application in a
// scenario. Measuring must not know the ranking, and experiments hold claims, so
// that the rule comes from outside.
type Recommend func(Choice, topo.Scenario) (Recommended, error)

// Recommended is such an answer.
type Recommended struct {
	// Chosen is the best network, then those that the data cannot tell from it.
	Chosen []string
	// Ranked are all that could be compared.
	Ranked   []string
	Warnings []sample.Warning
}

func (t Choice) check() error {
	if t.Load != "optimum" && t.Load != "high" {
		return fmt.Errorf("choice: load %q: expected optimum or high", t.Load)
	}
	return nil
}

// choice asks for a recommendation in every scenario that the claim means. It
// holds where the network is the only one recommended, and cannot be told where
// it is one of several that are tied.
func (j judge) choice(t Choice) []Finding {
	var out []Finding
	if j.recommend == nil {
		return nil
	}
	for _, s := range j.scenarios() {
		f := Finding{Question: sample.Question{Scenario: s}}
		r, err := j.recommend(t, s)
		f.Chosen, f.Warnings = r.Chosen, r.Warnings
		switch {
		case err != nil:
			f.Verdict, f.Lacks = NotTested, []Lack{{Kernel: s.Kernel, Why: err.Error()}}
		case !slices.Contains(r.Ranked, t.Network):
			f.Verdict, f.Lacks = NotTested,
				[]Lack{{Network: t.Network, Kernel: s.Kernel, Why: "is not ranked: it lacks figures of the application"}}
		case !slices.Contains(r.Chosen, t.Network):
			f.Verdict = Fails
		case len(r.Chosen) == 1:
			f.Verdict = Holds
		default:
			f.Verdict = Open
		}
		out = append(out, f)
	}
	return out
}

// scenarios lists those of one pair that the claim means and in which something
// was asked.
func (j judge) scenarios() (out []topo.Scenario) {
	w := j.claim.Where
	w.Workload, w.Loads = "", nil
	for _, q := range j.questions(w) {
		if q.Scenario.Pairs == 1 && !slices.Contains(out, q.Scenario) {
			out = append(out, q.Scenario)
		}
	}
	return out
}
