package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// openTrials opens a result of trials.
func openTrials(dir string) (result.Result, error) {
	if holdsDrills(dir) {
		return result.Result{}, fmt.Errorf(
			"%s holds drills: expected a result of trials; \"pathwise report %s\" shows drills", dir, dir)
	}
	return result.Open(dir)
}

// openResult reads a result directory for a report.
func openResult(dir string) (report.Input, error) {
	r, err := openTrials(dir)
	if err != nil {
		return report.Input{}, err
	}
	in := report.Input{Name: r.Samples.Header.Experiment, Dir: dir, Results: r.Samples, Machine: r.Machine,
		Experiment: r.Experiment}
	in.Results.Header.Warnings = append(in.Results.Header.Warnings, rank.WarnDrift(r.Samples.Trials, rank.Options{})...)
	return withFindings(withClaims(in, r))
}

func (e env) reportOptions() report.Options {
	return report.Options{Width: e.width(), Color: e.color()}
}

func reportCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "report DIR", Short: "Show a result: rankings and figures with intervals, or drills",
		Long: `Show a result: of trials its rankings, figures with intervals and every trial; of
drills their figures next to the bars, and where there is one the demonstration's time line.
-o svg draws the ranking, or the time line, as one picture for a README or a paper.`,
		Example: `  pathwise report results/quick
  pathwise report results/quick -o html > quick.html
  pathwise report results/quick -o svg > ranking.svg
  pathwise report results/quick -o benchfmt | benchstat -`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, report.Formats()...); err != nil {
				return err
			}
			if holdsDrills(args[0]) {
				return showDrills(e, args[0], format)
			}
			in, err := openResult(args[0])
			if err != nil {
				return err
			}
			return report.Render(e.stdout, format, in, e.reportOptions())
		},
	}
	formatFlag(cmd, &format, report.Formats()...)
	return cmd
}

type recommendFlags struct {
	format, app, load, topology, family string
	robust, toCluster                   bool
	kube                                kubeFlag
}

func recommendCommand(e env) *cobra.Command {
	var f recommendFlags
	cmd := &cobra.Command{
		Use: "recommend DIR", Short: "Name the best network for an application, from a result",
		Long: `Name the best network for an application at its optimum or at high load, with
the probability that it is the best and what choosing it costs on average, in
percent of performance; and those that are practically equal, or that the data
cannot tell from it. The figures of a workload share its weight; one that tells
nothing has none, and the answer says why. With --robust jitter, retransmissions
and loss have half of the weight. The sum of z-scores of Atici and Boluk (2020)
is shown too. Applications of your own, with weights and bounds that a network
must keep, are written in the experiment (docs/reference/experiments.md). Without --app,
the whole table. With --to-cluster the agents of a Kubernetes cluster are told what a
result of "bench --kube" promises of each network, as their prior.`,
		Example: `  pathwise recommend results/quick
  pathwise recommend results/quick --app bulk --load high --robust
  pathwise recommend results/cluster --to-cluster`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.recommend(cmd, e, args[0])
		},
	}
	formatFlag(cmd, &f.format, report.TableFormats()...)
	cmd.Flags().StringVar(&f.app, "app", "", "application: "+strings.Join(applications(),
		", ")+", or one of the experiment's own")
	cmd.Flags().StringVar(&f.load, "load", "optimum", "optimum or high")
	cmd.Flags().StringVar(&f.topology, "topology", "", "one-host or two-hosts (default two-hosts where it was measured)")
	cmd.Flags().StringVar(&f.family, "family", "", "IP family, 4 or 6 (default 4 where it was measured)")
	cmd.Flags().BoolVar(&f.toCluster, "to-cluster", false, "tell the agents of a cluster what the result promises")
	f.kube.agentsFlags(cmd)
	cmd.Flags().BoolVar(&f.robust, "robust", false, "the application needs a robust network")
	_ = cmd.RegisterFlagCompletionFunc("app", cobra.FixedCompletions(applications(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("load", cobra.FixedCompletions([]string{"optimum", "high"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// recommend answers from the result in dir.
func (f *recommendFlags) recommend(cmd *cobra.Command, e env, dir string) error {
	if err := checkFormat(f.format, report.TableFormats()...); err != nil {
		return err
	}
	if f.toCluster {
		return tellCluster(cmd, e, f.kube, dir)
	}
	for _, name := range []string{"load", "topology", "family", "robust"} {
		if f.app == "" && cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("recommend: --%s needs --app: without it the whole table is shown", name)}
		}
	}
	in, err := openResult(dir)
	if err != nil {
		return err
	}
	o := rank.Options{Applications: in.Applications}
	if f.app == "" {
		return report.RecommendTable(e.stdout, f.format, rank.Table(in.Results.Trials, o), e.reportOptions())
	}
	need, err := f.need(in)
	if err != nil {
		return err
	}
	r, err := rank.Recommend(in.Results.Trials, need, o)
	if errors.Is(err, rank.ErrUnknownApplication) {
		return usageError{fmt.Errorf("recommend: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("recommend: %w", err)
	}
	return report.Recommend(e.stdout, f.format, []rank.Recommendation{r}, e.reportOptions())
}

func applications() []string {
	var out []string
	for _, a := range application.Shipped() {
		out = append(out, a.Name)
	}
	return out
}

// need turns flags into a need, in the simplest scenario of the result that
// has the topology and the IP family.
func (f *recommendFlags) need(in report.Input) (rank.Need, error) {
	need := rank.Need{App: f.app, Load: rank.LoadPoint(f.load), Robust: f.robust}
	if need.Load != rank.Optimum && need.Load != rank.High {
		return need, usageError{fmt.Errorf("--load %q: expected optimum or high", f.load)}
	}
	places := []topo.Placement{topo.TwoHosts, topo.OneHost}
	if f.topology != "" {
		p, err := topo.ParsePlacement(f.topology)
		if err != nil {
			return need, usageError{fmt.Errorf("--topology: %w", err)}
		}
		places = []topo.Placement{p}
	}
	speaks, err := topo.ParseFamily(cmp.Or(f.family, "4"))
	if err != nil {
		return need, usageError{fmt.Errorf("--family: %w", err)}
	}
	workloads := map[string]bool{}
	for _, a := range slices.Concat(application.Shipped(), in.Applications) {
		if a.Name == f.app {
			for _, part := range a.Parts {
				workloads[part.Workload] = true
			}
		}
	}
	for _, p := range places {
		var found *topo.Scenario
		for _, t := range in.Results.Trials {
			s := t.Scenario
			fits := t.Status == sample.OK && s.Placement == p && (workloads[t.Workload] || len(workloads) == 0) &&
				(s.Family == speaks || f.family == "")
			if fits && (found == nil || simpler(s, *found)) {
				found = &s
			}
		}
		if found != nil {
			need.Scenario = *found
			return need, nil
		}
	}
	need.Scenario = topo.Scenario{Placement: places[0], Pairs: 1, MTU: topo.DefaultMTU, Family: speaks}
	return need, nil
}

// simpler orders scenarios: the machine's own kernel first, nothing outside, IPv4, few
// pairs, a small MTU.
func simpler(a, b topo.Scenario) bool {
	return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.VM, b.VM), cmp.Compare(a.Outside, b.Outside),
		cmp.Compare(a.Cores, b.Cores),
		cmp.Compare(a.Rmem, b.Rmem), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Pairs, b.Pairs),
		cmp.Compare(a.MTU, b.MTU)) < 0
}
