package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/bench"
	"pathwise.dev/pathwise/internal/experiment"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
	"pathwise.dev/pathwise/internal/report"
	"pathwise.dev/pathwise/internal/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/workload"
)

// benchFlags is the command line of bench.
type benchFlags struct {
	experiment          string
	networks, workloads []string
	drills              []string
	out                 string
	seed                uint64
	seeded              bool
	dry, resume         bool
}

func benchCommand(e env) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Run an experiment: build each network afresh, load it, rank",
		Long: `Run an experiment: every trial builds its network afresh, in random order, and
every figure comes with an interval. The host network runs in each repetition
as the baseline.

Ctrl-C stops after cleaning up; the result keeps every finished trial and
--resume goes on from there. After a kill, "pathwise lab down --all" cleans up.

Shipped experiments: ` + strings.Join(experiments.Names(), ", ") + `.`,
		Example: `  pathwise bench
  pathwise bench --networks bridge,macvlan --workloads tcp-stream
  pathwise bench -f my.yaml --out results/mine --dry-run
  pathwise bench --resume --out results/mine`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.seeded = cmd.Flags().Changed("seed")
			return runBench(cmd.Context(), e, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.experiment, "file", "f", "quick", "experiment: a file, or the name of a shipped one")
	fl.StringSliceVar(&f.networks, "networks", nil, "only these networks (cni:FILE for your own)")
	fl.StringSliceVar(&f.workloads, "workloads", nil, "only these workloads of the experiment")
	fl.StringSliceVar(&f.drills, "drills", nil, "only these drills, of a file of drills such as steering")
	fl.StringVar(&f.out, "out", "", "result directory (default results/NAME-TIME)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.BoolVar(&f.dry, "dry-run", false, "print the plan and the time it will take, and run nothing")
	fl.BoolVar(&f.resume, "resume", false, "go on with the unfinished run in --out")
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
	if text, ok := isDrills(f); ok {
		return runDrills(ctx, e, f, text)
	}
	if len(f.drills) > 0 {
		return usageError{fmt.Errorf("--drills: %s is no file of drills: expected one such as steering", f.experiment)}
	}
	if f.resume {
		if f.out == "" || len(f.networks) > 0 || len(f.workloads) > 0 || f.seeded {
			return usageError{errors.New("bench --resume: expected --out DIR alone: the result says what to run")}
		}
		f.experiment = filepath.Join(f.out, result.ExperimentFile)
	}
	exp, err := readExperiment(e, f)
	if err != nil {
		return err
	}
	b := &benchRun{env: e, exp: exp, networks: map[string]network.Network{}, workloads: map[string]workload.Workload{}}
	if err := b.find(); err != nil {
		return err
	}
	if f.dry {
		return b.printPlan(e.stdout)
	}
	if err := b.ready(); err != nil {
		return err
	}
	unlock, err := b.store().LockBench()
	if err != nil {
		return err
	}
	return errors.Join(b.run(ctx, f), unlock())
}

// readExperiment reads the experiment that the flags name.
func readExperiment(e env, f benchFlags) (experiment.Experiment, error) {
	file, err := openExperiment(f.experiment)
	if err != nil {
		return experiment.Experiment{}, err
	}
	defer file.Close()
	exp, err := experiment.Parse(f.experiment, file, experiment.Catalogue{
		Network: func(name string) error { _, err := catalogue.Find(name); return err },
		Workload: func(name string) (workload.Info, error) {
			w, err := e.workload(name)
			if err != nil {
				return workload.Info{}, err
			}
			return w.Info(), nil
		},
	})
	if err != nil {
		return exp, err
	}
	for _, name := range f.networks {
		if _, err := catalogue.Find(name); err != nil {
			return exp, usageError{fmt.Errorf("--networks: %w", err)}
		}
	}
	for _, name := range f.workloads {
		if _, err := e.workload(name); err != nil {
			return exp, usageError{fmt.Errorf("--workloads: %w", err)}
		}
	}
	if exp, err = exp.Only(f.networks, f.workloads); err != nil {
		return exp, usageError{fmt.Errorf("--workloads: %w", err)}
	}
	return exp, nil
}

// openExperiment opens a file, or a shipped experiment of that name.
func openExperiment(name string) (fs.File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "/.") {
		return experiments.Open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("open experiment: %w", err)
	}
	return f, nil
}

// benchRun is one invocation of bench.
type benchRun struct {
	env
	exp       experiment.Experiment
	networks  map[string]network.Network
	workloads map[string]workload.Workload
}

// find takes the experiment's networks and workloads from the catalogues, and
// adds the baseline, which every repetition needs.
func (b *benchRun) find() error {
	base := catalogue.Baseline()
	has := false
	for _, n := range b.exp.Networks {
		has = has || n.Name == base
	}
	if !has {
		b.exp.Networks = append([]experiment.Network{{Name: base, Find: base}}, b.exp.Networks...)
	}
	for _, n := range b.exp.Networks {
		net, err := catalogue.Find(n.Find)
		if err != nil {
			return err
		}
		b.networks[n.Name] = network.Named(net, n.Name)
	}
	for _, entry := range b.exp.Entries {
		w, err := b.workload(entry.Workload)
		if err != nil {
			return err
		}
		b.workloads[entry.Workload] = w
	}
	return experiment.Check(b.cells())
}

