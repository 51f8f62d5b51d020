package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// benchFlags is the command line of bench.
type benchFlags struct {
	experiment string
	// named: the user has named it. text is what the file has, where it has been read.
	named               bool
	text                []byte
	networks, workloads []string
	server              string
	drills              []string
	// families replace those of the experiment's scenarios.
	families    []string
	out         string
	seed        uint64
	seeded      bool
	repetitions int
	// duration and budget replace those of the experiment; 0 for its own.
	duration, budget time.Duration
	dry, resume      bool
	// explain: look inside each trial's window.
	explain bool
	// kernel is where networks run that do not say.
	kernel string
	kube   benchKube
	// inside is the guest's name in results, where this is the part of a run
	// that a guest does.
	inside string
}

func benchCommand(e env) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Run an experiment: build networks, load them, rank them",
		Long: `Run an experiment: every repetition builds its networks afresh, in random order, and
every figure comes with an interval. The host network runs in each repetition
as the baseline.

Networks that the host's kernel cannot build run on a guest kernel, with a
baseline of their own there, and the result says so (see "pathwise guest").

A file of drills is run as "pathwise drill" runs it.

With --kube it measures the networks of a Kubernetes cluster as they are, between two of
its nodes: pods are made for every repetition, on the default network, on that of a
NetworkAttachmentDefinition (NAMESPACE/NAME), or on the nodes' own (host).

Ctrl-C stops after cleaning up; the result keeps every finished trial and
--resume goes on from there. After a kill, "pathwise lab down --all" cleans up.

Shipped experiments: ` + strings.Join(experiments.Names(), ", ") + `.
"pathwise experiments" says what each is for.`,
		Example: `  pathwise bench
  pathwise bench --networks bridge,macvlan --workloads tcp-stream
  pathwise bench --workloads tcp-rr --duration 1s --budget 2m
  pathwise bench -f my.yaml --out results/mine --dry-run
  pathwise bench --networks 'cni:my.conflist?route=static,bridge' --workloads tcp-rr
  pathwise bench --networks ipvlan-l2,macvlan --kernel uml
  pathwise bench --networks bridge,vxlan,cni:my.conflist --family 4,6
  pathwise bench --explain --networks bridge,vxlan --workloads tcp-stream
  pathwise bench --resume --out results/mine
  pathwise bench --kube --nodes n1,n2 --networks default,shop/fast,host`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.given(cmd.Flags().Changed); err != nil {
				return err
			}
			return runBench(cmd.Context(), e, f)
		},
	}
	f.define(cmd, e)
	return cmd
}

