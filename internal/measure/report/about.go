package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/sample"
)

// trialView is a row of the table of all trials.
type trialView struct {
	Order    int
	Time     string
	Network  string
	Workload string
	Scenario string
	Load     string
	Rep      int
	Status   string
	Figure   string
	Seconds  string
	Notes    []string
	Details  []pair
}

type pair struct{ Key, Value string }

// maxDetail bounds one detail of a trial: a report shows what was run, and
// samples.jsonl keeps all of it.
const maxDetail = 400

func newTrialView(t sample.Trial) trialView {
	out := trialView{
		Order: t.Order, Network: t.Network, Workload: t.Workload, Scenario: t.Scenario.String(), Load: load(t.Question()),
		Rep: t.Repetition, Status: string(t.Status), Seconds: fmt.Sprintf("%.1f", t.Phases.Total),
	}
	if !t.Started.IsZero() {
		out.Time = t.Started.UTC().Format("15:04:05")
	}
	if t.Reason != "" {
		out.Notes = append(out.Notes, oneLine(t.Reason))
	}
	for _, w := range t.Warnings {
		out.Notes = append(out.Notes, w.Gate+": "+w.Text)
	}
	if m, v, ok := mainFigure(t); ok {
		out.Figure = Figure(m, v)
	}
	for _, k := range slices.Sorted(maps.Keys(t.Details)) {
		v := t.Details[k]
		if r := []rune(v); len(r) > maxDetail {
			v = string(r[:maxDetail]) + " … (all of it is in samples.jsonl)"
		}
		out.Details = append(out.Details, pair{k, v})
	}
	return out
}

// mainFigure is the metric by which the trial's workload is ranked first.
func mainFigure(t sample.Trial) (sample.Metric, float64, bool) {
	for _, name := range application.Named(application.Shipped(), t.Workload, t.Load) {
		if v, ok := t.Metrics[name]; ok {
			m, _ := sample.MetricByName(name)
			return m, v, true
		}
	}
	for _, m := range sample.Metrics() {
		if v, ok := t.Metrics[m.Name]; ok {
			return m, v, true
		}
	}
	return sample.Metric{}, 0, false
}

// phaseTable is the time spent by network and phase; nil without trials.
func phaseTable(a *analysis) *dataTable {
	if len(a.networks) == 0 {
		return nil
	}
	out := &dataTable{Head: []string{"network", "trials"}}
	for _, p := range phaseNames() {
		out.Head = append(out.Head, p+" [s]")
	}
	out.Head = append(out.Head, "per trial [s]", "all")
	sums, trials := phaseSums(a)
	for i, n := range a.networks {
		row := []string{n, fmt.Sprint(trials[i])}
		var total float64
		for _, v := range sums[i] {
			row = append(row, fmt.Sprintf("%.2f", v/float64(max(trials[i], 1))))
			total += v
		}
		out.Rows = append(out.Rows, append(row, fmt.Sprintf("%.1f", total/float64(max(trials[i], 1))), duration(total)))
	}
	return out
}

// machineGroup is a part of the machine record.
type machineGroup struct {
	Name  string
	Pairs []pair
}

// machineGroups flattens the record: a group per top-level object, and one
// for the plain values, which comes first.
func machineGroups(record map[string]any) []machineGroup {
	var out []machineGroup
	plain := machineGroup{Name: "machine"}
	for _, k := range slices.Sorted(maps.Keys(record)) {
		var pairs []pair
		flatten("", record[k], &pairs)
		if len(pairs) == 1 && pairs[0].Key == "" {
			plain.Pairs = append(plain.Pairs, pair{k, pairs[0].Value})
			continue
		}
		out = append(out, machineGroup{k, pairs})
	}
	if len(plain.Pairs) > 0 {
		out = slices.Insert(out, 0, plain)
	}
	return out
}

// flatten lists the leaves of a decoded JSON value with their paths.
func flatten(path string, v any, out *[]pair) {
	under := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			flatten(under(k), v[k], out)
		}
	case []any:
		if leaves, ok := joined(v); ok {
			*out = append(*out, pair{path, leaves})
			return
		}
		for i, e := range v {
			flatten(under(fmt.Sprint(i)), e, out)
		}
	default:
		*out = append(*out, pair{path, leaf(v)})
	}
}

// joined shows a list of plain values in one line.
func joined(list []any) (string, bool) {
	var parts []string
	for _, e := range list {
		switch e.(type) {
		case map[string]any, []any:
			return "", false
		}
		parts = append(parts, leaf(e))
	}
	return cmp.Or(strings.Join(parts, ", "), "none"), true
}

func leaf(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case float64:
		// Whole numbers of a record are counts and sizes: never 1.7e+10.
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
		return exact(v)
	}
	return fmt.Sprint(v)
}
