package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
)

type compareFlags struct {
	format, family, correction, change string
	check                              bool
	rank.CompareOptions
}

func compareCommand(e env) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use: "compare OLD NEW", Short: "Say what changed between two results, by significance tests",
		Long: `Say what changed from one result to another, what could have been seen, and what
it would take to see more.

What differs between the runs themselves is said first: windows, --explain, lists
and profiles of yours, kernel, version, machine. A network is judged by its ratio
to the host network of the same repetition, so that a machine that is slower today
is no change of a network; how unevenly the host's own figures moved widens
intervals and tests.

The rows of a question (a workload at a load in a scenario) are one family: the
chance of any false claim in it is at most 5 % (Holm). --family comparison makes
that hold for all rows together, --correction fdr bounds the share of false
claims among all claims (Benjamini and Hochberg). A selection makes families
smaller and so finds more: choose it before looking at the result.

It reads two results of trials, or two of drills. Drills are compared figure by
figure, by a permutation test of the values behind each, which are as they are and
not by a host network; the figures of a drill are one family, and bars that one
run alone met are named. --networks, --workloads, --metric and --change are for
trials.`,
		Example: `  pathwise compare results/before results/after
  pathwise compare results/before results/after --networks vxlan,bridge --metric throughput
  pathwise compare results/before results/after --change 5%      # what it takes to find that
  pathwise compare results/drills-before results/drills-after    # two runs of drills
  pathwise compare --check --family comparison results/before results/after && echo unchanged`,
		Args: exactArgs("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.compare(e, [2]string(args), cmd.Flags().Changed)
		},
	}
	formatFlag(cmd, &f.format, report.TableFormats()...)
	fl := cmd.Flags()
	fl.BoolVar(&f.check, "check", false,
		"exit with 1 when a difference is significant, a bar of a drill is met in one result alone, or nothing is in common")
	fl.StringSliceVar(&f.Selection.Networks, "networks", nil, "only these networks, and the host")
	fl.StringSliceVar(&f.Selection.Workloads, "workloads", nil, "only these workloads")
	fl.StringSliceVar(&f.Selection.Metrics, "metric", nil,
		"only these metrics, as CSV and JSON name them: throughput, latency_p99 ...")
	fl.StringVar(&f.family, "family", string(rank.PerQuestion), "rows that are tested together: question or comparison")
	fl.StringVar(&f.correction, "correction", string(rank.ByHolm), "what verdicts are drawn by: holm or fdr")
	fl.StringVar(&f.change, "change", "10%", "size of change for which the repetitions are counted")
	completeSelection(cmd)
	return cmd
}

// compare compares two results: of trials, or of drills.
func (f *compareFlags) compare(e env, dirs [2]string, given func(flag string) bool) error {
	if err := checkFormat(f.format, report.TableFormats()...); err != nil {
		return err
	}
	if err := readCompareFlags(&f.CompareOptions, f.family, f.correction, f.change); err != nil {
		return usageError{err}
	}
	if holdsDrills(dirs[0]) || holdsDrills(dirs[1]) {
		differ, compared, err := compareDrills(e, dirs, f.format, f.CompareOptions, given)
		if err == nil && f.check {
			err = checked(dirs, differ, compared)
		}
		return err
	}
	c, err := e.compareResults(dirs[0], dirs[1], f.CompareOptions)
	if err != nil {
		return err
	}
	if err := report.Compare(e.stdout, f.format, dirs[0], dirs[1], c, e.reportOptions()); err != nil {
		return err
	}
	if f.check {
		return checked(dirs, changed(c), c.Compared())
	}
	return nil
}

// checked is what --check answers: nothing compared is not "unchanged".
func checked(dirs [2]string, differ bool, compared int) error {
	switch {
	case differ:
		return silentError{errors.New("results differ")}
	case compared == 0:
		return fmt.Errorf("--check: %s and %s have no figure in common, so nothing is known to be unchanged",
			dirs[0], dirs[1])
	default:
		return nil
	}
}

// readCompareFlags reads the flags that are words or sizes.
func readCompareFlags(o *rank.CompareOptions, family, correction, change string) error {
	o.Family, o.Correction = rank.Family(family), rank.Correction(correction)
	if o.Family != rank.PerQuestion && o.Family != rank.PerComparison {
		return fmt.Errorf("--family %q: expected question or comparison", family)
	}
	if o.Correction != rank.ByHolm && o.Correction != rank.ByDiscovery {
		return fmt.Errorf("--correction %q: expected holm or fdr", correction)
	}
	number, isPercent := strings.CutSuffix(change, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !isPercent || !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("--change %q: expected a share above 0 such as 10%%", change)
	}
	o.Change = v / 100
	return nil
}