// define gives the command its flags.
func (f *benchFlags) define(cmd *cobra.Command, e env) {
	fl := cmd.Flags()
	f.kube.flags(cmd)
	fl.StringVarP(&f.experiment, "file", "f", "quick", "experiment: a file, or the name of a shipped one")
	fl.StringSliceVar(&f.networks, "networks", nil, "only these networks (cni:FILE for your own)")
	fl.StringSliceVar(&f.workloads, "workloads", nil, "only these workloads of the experiment")
	fl.StringSliceVar(&f.families, "family", nil,
		"IP families of the traffic, 4, 6 or both, in place of the experiment's; each is a question of its own")
	fl.StringVar(&f.server, "server", "",
		"server that workloads with a choice of one ask, such as mongod or mongodb://HOST:PORT")
	fl.StringSliceVar(&f.drills, "drills", nil, "only these drills, of a file of drills (see \"pathwise drill\")")
	fl.StringVar(&f.out, "out", "", "result directory (default results/NAME-TIME)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.BoolVar(&f.dry, "dry-run", false, "print the plan and the time it will take, and run nothing")
	fl.BoolVar(&f.resume, "resume", false, "go on with the unfinished run in --out")
	fl.IntVar(&f.repetitions, "repetitions", 0, "so many in place of the experiment's, as \"pathwise compare\" names them")
	fl.DurationVar(&f.duration, "duration", 0, "time that each trial measures, in place of the experiment's")
	fl.DurationVar(&f.budget, "budget", 0,
		"time that the run may take, in place of the experiment's; the least repetitions are done all the same")
	fl.StringVar(&f.kernel, "kernel", campaign.Auto, "kernel for all networks: "+strings.Join(kernelNames(),
		", ")+" (a guest for what the host's lacks)")
	fl.BoolVar(&f.explain, "explain", false,
		"sample where the CPU time goes and count what limits traffic, for \"pathwise explain\" and the report")
	fl.StringVar(&f.inside, "inside", "", "do a guest's part of the run in --out, and tell it on standard output")
	_ = fl.MarkHidden("inside") // the flag has just been defined
	_ = cmd.RegisterFlagCompletionFunc("file", completeExperiments)
	_ = cmd.RegisterFlagCompletionFunc("drills", completeDrills)
	_ = cmd.RegisterFlagCompletionFunc("family", cobra.FixedCompletions([]string{"4", "6"},
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kernel", cobra.FixedCompletions(kernelNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("networks", cobra.FixedCompletions(catalogue.Names(),
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("workloads", func(*cobra.Command, []string, string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, w := range e.workloads() {
			out = append(out, w.Info().Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
}

// given notes which flags the user has given, and finds those with nothing.
func (f *benchFlags) given(changed func(flag string) bool) error {
	f.seeded, f.named = changed("seed"), changed("file")
	if changed("repetitions") && f.repetitions == 0 {
		return usageError{fmt.Errorf("--repetitions 0: expected 1 to %d", experiment.MostRepetitions)}
	}
	for flag, d := range map[string]time.Duration{"duration": f.duration, "budget": f.budget} {
		if changed(flag) && d == 0 {
			return usageError{fmt.Errorf("--%s 0s: expected a time such as 2s or 10m", flag)}
		}
	}
	return nil
}

func runBench(ctx context.Context, e env, f benchFlags) error {
	if f.inside != "" {
		return runInside(ctx, e, f)
	}
	if err := f.kube.check(f); err != nil {
		return usageError{err}
	}
	if f.kube.on {
		return runKubeBench(ctx, e, f)
	}
	if f.kernel != campaign.Auto {
		if err := checkKernel(f.kernel); err != nil {
			return usageError{fmt.Errorf("--kernel: %w, or auto", err)}
		}
	}
	if f.resume && f.named {
		return usageError{errors.New("bench --resume: expected no --file: the result holds what is run, and goes on with that")}
	}
	if err := f.read(); err != nil {
		return err
	}
	if drill.IsFile(f.text) {
		d, err := f.asDrills()
		if err != nil {
			return err
		}
		return runDrills(ctx, e, d)
	}
	if len(f.drills) > 0 {
		return usageError{fmt.Errorf("--drills: %s is no file of drills: expected one such as steering", f.experiment)}
	}
	if err := f.goOn(); err != nil {
		return err
	}
	exp, err := readExperiment(e, f)
	if err != nil {
		return err
	}
	explain := f.explain || f.resume && result.Explained(f.out)
	c := e.campaign(exp, explain)
	if err := f.plan(ctx, c); err != nil {
		return err
	}
	if f.dry {
		return errors.Join(printCampaign(e.stdout, c, e.reportOptions()), c.Uninstalled())
	}
	if err := e.ready(ctx, c, explain); err != nil {
		return err
	}
	unlock, err := e.store().LockBench()
	if err != nil {
		return err
	}
	dir, err := e.measure(ctx, c, f, "every finished trial is kept: go on with \"pathwise bench --resume --out %s\"")
	if err == nil {
		err = e.conclude(dir)
	}
	return errors.Join(err, unlock())
}

// goOn takes the experiment of a result that is to be gone on with.
func (f *benchFlags) goOn() error {
	switch {
	case !f.resume:
		return nil
	case len(f.networks) > 0, len(f.workloads) > 0, len(f.families) > 0, f.server != "", f.seeded, f.repetitions != 0,
		f.duration != 0, f.budget != 0, f.kernel != campaign.Auto:
		return usageError{errors.New("bench --resume: expected --out DIR alone: the result says what to run")}
	}
	f.experiment = filepath.Join(f.out, result.ExperimentFile)
	return nil
}

// campaign carries the experiment out on this machine.
func (e env) campaign(exp experiment.Experiment, explain bool) *campaign.Campaign {
	return campaign.New(campaign.Config{
		Self: e.self, Store: e.store(), Now: e.now, Log: e.stderr,
		Kernels: e.kernels(), Workload: e.workload, VM: e.vmConfig,
		Command: func(label, dir string) []string { return insideCommand(label, dir, explain) },
		Explain: explain, Getenv: e.getenv,
	}, exp)
}

// insideCommand are the arguments by which a guest's pathwise does its part of a run.
func insideCommand(label, dir string, explain bool) []string {
	out := []string{"bench", "--inside", label, "--out", dir}
	if explain {
		out = append(out, "--explain")
	}
	return out
}

// runInside does a guest's part of a run.
func runInside(ctx context.Context, e env, f benchFlags) error {
	f.experiment = filepath.Join(f.out, result.ExperimentFile)
	exp, err := readExperiment(e, f)
	if err != nil {
		return err
	}
	return e.campaign(exp, f.explain).Inside(ctx, f.inside, f.out, e.stdout)
}

// plan plans a new run, or one that goes on.
func (f benchFlags) plan(ctx context.Context, c *campaign.Campaign) error {
	if f.resume {
		return c.Continue(ctx)
	}
	return c.Plan(ctx, f.kernel)
}

// ready checks that this process may run the campaign, and that all that it needs is there.
func (e env) ready(ctx context.Context, c *campaign.Campaign, explain bool) error {
	if err := needBenchRoot(explain); err != nil {
		return err
	}
	return c.Ready(ctx)
}

// measure carries the campaign out with its progress on standard error. hint tells, with
// the result's directory, how to go on where it ends early.
func (e env) measure(ctx context.Context, c *campaign.Campaign, f benchFlags, hint string) (string, error) {
	if f.out == "" {
		f.out = e.newResult(c.Experiment().Name)
	}
	if !f.seeded {
		f.seed = drawSeed()
	}
	t := campaign.Target{Dir: f.out, Resume: f.resume, Seed: f.seed}
	dir, err := c.Measure(ctx, t, newProgress(e.stderr, e.interactive(), e.now))
	if err != nil && dir != "" {
		fmt.Fprintf(e.stderr, hint+"\n", dir)
	}
	return dir, err
}

// newResult is where a result goes that was not told where.
func (e env) newResult(name string) string {
	return filepath.Join("results", name+"-"+e.now().Format("20060102-150405"))
}

// drawSeed draws a seed that can be typed again.
func drawSeed() uint64 { return rand.Uint64N(1e6) }

// conclude writes the report and prints the ranking. It returns an error where a network was
// asked for and not one of its trials succeeded.
func (e env) conclude(dir string) error {
	in, path, err := writeReport(dir)
	if err != nil {
		return err
	}
	if err := report.Brief(e.stdout, in, e.reportOptions()); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(e.stdout, "\nreport: %s\n", path); err != nil {
		return err
	}
	var errs []error
	for _, t := range in.Results.Unmeasured() {
		errs = append(errs, fmt.Errorf("measure %s: no trial succeeded: the first %s: %s", t.Network, t.Status, t.Reason))
	}
	return errors.Join(errs...)
}

// writeReport writes the HTML report of a result into its directory.
func writeReport(dir string) (in report.Input, path string, err error) {
	if in, err = openResult(dir); err != nil {
		return in, "", err
	}
	path = filepath.Join(dir, result.ReportFile)
	f, err := os.Create(path)
	if err != nil {
		return in, "", fmt.Errorf("create report: %w", err)
	}
	if err := errors.Join(report.Render(f, report.HTML, in, report.Options{}), f.Close()); err != nil {
		return in, "", fmt.Errorf("write report: %w", err)
	}
	return in, path, nil
}
