package rank

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

// Family says which rows of a comparison are tested together.
type Family string

// Families.
const (
	// PerQuestion: the networks and metrics of one workload at one load in one scenario.
	PerQuestion Family = "question"
	// PerComparison: all rows.
	PerComparison Family = "comparison"
)

// Correction says which adjusted p-value draws the verdicts.
type Correction string

// Corrections.
const (
	// ByHolm bounds the chance of any false claim in a family.
	ByHolm Correction = "holm"
	// ByDiscovery bounds the share of false ones among all claims.
	ByDiscovery Correction = "fdr"
)

// CompareOptions are the knobs of a comparison. The zero value is good.
type CompareOptions struct {
	Options
	Selection  Selection
	Family     Family
	Correction Correction
	// Change is the size of change, 0.1 for 10 %, for which Needs is counted; 0 means 0.1.
	Change float64
	// Conditions are what the caller knows of the runs.
	Conditions []Condition
}

func (o CompareOptions) withDefaults() CompareOptions {
	o.Options = o.Options.withDefaults()
	if o.Family == "" {
		o.Family = PerQuestion
	}
	if o.Correction == "" {
		o.Correction = ByHolm
	}
	if o.Change <= 0 {
		o.Change = 0.1
	}
	return o
}

// Condition is something other than a network in which two runs differ.
type Condition struct {
	// Name of the condition, such as "window of tcp-stream".
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Conditions are the entries of a and b that differ, by name; what only one of them has is
// "" in the other.
func Conditions(a, b map[string]string) (out []Condition) {
	names := maps.Clone(a)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, b)
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if a[n] != b[n] {
			out = append(out, Condition{n, a[n], b[n]})
		}
	}
	return out
}

// Selection is which rows of a comparison are looked at; an empty list means all. The
// baseline is always there, as the reference.
type Selection struct{ Networks, Workloads, Metrics []string }

// Choices are the names that a selection can have, of trials.
func Choices(trials []sample.Trial) (s Selection) {
	networks, workloads, metrics := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, t := range trials {
		networks[t.Network], workloads[t.Workload] = true, true
		for name := range t.Metrics {
			metrics[name] = true
		}
	}
	return Selection{slices.Sorted(maps.Keys(networks)), slices.Sorted(maps.Keys(workloads)),
		slices.Sorted(maps.Keys(metrics))}
}

// Check refuses names that are not among choices; key says which list is at fault.
func (s Selection) Check(choices Selection) error {
	for _, l := range []struct {
		key       string
		ask, have []string
	}{{"networks", s.Networks, choices.Networks}, {"workloads", s.Workloads, choices.Workloads},
		{"metric", s.Metrics, choices.Metrics}} {
		for _, name := range l.ask {
			if !slices.Contains(l.have, name) {
				return fmt.Errorf("--%s %q: neither result has it: there is %s", l.key, name, strings.Join(l.have, ", "))
			}
		}
	}
	return nil
}

// Any reports whether anything is left out.
func (s Selection) Any() bool { return len(s.Networks)+len(s.Workloads)+len(s.Metrics) > 0 }

func asks(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// cell tells whether a cell is selected.
func (s Selection) cell(c sample.Cell) bool {
	return asks(s.Networks, c.Network) && asks(s.Workloads, c.Workload)
}

// row tells whether a row is selected.
func (s Selection) row(r Change) bool {
	reference := r.Verdict == Reference
	return (reference || asks(s.Networks, r.Network)) && asks(s.Workloads, r.Workload) && asks(s.Metrics, r.Metric.Name)
}