// compareResults compares the results in two directories.
func (e env) compareResults(dirA, dirB string, o rank.CompareOptions) (rank.Comparison, error) {
	a, err := openTrials(dirA)
	if err != nil {
		return rank.Comparison{}, err
	}
	b, err := openTrials(dirB)
	if err != nil {
		return rank.Comparison{}, err
	}
	e.warnRootless(a.Machine, b.Machine)
	trials := slices.Concat(a.Samples.Trials, b.Samples.Trials)
	if err := o.Selection.Check(rank.Choices(trials)); err != nil {
		return rank.Comparison{}, usageError{err}
	}
	o.Conditions = rank.Conditions(conditions(a), conditions(b))
	c := rank.Compare(a.Samples.Trials, b.Samples.Trials, o)
	if c.Compared() == 0 && o.Selection.Any() {
		return c, usageError{errors.New("nothing to compare: both results have no figure of a network, " +
			"next to the host's, that all of --networks, --workloads and --metric select")}
	}
	return c, nil
}

// completeSelection completes names from the results that the command line names so far.
func completeSelection(cmd *cobra.Command) {
	of := func(list func(rank.Selection) []string) cobra.CompletionFunc {
		return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var trials []sample.Trial
			for _, dir := range args {
				if r, err := result.Open(dir); err == nil {
					trials = append(trials, r.Samples.Trials...)
				}
			}
			before := typed[:strings.LastIndex(typed, ",")+1]
			var out []string
			for _, name := range list(rank.Choices(trials)) {
				out = append(out, before+name)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		}
	}
	// The flags have just been defined, so none of these can fail.
	_ = cmd.RegisterFlagCompletionFunc("networks", of(func(s rank.Selection) []string { return s.Networks }))
	_ = cmd.RegisterFlagCompletionFunc("workloads", of(func(s rank.Selection) []string { return s.Workloads }))
	_ = cmd.RegisterFlagCompletionFunc("metric", of(func(s rank.Selection) []string { return s.Metrics }))
	_ = cmd.RegisterFlagCompletionFunc("family",
		cobra.FixedCompletions([]string{string(rank.PerQuestion), string(rank.PerComparison)},
			cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("correction",
		cobra.FixedCompletions([]string{string(rank.ByHolm), string(rank.ByDiscovery)}, cobra.ShellCompDirectiveNoFileComp))
}

// conditions are what a run is to have in common with one that it is compared with.
func conditions(r result.Result) map[string]string {
	out := map[string]string{"--explain": strconv.FormatBool(result.Explained(r.Dir))}
	if r.Samples.Footer == nil {
		out["finished"] = "no"
	}
	if exp, err := stored(r); err == nil {
		for _, e := range exp.Entries {
			label := e.Workload
			if e.Profile != "" {
				label = experiment.Profiled + ":" + strings.TrimSuffix(filepath.Base(e.Profile), filepath.Ext(e.Profile))
				out["profile "+label] = fingerprint(e.Profile)
			}
			out["window of "+label] = fmt.Sprintf("%v after %v", e.Window.Duration, e.Window.Warmup)
		}
		for _, n := range exp.Networks {
			if l, ok, err := network.ParseList(n.Find); ok && err == nil {
				out["list of "+n.Name] = fingerprint(l.Path)
				out["route of "+n.Name] = cmp.Or(string(l.Route), "none")
			}
		}
	}
	kernels := map[string]bool{}
	for _, t := range r.Samples.Trials {
		kernels[t.Kernel] = t.Kernel != ""
	}
	maps.DeleteFunc(kernels, func(_ string, known bool) bool { return !known })
	out["kernel"] = strings.Join(slices.Sorted(maps.Keys(kernels)), ", ")
	flatten(out, "", r.Machine)
	return out
}

// fingerprint tells what a file of the user's holds from what another one does: where a
// result keeps it says nothing of it.
func fingerprint(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "cannot be read"
	}
	return fmt.Sprintf("SHA-256 %.6x", sha256.Sum256(raw))
}

// flatten adds the machine's record, name by name, without what changes by itself.
func flatten(out map[string]string, prefix string, record map[string]any) {
	for name, v := range record {
		switch name {
		case "recorded", "load_average", "interfaces", "mhz", "release":
			continue // release is the kernel of the trials
		}
		switch v := v.(type) {
		case map[string]any:
			flatten(out, prefix+strings.ReplaceAll(name, "_", " ")+" ", v)
		case string:
			out[prefix+strings.ReplaceAll(name, "_", " ")] = v
		case bool, float64:
			out[prefix+strings.ReplaceAll(name, "_", " ")] = fmt.Sprint(v)
		}
	}
}

func changed(c rank.Comparison) bool {
	for _, ch := range c.Changes {
		if ch.Significant {
			return true
		}
	}
	return len(c.Statuses) > 0
}
