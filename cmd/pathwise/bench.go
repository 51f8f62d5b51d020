package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/drill"
	"pathwise.dev/pathwise/internal/experiment"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
	"pathwise.dev/pathwise/internal/network/custom"
	"pathwise.dev/pathwise/internal/report"
	"pathwise.dev/pathwise/internal/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/workload"
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
	dry, resume bool
	// explain: look inside each trial's window.
	explain bool
	// kernel is where networks run that do not say.
	kernel string
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

Ctrl-C stops after cleaning up; the result keeps every finished trial and
--resume goes on from there. After a kill, "pathwise lab down --all" cleans up.

Shipped experiments: ` + strings.Join(experiments.Names(), ", ") + `.
"pathwise experiments" says what each is for.`,
		Example: `  pathwise bench
  pathwise bench --networks bridge,macvlan --workloads tcp-stream
  pathwise bench -f my.yaml --out results/mine --dry-run
  pathwise bench --networks 'cni:my.conflist?route=static,bridge' --workloads tcp-rr
  pathwise bench --networks ipvlan-l2,macvlan --kernel uml
  pathwise bench --networks bridge,vxlan,cni:my.conflist --family 4,6
  pathwise bench --explain --networks bridge,vxlan --workloads tcp-stream
  pathwise bench --resume --out results/mine`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.seeded, f.named = cmd.Flags().Changed("seed"), cmd.Flags().Changed("file")
			return runBench(cmd.Context(), e, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.experiment, "file", "f", "quick", "experiment: a file, or the name of a shipped one")
	fl.StringSliceVar(&f.networks, "networks", nil, "only these networks (cni:FILE for your own)")
	fl.StringSliceVar(&f.workloads, "workloads", nil, "only these workloads of the experiment")
	fl.StringSliceVar(&f.families, "family", nil, "IP families of the traffic, 4, 6 or both, in place of the experiment's; each is a question of its own")
	fl.StringVar(&f.server, "server", "", "server that workloads with a choice of one ask, such as mongod or mongodb://HOST:PORT")
	fl.StringSliceVar(&f.drills, "drills", nil, "only these drills, of a file of drills (see \"pathwise drill\")")
	fl.StringVar(&f.out, "out", "", "result directory (default results/NAME-TIME)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.BoolVar(&f.dry, "dry-run", false, "print the plan and the time it will take, and run nothing")
	fl.BoolVar(&f.resume, "resume", false, "go on with the unfinished run in --out")
	fl.IntVar(&f.repetitions, "repetitions", 0, "so many in place of the experiment's, as \"pathwise compare\" names them")
	fl.StringVar(&f.kernel, "kernel", kernelAuto, "kernel for all networks: "+strings.Join(kernelNames(), ", ")+" (a guest for what the host's lacks)")
	fl.BoolVar(&f.explain, "explain", false, "sample where the CPU time goes and count what limits traffic, for \"pathwise explain\" and the report")
	fl.StringVar(&f.inside, "inside", "", "do a guest's part of the run in --out, and tell it on standard output")
	_ = fl.MarkHidden("inside") // the flag has just been defined
	_ = cmd.RegisterFlagCompletionFunc("file", completeExperiments)
	_ = cmd.RegisterFlagCompletionFunc("drills", completeDrills)
	_ = cmd.RegisterFlagCompletionFunc("family", cobra.FixedCompletions([]string{"4", "6"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kernel", cobra.FixedCompletions(kernelNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("networks", cobra.FixedCompletions(catalogue.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("workloads", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, w := range e.workloads() {
			out = append(out, w.Info().Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func runBench(ctx context.Context, e env, f benchFlags) error {
	if f.inside != "" {
		return runInside(ctx, e, f)
	}
	if f.kernel != kernelAuto {
		if err := checkKernel(f.kernel); err != nil {
			return usageError{fmt.Errorf("--kernel: %w", err)}
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
	if f.resume {
		if len(f.networks) > 0 || len(f.workloads) > 0 || len(f.families) > 0 || f.server != "" || f.seeded || f.repetitions != 0 || f.kernel != kernelAuto {
			return usageError{errors.New("bench --resume: expected --out DIR alone: the result says what to run")}
		}
		f.experiment = filepath.Join(f.out, result.ExperimentFile)
	}
	exp, err := readExperiment(e, f)
	if err != nil {
		return err
	}
	b := newBenchRun(e, exp)
	b.explain = f.explain || f.resume && result.Explained(f.out)
	if err := b.plan(ctx, f); err != nil {
		return err
	}
	if f.dry {
		return errors.Join(b.printPlan(e.stdout, e.reportOptions()), b.uninstalled())
	}
	if err := b.ready(ctx); err != nil {
		return err
	}
	unlock, err := b.store().LockBench()
	if err != nil {
		return err
	}
	b.hint = "every finished trial is kept: go on with \"pathwise bench --resume --out %s\""
	dir, err := b.run(ctx, f)
	if err == nil {
		err = b.conclude(dir)
	}
	return errors.Join(err, unlock())
}

// benchRun is one invocation of bench.
type benchRun struct {
	env
	exp       experiment.Experiment
	networks  map[string]network.Network
	workloads map[string]workload.Workload
	// places knows the kernels, groups are the parts of the experiment by kernel,
	// and moved the networks for which a guest was chosen.
	places *kernels
	groups []group
	moved  []moved
	// order is that of the last trial, and clear takes the progress line away.
	order int
	clear func()
	// inside: this is the part of a run that a guest does.
	inside bool
	// hint tells, with the result's directory, how to go on with a run that ended early.
	hint string
	// lacks says which workloads are left out for want of what they need.
	lacks []sample.Warning
	// explain: look inside each trial's window.
	explain bool
}

func newBenchRun(e env, exp experiment.Experiment) *benchRun {
	return &benchRun{env: e, exp: exp, networks: map[string]network.Network{}, workloads: map[string]workload.Workload{}, places: e.kernels()}
}

// plan finds what the experiment names, and the kernels that it runs on. That a
// run goes on with is decided already.
func (b *benchRun) plan(ctx context.Context, f benchFlags) error {
	if err := b.find(); err != nil {
		return err
	}
	if !f.resume {
		if err := b.choose(ctx, f.kernel); err != nil {
			return err
		}
		b.baselines()
		b.leaveOut()
		b.exp.Claims = b.exp.Answerable()
	}
	if err := b.find(); err != nil { // the baseline too
		return err
	}
	if err := b.group(ctx); err != nil {
		return err
	}
	return experiment.Check(b.cells())
}

// find takes the experiment's networks and workloads from the catalogues.
func (b *benchRun) find() error {
	for _, n := range b.exp.Networks {
		net, err := catalogue.Find(n.Find)
		if err != nil {
			return err
		}
		b.networks[n.Name] = network.Named(net, n.Name)
	}
	for _, entry := range b.exp.Entries {
		w, err := b.served(entry)
		if err != nil {
			return err
		}
		b.workloads[entry.Workload] = w
	}
	return nil
}

// ready checks that everything the run needs is there, before anything is made.
func (b *benchRun) ready(ctx context.Context) error {
	if err := needBenchRoot(b.explain); err != nil {
		return err
	}
	for _, g := range b.groups {
		if err := b.readyOn(ctx, g); err != nil {
			return err
		}
	}
	for name, w := range b.workloads {
		if miss := b.places.host.Missing(w.Info().Needs); len(miss) > 0 {
			return missingError("workload "+name, miss)
		}
	}
	return nil
}

// run measures into the result directory that it returns.
func (b *benchRun) run(ctx context.Context, f benchFlags) (dir string, err error) {
	out, err := b.open(ctx, f)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(b.stderr, "experiment %s, seed %d, result in %s\n", b.exp.Name, out.Seed, out.Dir)
	for _, w := range slices.Concat(rootlessWarning(), b.kernelWarnings(), b.lacks) {
		fmt.Fprintln(b.stderr, w.Text)
	}
	p := newProgress(b.stderr, b.interactive(), b.now)
	footer, err := b.measure(ctx, out, p)
	p.clear()
	if err != nil {
		fmt.Fprintf(b.stderr, b.hint+"\n", out.Dir)
		return out.Dir, err
	}
	return out.Dir, out.Log.Footer(footer)
}

// open makes the result directory, or opens that of an unfinished run.
func (b *benchRun) open(ctx context.Context, f benchFlags) (*result.Run, error) {
	if f.resume {
		return result.Resume(f.out)
	}
	if f.out == "" {
		f.out = filepath.Join("results", b.exp.Name+"-"+b.now().Format("20060102-150405"))
	}
	if !f.seeded {
		f.seed = rand.Uint64N(1e6)
	}
	plan := result.Plan{Networks: map[string][]byte{}, Machine: machine.Read(ctx, lab.DefaultCNIPath(b.self))}
	for _, n := range b.exp.Networks {
		l, ok, err := network.ParseList(n.Find)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", n.Name, err)
		}
		if !ok {
			continue
		}
		raw, err := custom.Read(l.Path)
		if err != nil {
			return nil, err
		}
		plan.Networks[n.Name+".conflist"] = raw
	}
	exp, profiles, err := takeProfiles(b.exp)
	if err != nil {
		return nil, err
	}
	plan.Profiles = profiles
	var text bytes.Buffer
	if err := exp.Encode(&text, func(n experiment.Network) string {
		return filepath.Join(result.NetworksDir, n.Name+".conflist")
	}); err != nil {
		return nil, err
	}
	plan.Experiment = text.Bytes()
	plan.Header = sample.Header{Experiment: b.exp.Name, Seed: f.seed, Raced: b.exp.Repeat.Raced, Warnings: busy(plan.Machine.Load, plan.Machine.CPU.Online)}
	plan.Header.Warnings = slices.Concat(plan.Header.Warnings, rootlessWarning(), b.kernelWarnings(), b.lacks)
	for _, g := range b.groups {
		plan.Header.Planned += g.least()
	}
	return result.Create(f.out, plan)
}

// busy warns about a machine that does other work when the run starts.
func busy(load float64, online string) []sample.Warning {
	const much = 1.0
	if load < much {
		return nil
	}
	return []sample.Warning{{Gate: "busy", Text: fmt.Sprintf("the machine (CPUs %s) had a load average of %.1f when the run started", online, load)}}
}

// conclude writes the report and prints the ranking.
func (b *benchRun) conclude(dir string) error {
	in, path, err := writeReport(dir)
	if err != nil {
		return err
	}
	if err := report.Brief(b.stdout, in, report.Options{Width: b.width(), Color: b.color()}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.stdout, "\nreport: %s\n", path)
	return err
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
