package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// replayFlags are those of "pathwise replay".
type replayFlags struct {
	policy, format, table string
	share                 string
	paper, trace          bool
	random                int
	bare                  bool
	need                  string
	seed                  uint64
	ablate                bool
	mechanisms, families  []string
}

func replayCommand(e env) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use: "replay [FILE...]", Short: "Run policies on recorded or simulated evidence",
		Long: `Run recorded evidence (JSON lines, see docs/explanation/decision-simulated.md) through
steering policies, and set what each would have achieved against the best choice in
hindsight and the best single network. FILE "-" is standard input.

--paper replays Table 5 of Atici and Boluk (2020) instead, whose manager's
column the policy "table" must yield, with their Table 7 and Figure 14.
--random plays random schedules of loads and faults through a simulation, or
those of families: losses, swinging capacities, flapping paths and others. Of a
pair with bulk and interactive flows (family mixed) each class has a row.

--ablate turns each mechanism of the policy cost-aware off in turn, on random
schedules of several families or on recorded evidence whose truth is known (one
FILE or more, as drills of schedules write them), and prints what it earns: the
points of the best in hindsight that are lost without it, with intervals; with
--share on of those by which flows share networks too.

Policies: static:NETWORK, table (the network that a table names at the load:
--table DIR takes a result of "pathwise bench", else the priors in FILE),
hysteresis (the usual rule, to compare with) and cost-aware (the default of the
agent); "all" is all of them, with every network as a static one.`,
		Example: `  pathwise replay --paper
  pathwise replay evidence.jsonl
  pathwise replay evidence.jsonl --policy static:vxlan -o csv
  pathwise replay evidence.jsonl --policy cost-aware --trace
  pathwise replay evidence.jsonl --policy table --table results/quick
  pathwise replay --random 200 --seed 7 --policy cost-aware
  pathwise replay --random 200 --bare
  pathwise replay --random 200 --family all --policy cost-aware
  pathwise replay --random 50 --family loss,flap --seed 7
  pathwise replay --ablate                         # a minute; 20 schedules a family
  pathwise replay --ablate --random 100 --seed 4000001 -o json
  pathwise replay --ablate --mechanism headroom,recovery --family bare --random 200
  pathwise replay --ablate results/schedules/evidence/*.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error { return f.checkArgs(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.ablate {
				return e.replayAblate(cmd.Context(), f, args)
			}
			return e.replay(cmd.Context(), f, args)
		},
	}
	f.define(cmd)
	return cmd
}

// define gives the command its flags.
func (f *replayFlags) define(cmd *cobra.Command) {
	formatFlag(cmd, &f.format, replayFormats()...)
	cmd.Flags().StringVar(&f.policy, "policy", "all", "static:NETWORK, table, hysteresis, cost-aware or all")
	cmd.Flags().StringVar(&f.table, "table", "", "result directory whose recommendations the policy table follows")
	cmd.Flags().StringVar(&f.share, "share", "off",
		"with --random or --ablate: on or off, whether the policy cost-aware lets bulk share several networks")
	cmd.Flags().BoolVar(&f.paper, "paper", false, "replay Table 5 of Atici and Boluk (2020)")
	cmd.Flags().BoolVar(&f.trace, "trace", false, "print each decision other than to stay")
	cmd.Flags().IntVar(&f.random, "random", 0, "simulate this many random schedules")
	cmd.Flags().BoolVar(&f.bare, "bare", false, "with --random: no table of rates, and probes as agents make them")
	cmd.Flags().StringVar(&f.need, "need", "throughput", "need of random schedules: throughput or latency")
	cmd.Flags().BoolVar(&f.ablate, "ablate", false, "print what each mechanism of the policy cost-aware earns")
	cmd.Flags().StringSliceVar(&f.mechanisms, "mechanism", nil, "with --ablate: these mechanisms alone")
	cmd.Flags().StringSliceVar(&f.families, "family", nil, "with --random or --ablate: schedules of these families")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of delays and random schedules")
	_ = cmd.RegisterFlagCompletionFunc("policy",
		cobra.FixedCompletions([]string{"all", "static:", "table", "hysteresis", "cost-aware"},
			cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("mechanism",
		completeNames(append(decide.Mechanisms(), decide.ShareMechanisms()...),
			func(m decide.Mechanism) string { return m.Name }))
	_ = cmd.RegisterFlagCompletionFunc("family",
		completeNames(decide.Families(), func(f decide.Family) string { return f.Name }))
	_ = cmd.RegisterFlagCompletionFunc("share", cobra.FixedCompletions(onOff(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("need", cobra.FixedCompletions([]string{"throughput", "latency"},
		cobra.ShellCompDirectiveNoFileComp))
}

// checkArgs finds mistakes in what is to be replayed.
func (f *replayFlags) checkArgs(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("random") && f.random < 1 {
		return usageError{fmt.Errorf("--random %d: expected 1 or more", f.random)}
	}
	if f.ablate {
		return nil
	}
	if len(args) > 1 || (len(args) == 1) == (f.paper || f.random > 0) || f.paper && f.random > 0 {
		return usageError{errors.New(`replay: expected one of FILE, --paper and --random N: see "pathwise replay --help"`)}
	}
	return nil
}

// replayFormats are those of replay, the default first.
func replayFormats() []string { return []string{report.Text, report.Wide, report.JSON, report.CSV} }

// check finds mistakes that no record is needed for.
func (f replayFlags) check() error {
	if err := checkFormat(f.format, replayFormats()...); err != nil {
		return err
	}
	if !f.ablate && len(f.mechanisms) > 0 {
		return usageError{errors.New("--mechanism: expected with --ablate")}
	}
	if !f.ablate && f.random <= 0 && len(f.families) > 0 {
		return usageError{errors.New("--family: expected with --random or --ablate")}
	}
	if err := checkShare(f.share); err != nil {
		return err
	}
	if f.bare && len(f.families) > 0 {
		return usageError{errors.New("--bare: expected without --family, which says what is promised")}
	}
	if f.trace && f.format != report.Text && f.format != report.Wide {
		return usageError{errors.New("--trace: expected with -o text")}
	}
	if f.bare && f.random <= 0 && !f.ablate {
		return usageError{errors.New("--bare: expected with --random")}
	}
	// A wrong name is a mistake in the command line, whatever the file holds.
	if _, err := decide.ParsePolicy(f.policy, decide.Table{}, f.seed); err != nil && f.policy != "all" {
		return usageError{fmt.Errorf("--policy: %w, or all", err)}
	}
	return nil
}

func (e env) replay(ctx context.Context, f replayFlags, args []string) error {
	switch {
	case f.random > 0:
		return e.replayRandom(ctx, f)
	case f.paper:
		return e.replayPaper(f)
	}
	rec, err := e.readRecording(args[0])
	if err != nil {
		return err
	}
	table := decide.TableOfPriors(rec)
	if f.table != "" {
		if table, err = readTable(f.table); err != nil {
			return err
		}
	}
	results, err := replayAll(f, rec, table)
	if err != nil {
		return err
	}
	if f.trace {
		writeTrace(e.stdout, results)
	}
	return writeReplay(e.stdout, f.format, rec.Header, results, e.listOptions(f.format))
}

func (e env) readRecording(path string) (decide.Recording, error) {
	in, name := e.stdin, "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return decide.Recording{}, fmt.Errorf("replay: %w", err)
		}
		defer file.Close()
		if st, err := file.Stat(); err == nil && st.IsDir() {
			return decide.Recording{}, usageError{fmt.Errorf(
				"replay: %s: expected a file of evidence, such as evidence/*.jsonl of a result of drills", path)}
		}
		in, name = file, path
	}
	rec, err := decide.ReadRecording(name, in)
	if err != nil {
		return rec, fmt.Errorf("replay: %w", err)
	}
	if rec.Truncated {
		fmt.Fprintf(e.stderr, "%s: the last line does not end and is left out\n", name)
	}
	if len(rec.Records) == 0 {
		return rec, fmt.Errorf("replay: %s: no records", name)
	}
	return rec, nil
}

// readTable takes the first scenario of a result.
func readTable(dir string) (decide.Table, error) {
	in, err := openResult(dir)
	if err != nil {
		return decide.Table{}, err
	}
	grids := rank.Table(in.Results.Trials, rank.Options{})
	if len(grids) == 0 {
		return decide.Table{}, fmt.Errorf("replay: %s recommends nothing", dir)
	}
	return decide.TableOf(grids[0]), nil
}

// replayAll replays the policies that the flag names.
func replayAll(f replayFlags, rec decide.Recording, table decide.Table) ([]decide.Result, error) {
	names := []string{f.policy}
	networks := recordedNetworks(rec)
	if f.policy == "all" {
		names = nil
		for _, n := range networks {
			names = append(names, "static:"+n)
		}
		names = append(names, "table", "hysteresis", "cost-aware")
	}
	var out []decide.Result
	for _, name := range names {
		policy, err := decide.ParsePolicy(name, table, f.seed)
		if err != nil {
			return nil, usageError{fmt.Errorf("--policy: %w, or all", err)}
		}
		if network, ok := strings.CutPrefix(name, "static:"); ok && !slices.Contains(networks, network) {
			return nil, usageError{fmt.Errorf("--policy %s: the record has %s", name, strings.Join(networks, ", "))}
		}
		out = append(out, decide.Replay(policy, rec))
	}
	return out, nil
}

func recordedNetworks(rec decide.Recording) (out []string) {
	for _, r := range rec.Records {
		for _, p := range r.Evidence.Paths {
			if !slices.Contains(out, p.Network) {
				out = append(out, p.Network)
			}
		}
	}
	slices.Sort(out)
	return out
}

// replayed is a result with its ratios, for JSON.
type replayed struct {
	decide.Result
	OfHindsight float64 `json:"of_hindsight"`
	OfStatic    float64 `json:"of_static"`
}

func writeReplay(w io.Writer, format string, h decide.Header, results []decide.Result, o report.Options) error {
	switch format {
	case "json":
		out := []replayed{}
		for _, r := range results {
			out = append(out, replayed{r, r.OfHindsight(), r.OfStatic()})
		}
		return writeJSON(w, out)
	case "csv":
		rows := [][]string{{"policy", "achieved", "hindsight", "static", "of_hindsight", "of_static", "switches", "failovers",
			"canaries", "false_switches", "epochs", "unknown"}}
		for _, r := range results {
			rows = append(rows, []string{r.Policy, number(r.Achieved), number(r.Hindsight), number(r.Static),
				number(r.OfHindsight()), number(r.OfStatic()),
				strconv.Itoa(r.Switches), strconv.Itoa(r.Failovers), strconv.Itoa(r.Canaries), strconv.Itoa(r.False),
				strconv.Itoa(r.Epochs), strconv.Itoa(r.Unknown)})
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	}
	return writeReplayText(w, h, results, o)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }

func writeReplayText(w io.Writer, h decide.Header, results []decide.Result, o report.Options) error {
	first := results[0]
	head := fmt.Sprintf("%s: %d pairs, %d epochs; amounts in %s x s\nbest in hindsight %.6g (switching for free %.6g), best static %s %.6g\n",
		h.Name, first.Pairs, first.Epochs, h.Unit, first.Hindsight, first.HindsightFree,
		strings.Join(first.StaticNetworks, ", "), first.Static)
	if err := report.Lines(w, head, o); err != nil {
		return err
	}
	l := report.NewList(report.Numbered("policy", "achieved", "regret", "of hindsight", "of best static", "switches",
		"failovers", "canaries", "false")...)
	unknown := 0
	for _, r := range results {
		l.Add(r.Policy, fmt.Sprintf("%.6g", r.Achieved), regret(r), part(r.OfHindsight()), part(r.OfStatic()),
			strconv.Itoa(r.Switches), strconv.Itoa(r.Failovers), strconv.Itoa(r.Canaries), strconv.Itoa(r.False))
		unknown = max(unknown, r.Unknown)
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	if unknown > 0 {
		return report.Lines(w, fmt.Sprintf(
			"\nup to %d epochs are left out: what the policy's path would have given there is not known", unknown), o)
	}
	return nil
}

// part is a share in percent.
func part(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

// regret is what hindsight would have added, 0 where it is rounding alone.
func regret(r decide.Result) string {
	v := r.Hindsight - r.Achieved
	if v < 1e-9*r.Hindsight {
		v = 0
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func writeTrace(w io.Writer, results []decide.Result) {
	for _, r := range results {
		last := ""
		for _, t := range r.Trace {
			line := fmt.Sprintf("%s %s %d/%d: %s", t.Decision.Kind, t.Decision.To, t.Decision.Buckets, decide.Buckets,
				t.Decision.Reason)
			if t.Decision.Kind != decide.Stay && line != last {
				fmt.Fprintf(w, "%9.1f s  %s  %s  %s\n", t.At.Round(time.Millisecond).Seconds(), r.Policy, t.Pair, line)
			}
			last = line
		}
	}
}
