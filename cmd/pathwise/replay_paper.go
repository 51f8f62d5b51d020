package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// paperReplay is the answer of "pathwise replay --paper".
type paperReplay struct {
	Rows      []paperRow             `json:"table_5"`
	Results   []replayed             `json:"results"`
	Switches  []decide.PaperSwitches `json:"table_7"`
	BreakEven []decide.BreakEven     `json:"figure_14"`
}

// paperRow is a line of Table 5 with what the policy table made of it.
type paperRow struct {
	decide.PaperRow
	Replayed float64 `json:"replayed"`
	Path     string  `json:"path"`
}

// replayPaper replays Table 5. The policy table is given the very table.
func (e env) replayPaper(f replayFlags) error {
	rec, err := decide.PaperRecording()
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	table := decide.PaperTable5()
	results, err := replayAll(f, rec, table)
	if err != nil {
		return err
	}
	out := paperReplay{Switches: decide.PaperTable7(), BreakEven: decide.PaperBreakEven()}
	sim := decide.Replay(decide.TablePolicy{Table: table}, rec)
	for i, r := range decide.PaperRows() {
		out.Rows = append(out.Rows, paperRow{r, sim.Trace[i].Rate, sim.Trace[i].After.Active})
	}
	for _, r := range results {
		out.Results = append(out.Results, replayed{r, r.OfHindsight(), r.OfStatic()})
	}
	switch f.format {
	case "json":
		return writeJSON(e.stdout, out)
	case "csv":
		rows := [][]string{{"threads", "weave", "calico", "sim_published", "sim_replayed", "path"}}
		for _, r := range out.Rows {
			rows = append(rows, []string{strconv.Itoa(r.Threads), cents(r.Weave), cents(r.Calico), cents(r.SIM),
				cents(r.Replayed), r.Path})
		}
		if err := csv.NewWriter(e.stdout).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	if f.trace {
		writeTrace(e.stdout, results)
	}
	return writePaperText(e.stdout, rec.Header, out, results, e.listOptions(f.format))
}

func cents(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func writePaperText(w io.Writer, h decide.Header, out paperReplay, results []decide.Result, o report.Options) error {
	head := fmt.Sprintf("Table 5 of Atici and Boluk (2020), ops/s; a switch costs %.2f ms of the path that is left\n",
		decide.PaperLoss*1000)
	if err := report.Lines(w, head, o); err != nil {
		return err
	}
	l := report.NewList(report.Numbered("threads", "Weave", "Calico", "SIM, published", "SIM, replayed", "path")...)
	for _, r := range out.Rows {
		l.Add(strconv.Itoa(r.Threads), cents(r.Weave), cents(r.Calico), cents(r.SIM), cents(r.Replayed), r.Path)
	}
	last := out.Rows[len(out.Rows)-1]
	if err := l.Write(w, o); err != nil {
		return err
	}
	gain := fmt.Sprintf("\nAt %d threads %.0f ops/s and %.2f %% more than Calico alone (published: 172 and 1.84 %%).\n",
		last.Threads, last.Replayed-last.Calico, 100*(last.Replayed/last.Calico-1))
	if err := report.Lines(w, gain, o); err != nil {
		return err
	}
	fmt.Fprint(w, "Table 7: 5000 inserts with switches, ms\n\n")
	l = report.NewList(report.Numbered("switches", "completion", "loss, published", "loss, reckoned", "per switch")...)
	for _, r := range out.Switches {
		l.Add(strconv.Itoa(r.Switches), cents(r.Completion), cents(r.Loss), fmt.Sprintf("%.3f", r.Reckoned),
			fmt.Sprintf("%.3f", r.Each))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	fmt.Fprint(w, "\nFigure 14: when a switch to the better network pays\n\n")
	l = report.NewList(report.Numbered("threads", "from", "to", "gain, ops/s", "loss, ops", "paid after, s")...)
	for _, b := range out.BreakEven {
		l.Add(strconv.Itoa(b.Threads), b.From, b.To, cents(b.Gain), cents(b.Loss), cents(b.Seconds))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return writeReplayText(w, h, results, o)
}
