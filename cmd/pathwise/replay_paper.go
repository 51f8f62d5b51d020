package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
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

// simulated is what a policy did on random schedules.
type simulated struct {
	Policy string `json:"policy"`
	// Schedules played, and over them the quantiles of achieved over hindsight
	// and over the best static network.
	Schedules   int       `json:"schedules"`
	OfHindsight quantiles `json:"of_hindsight"`
	OfStatic    quantiles `json:"of_static"`
	Switches    int       `json:"switches"`
	Failovers   int       `json:"failovers"`
	False       int       `json:"false_switches"`
}

type quantiles struct {
	Mean   float64 `json:"mean"`
	Least  float64 `json:"least"`
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
}

func quantilesOf(values []float64) (q quantiles) {
	v := slices.Sorted(slices.Values(values))
	for _, x := range v {
		q.Mean += x / float64(len(v))
	}
	q.Least, q.P5, q.Median = v[0], v[len(v)/20], v[len(v)/2]
	return q
}

// replayRandom plays random schedules.
func (e env) replayRandom(f replayFlags) error {
	need := decide.Need(f.need)
	if need != decide.Throughput && need != decide.Latency {
		return usageError{fmt.Errorf("--need %s: expected throughput or latency", f.need)}
	}
	if f.trace {
		return usageError{fmt.Errorf("--trace: expected with FILE or --paper")}
	}
	names := []string{f.policy}
	if f.policy == "all" {
		names = []string{"table", "hysteresis", "cost-aware"}
	}
	var out []simulated
	for _, name := range names {
		s := simulated{Policy: name, Schedules: f.random}
		var hindsight, static []float64
		for i := range uint64(f.random) {
			schedule := decide.RandomSchedule(f.seed+i, decide.Shape{Need: need, Bare: f.bare})
			policy, err := decide.ParsePolicy(name, schedule.Table(), f.seed)
			if err != nil {
				return usageError{fmt.Errorf("--policy: %w, or all", err)}
			}
			r, _ := decide.Simulate(schedule, policy, f.seed+i)
			hindsight, static = append(hindsight, r.OfHindsight()), append(static, r.OfStatic())
			s.Switches, s.Failovers, s.False = s.Switches+r.Switches, s.Failovers+r.Failovers, s.False+r.False
		}
		s.OfHindsight, s.OfStatic = quantilesOf(hindsight), quantilesOf(static)
		out = append(out, s)
	}
	return writeSimulated(e.stdout, f, out, e.listOptions(f.format))
}

func writeSimulated(w io.Writer, f replayFlags, out []simulated, o report.Options) error {
	switch f.format {
	case "json":
		return writeJSON(w, out)
	case "csv":
		rows := [][]string{{"policy", "schedules", "of_hindsight_mean", "of_hindsight_p5", "of_hindsight_least",
			"of_static_mean", "of_static_p5", "of_static_least", "switches", "failovers", "false_switches"}}
		for _, s := range out {
			rows = append(rows, []string{s.Policy, strconv.Itoa(s.Schedules), number(s.OfHindsight.Mean),
				number(s.OfHindsight.P5), number(s.OfHindsight.Least),
				number(s.OfStatic.Mean), number(s.OfStatic.P5), number(s.OfStatic.Least), strconv.Itoa(s.Switches),
				strconv.Itoa(s.Failovers), strconv.Itoa(s.False)})
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	fmt.Fprintf(w, "%d random schedules from seed %d, need %s, simulated\n\n", f.random, f.seed, f.need)
	l := report.NewList(report.Numbered("policy", "of hindsight: mean", "median", "5 %", "least", "of best static: mean",
		"5 %", "least", "switches", "failovers", "false")...)
	for _, s := range out {
		h, b := s.OfHindsight, s.OfStatic
		l.Add(s.Policy, part(h.Mean), part(h.Median), part(h.P5), part(h.Least), part(b.Mean), part(b.P5), part(b.Least),
			strconv.Itoa(s.Switches), strconv.Itoa(s.Failovers), strconv.Itoa(s.False))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	return nil
}