func (b *benchRun) cells() []experiment.Planned {
	infos := map[string]network.Info{}
	for name, n := range b.networks {
		infos[name] = n.Info()
	}
	return b.exp.Cells(infos)
}

// ready checks that everything the run needs is there, before anything is made.
func (b *benchRun) ready() error {
	if os.Geteuid() != 0 {
		return errors.New("bench needs root to build networks: run as root, for example with sudo")
	}
	m := network.NewMachine(lab.DefaultCNIPath(b.self))
	for _, n := range b.exp.Networks {
		if miss := m.Missing(b.networks[n.Name].Info().Needs); len(miss) > 0 {
			return missingError("network "+n.Name, miss)
		}
	}
	for name, w := range b.workloads {
		if miss := m.Missing(w.Info().Needs); len(miss) > 0 {
			return missingError("workload "+name, miss)
		}
	}
	return nil
}

func (b *benchRun) printPlan(w io.Writer) error {
	cells := b.cells()
	fmt.Fprintf(w, "experiment %s: %s\n\n", b.exp.Name, b.exp.Description)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "WORKLOAD\tSCENARIO\tLOAD\tNETWORKS\t")
	var order []sample.Question
	nets := map[sample.Question][]string{}
	left := map[sample.Question][]string{}
	var total time.Duration
	runnable := 0
	for _, c := range cells {
		q := c.Question()
		if _, ok := nets[q]; !ok {
			order = append(order, q)
			nets[q] = nil
		}
		if c.Unsupported != "" {
			left[q] = append(left[q], c.Network)
			continue
		}
		nets[q] = append(nets[q], c.Network)
		runnable++
		total += bench.Estimate(c)
	}
	for _, q := range order {
		fmt.Fprintf(tw, "%s\t%v\t%v\t%s\t\n", q.Workload, q.Scenario, q.Load, strings.Join(nets[q], " "))
		if len(left[q]) > 0 {
			fmt.Fprintf(tw, "\t\t\t(not: %s)\t\n", strings.Join(left[q], " "))
		}
	}
	if err := flush(tw); err != nil {
		return err
	}
	r := b.exp.Repeat
	fmt.Fprintf(w, "\n%d cells, %d to %d repetitions of each (until the 95 %% interval is within ±%g %%)\n", runnable, r.Min, r.Max, r.Width*100)
	least := (total * time.Duration(r.Min)).Round(time.Second)
	most := (total * time.Duration(r.Max)).Round(time.Second)
	if b.exp.Budget > 0 {
		most = max(least, min(most, b.exp.Budget))
	}
	_, err := fmt.Fprintf(w, "%d trials and about %v at least, about %v at most; nothing run (--dry-run)\n", runnable*r.Min, least, most)
	return err
}

// run measures, then reports.
func (b *benchRun) run(ctx context.Context, f benchFlags) (err error) {
	out, err := b.open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(b.stderr, "experiment %s, seed %d, result in %s\n", b.exp.Name, out.Seed, out.Dir)
	p := newProgress(b.stderr, b.interactive(), b.now)
	footer, err := bench.Run(ctx, bench.Config{
		Experiment: b.exp, Networks: b.networks, Workloads: b.workloads, Seed: out.Seed, Store: b.store(),
		Lab: lab.Options{CNIPath: lab.DefaultCNIPath(b.self), Owned: true, Self: b.self},
		Log: out.Log, Done: out.Done, Observe: p.observe, Now: b.now,
	})
	p.clear()
	if err != nil {
		hint := fmt.Sprintf("every finished trial is kept: go on with \"pathwise bench --resume --out %s\"", out.Dir)
		fmt.Fprintln(b.stderr, hint)
		return err
	}
	if err := out.Log.Footer(footer); err != nil {
		return err
	}
	return b.conclude(out.Dir)
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
		path, ok := strings.CutPrefix(n.Find, "cni:")
		if !ok {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read CNI configuration list: %w", err)
		}
		plan.Networks[n.Name+".conflist"] = raw
	}
	var text bytes.Buffer
	if err := b.exp.Encode(&text, func(n experiment.Network) string {
		return filepath.Join(result.NetworksDir, n.Name+".conflist")
	}); err != nil {
		return nil, err
	}
	plan.Experiment = text.Bytes()
	plan.Header = sample.Header{Experiment: b.exp.Name, Seed: f.seed, Warnings: busy(plan.Machine.Load, plan.Machine.CPU.Online)}
	for _, c := range b.cells() {
		if c.Unsupported == "" {
			plan.Header.Planned += b.exp.Repeat.Min
		} else {
			plan.Header.Planned++
		}
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
	in, err := openResult(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, result.ReportFile)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create report: %w", err)
	}
	if err := errors.Join(report.Render(f, report.HTML, in, report.Options{}), f.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := report.Brief(b.stdout, in, report.Options{Width: b.width(), Color: b.color()}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.stdout, "\nreport: %s\n", path)
	return err
}
