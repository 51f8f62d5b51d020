package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"pathwise.dev/pathwise/internal/path/decide"
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
			rows = append(rows, []string{strconv.Itoa(r.Threads), cents(r.Weave), cents(r.Calico), cents(r.SIM), cents(r.Replayed), r.Path})
		}
		if err := csv.NewWriter(e.stdout).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	if f.trace {
		writeTrace(e.stdout, results)
	}
	return writePaperText(e.stdout, rec.Header, out, results)
}

func cents(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

func writePaperText(w io.Writer, h decide.Header, out paperReplay, results []decide.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "Table 5 of Atici and Boluk (2020), ops/s; a switch costs %.2f ms of the path that is left\n\n", decide.PaperLoss*1000)
	fmt.Fprintln(t, "threads\tWeave\tCalico\tSIM, published\tSIM, replayed\tpath\t")
	for _, r := range out.Rows {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t\n", r.Threads, cents(r.Weave), cents(r.Calico), cents(r.SIM), cents(r.Replayed), r.Path)
	}
	last := out.Rows[len(out.Rows)-1]
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	fmt.Fprintf(w, "\nAt %d threads %.0f ops/s and %.2f %% more than Calico alone (published: 172 and 1.84 %%).\n\n",
		last.Threads, last.Replayed-last.Calico, 100*(last.Replayed/last.Calico-1))
	fmt.Fprint(w, "Table 7: 5000 inserts with switches, ms\n\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "switches\tcompletion\tloss, published\tloss, reckoned\tper switch\t")
	for _, r := range out.Switches {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.3f\t%.3f\t\n", r.Switches, cents(r.Completion), cents(r.Loss), r.Reckoned, r.Each)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	fmt.Fprint(w, "\nFigure 14: when a switch to the better network pays\n\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "threads\tfrom\tto\tgain, ops/s\tloss, ops\tpaid after, s\t")
	for _, b := range out.BreakEven {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.2f\t%.2f\t%.2f\t\n", b.Threads, b.From, b.To, b.Gain, b.Loss, b.Seconds)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	fmt.Fprintln(w)
	return writeReplayText(w, h, results)
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
	return writeSimulated(e.stdout, f, out)
}

func writeSimulated(w io.Writer, f replayFlags, out []simulated) error {
	switch f.format {
	case "json":
		return writeJSON(w, out)
	case "csv":
		rows := [][]string{{"policy", "schedules", "of_hindsight_mean", "of_hindsight_p5", "of_hindsight_least", "of_static_mean", "of_static_p5", "of_static_least", "switches", "failovers", "false_switches"}}
		for _, s := range out {
			rows = append(rows, []string{s.Policy, strconv.Itoa(s.Schedules), number(s.OfHindsight.Mean), number(s.OfHindsight.P5), number(s.OfHindsight.Least),
				number(s.OfStatic.Mean), number(s.OfStatic.P5), number(s.OfStatic.Least), strconv.Itoa(s.Switches), strconv.Itoa(s.Failovers), strconv.Itoa(s.False)})
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	fmt.Fprintf(w, "%d random schedules from seed %d, need %s, simulated\n\n", f.random, f.seed, f.need)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tof hindsight: mean\tmedian\t5 %\tleast\tof best static: mean\t5 %\tleast\tswitches\tfailovers\tfalse\t")
	for _, s := range out {
		h, b := s.OfHindsight, s.OfStatic
		fmt.Fprintf(t, "%s\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%d\t%d\t%d\t\n", s.Policy,
			100*h.Mean, 100*h.Median, 100*h.P5, 100*h.Least, 100*b.Mean, 100*b.P5, 100*b.Least, s.Switches, s.Failovers, s.False)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
