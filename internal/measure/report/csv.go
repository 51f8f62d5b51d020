package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// trialColumns are the columns of the CSV report: tidy data, one row for each
// metric of each trial, so that every published figure can be recomputed.
func trialColumns() []string {
	return []string{"experiment", "network", "workload", "placement", "pairs", "mtu", "connections", "size", "rate",
		"congestion", "repetition", "order", "started", "kernel", "status", "reason", "warnings", "metric", "unit", "better",
		"aspect", "value"}
}

// writeTrialsCSV writes one row per trial and metric. A trial without a figure
// has one row with an empty metric: a failure is a result too.
func writeTrialsCSV(w io.Writer, in Input) error {
	cw := csv.NewWriter(w)
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write(trialColumns())
	for _, t := range in.Results.Trials {
		head := trialCells(in.Results.Header.Experiment, t)
		wrote := false
		for _, m := range sample.Metrics() {
			v, ok := t.Metrics[m.Name]
			if !ok {
				continue
			}
			better := map[sample.Better]string{sample.Higher: "higher", sample.Lower: "lower"}[m.Better]
			_ = cw.Write(append(head[:len(head):len(head)], m.Name, m.Unit, better, string(m.Aspect), exact(v)))
			wrote = true
		}
		if !wrote {
			_ = cw.Write(append(head[:len(head):len(head)], "", "", "", "", ""))
		}
	}
	cw.Flush()
	return cw.Error()
}

func trialCells(experiment string, t sample.Trial) []string {
	return append(append([]string{experiment}, cellCells(t.Cell)...),
		strconv.Itoa(t.Repetition), strconv.Itoa(t.Order), t.Started.UTC().Format(time.RFC3339Nano),
		t.Kernel, string(t.Status), oneLine(t.Reason), warningText(t.Warnings))
}

// cellCells are the columns network to congestion.
func cellCells(c sample.Cell) []string {
	return []string{c.Network, c.Workload, c.Scenario.Place(), strconv.Itoa(c.Scenario.Pairs),
		strconv.Itoa(c.Scenario.MTU), knob(c.Load.Connections), knob(c.Load.Size), rateCell(c.Load.Rate), c.Load.Congestion}
}

// kernelCell names the kernel of a scenario as trials do.
func kernelCell(s topo.Scenario) string { return cmp.Or(s.Kernel, "host") }

// knob shows a load's knob; empty where the workload has none.
func knob(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func rateCell(r float64) string {
	if r == 0 {
		return ""
	}
	return exact(r)
}

// exact shows v with every digit it has.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func warningText(ws []sample.Warning) string {
	parts := make([]string, len(ws))
	for i, w := range ws {
		parts[i] = fmt.Sprintf("%s: %s", w.Gate, oneLine(w.Text))
	}
	return strings.Join(parts, "; ")
}
