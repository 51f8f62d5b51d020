package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// drillFlags is the command line of drill.
type drillFlags struct {
	// file is the name of the file of drills, and text what it has.
	file string
	text []byte
	// drills are those to run; all where there are none.
	drills      []string
	out         string
	seed        uint64
	seeded      bool
	dry, resume bool
}

func drillCommand(e env) *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill FILE",
		Short: "Run drills: switches, faults and kills under live traffic",
		Long: `Run drills: scripted series of switches, impairments and kills of agents under live
traffic, on pods of several networks. What the application felt is printed with its
interval and the bar that it is held to.

FILE is a file of drills (docs/reference/drills.md), or the name of a shipped one:
` + strings.Join(shippedDrills(), ", ") + ` (see "pathwise experiments").

Ctrl-C stops after cleaning up; the result keeps every finished repetition and
--resume goes on from there. "pathwise report" shows a result again, "pathwise
compare" sets two of them against each other.`,
		Example: `  pathwise drill steering --dry-run                  what runs, and how long it takes
  pathwise drill steering --drills switch,blackhole
  pathwise drill my.yaml --out results/mine
  pathwise drill --resume --out results/mine
  pathwise report results/mine`,
		Args: func(cmd *cobra.Command, args []string) error {
			f.seeded = cmd.Flags().Changed("seed")
			return f.args(args)
		},
		ValidArgsFunction: completeDrillFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return runDrill(cmd.Context(), e, f, args) },
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.drills, "drills", nil, "only these drills of the file")
	fl.StringVar(&f.out, "out", "", "result directory (default results/NAME-TIME)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: drawn, and recorded)")
	fl.BoolVar(&f.dry, "dry-run", false, "print the plan and the time it will take, and run nothing")
	fl.BoolVar(&f.resume, "resume", false, "go on with the unfinished run in --out")
	_ = cmd.RegisterFlagCompletionFunc("drills", completeDrills)
	return cmd
}

// args checks the arguments: a run that goes on has none.
func (f *drillFlags) args(args []string) error {
	switch {
	case f.resume && (len(args) > 0 || f.out == "" || f.seeded):
		return usageError{errors.New("drill --resume: expected --out DIR and no FILE: the result says what to run")}
	case !f.resume && len(args) != 1:
		return usageError{fmt.Errorf("drill: expected FILE, a file of drills or one of %s: see \"pathwise drill --help\"",
			strings.Join(shippedDrills(), ", "))}
	}
	return nil
}

// runDrill runs the file that the command line names, or goes on with a result.
func runDrill(ctx context.Context, e env, f drillFlags, args []string) (err error) {
	if f.file = filepath.Join(f.out, drill.ExperimentFile); !f.resume {
		f.file = args[0]
	} else if err := begun("drill", f.out, f.file); err != nil {
		return err
	}
	if f.text, err = readFile(f.file); err != nil {
		return err
	}
	switch {
	case !drill.IsFile(f.text) && f.resume:
		return usageError{fmt.Errorf("%s holds no drills: go on with it by \"pathwise bench --resume --out %s\"", f.out,
			f.out)}
	case !drill.IsFile(f.text):
		return usageError{fmt.Errorf("%s is no file of drills: run it by \"pathwise bench -f %s\"", f.file, f.file)}
	}
	return runDrills(ctx, e, f)
}

// asDrills is bench's command line for a file of drills, which has none of what trials need.
func (f benchFlags) asDrills() (drillFlags, error) {
	d := drillFlags{file: f.experiment, text: f.text, drills: f.drills, out: f.out, seed: f.seed, seeded: f.seeded,
		dry: f.dry, resume: f.resume}
	var err error
	switch {
	case f.kernel != campaign.Auto && f.kernel != guest.Host:
		err = errors.New("--kernel: drills run on the host's kernel")
	case f.repetitions != 0:
		err = errors.New("--repetitions: drills have their own: see the file's key repetitions")
	case f.duration != 0 || f.budget != 0:
		err = errors.New("bench: --duration and --budget are for trials: see the keys of a file of drills")
	case len(f.families) > 0:
		err = errors.New("--family: drills steer over IPv4: expected an experiment's file")
	case len(f.networks) > 0 || len(f.workloads) > 0:
		err = errors.New("bench: --networks and --workloads are for trials: a file of drills has --drills")
	case f.server != "" || f.explain:
		err = errors.New("bench: --server and --explain are for trials, and drills have none")
	default:
		return d, nil
	}
	return d, usageError{err}
}

// parseDrills reads a file of drills, whose networks are the catalogue's.
func parseDrills(file string, text []byte) (drill.File, error) {
	known := func(name string) error { _, err := catalogue.Find(name); return err }
	return drill.Parse(file, bytes.NewReader(text), known)
}

// runDrills runs a file of drills that has been read.
func runDrills(ctx context.Context, e env, f drillFlags) error {
	file, err := parseDrills(f.file, f.text)
	if err != nil {
		return err
	}
	if file, err = file.Only(f.drills); err != nil {
		return usageError{fmt.Errorf("--drills: %w", err)}
	}
	if f.dry {
		return printDrills(e.stdout, file, e.reportOptions())
	}
	if err := needMachineRoot("drills need", "to make namespaces and attach eBPF programs"); err != nil {
		return err
	}
	m := network.NewMachine(lab.DefaultCNIPath(e.self))
	for _, name := range file.Networks {
		n, err := catalogue.Find(name)
		if err != nil {
			return err
		}
		if miss := m.Missing(n.Info().Needs); len(miss) > 0 {
			return network.CannotRun("network "+name, miss)
		}
	}
	unlock, err := e.store().LockBench()
	if err != nil {
		return err
	}
	return errors.Join(drills(ctx, e, f, file), unlock())
}

func printDrills(w io.Writer, file drill.File, o report.Options) error {
	head := "drills " + file.Name + ": " + file.Description + "\nnetworks: " + strings.Join(file.Networks, " ") + "\n"
	if err := report.Lines(w, head, o); err != nil {
		return err
	}
	l := report.NewList(report.Named("DRILL", "REPETITIONS", "TIME", "WHAT")...)
	var sum time.Duration
	for _, e := range file.Drills {
		took := time.Duration(e.Repetitions) * drill.Estimate(file, e)
		sum += took
		l.Add(e.Name, strconv.Itoa(e.Repetitions), took.Round(time.Second).String(), drill.About(e.Drill))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nabout %v; nothing run (--dry-run)\n", sum.Round(time.Second))
	return err
}

// drills runs them into a result directory and prints their figures.
func drills(ctx context.Context, e env, f drillFlags, file drill.File) (err error) {
	if f.out == "" {
		f.out = e.newResult(file.Name)
	}
	var log *drill.Log
	if f.resume {
		log, err = drill.Resume(f.out)
	} else {
		if !f.seeded {
			f.seed = drawSeed()
		}
		m := machine.Read(ctx, lab.DefaultCNIPath(e.self))
		log, err = drill.Create(f.out, drill.Header{Name: file.Name, Seed: f.seed, Started: e.now(), Load: m.Load}, f.text, m)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Fprintf(e.stderr, "drills %s, seed %d, result in %s\n", file.Name, log.Seed, f.out)
	for _, w := range campaign.Busy(log.Load, "all") {
		fmt.Fprintf(e.stderr, "pathwise: %s\n", w.Text)
	}
	p := newProgress(e.stderr, e.interactive(), e.now)
	all := log.Done
	runErr := drill.Run(ctx, drill.Config{
		File: file, Seed: log.Seed, Out: f.out, Store: e.store(), Self: e.self, Find: catalogue.Find, Now: e.now,
		Done: log.Done,
		Lab:  lab.Options{CNIPath: lab.DefaultCNIPath(e.self)},
		Write: func(s []drill.Sample) error {
			all = append(all, s...)
			return log.Write(s)
		},
		Observe: p.observeDrill,
		Say:     func(line string) { p.Clear(); fmt.Fprintln(e.stdout, line) },
	})
	p.Clear()
	if runErr != nil {
		fmt.Fprintf(e.stderr, "every finished repetition is kept: go on with \"pathwise drill --resume --out %s\"\n", f.out)
	}
	return errors.Join(runErr, concludeDrills(e, f.out, file, all, log.Header, f.text))
}

func concludeDrills(e env, dir string, file drill.File, all []drill.Sample, head drill.Header, text []byte) error {
	figures, err := drill.Figures(file, all)
	if err != nil || len(figures) == 0 {
		return err
	}
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, drill.FiguresFile), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := drill.Table(e.stdout, figures); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(e.stdout, "result: %s\n", dir); err != nil {
		return err
	}
	return reportDrills(e, dir, head, text, figures)
}

// observeDrill shows a run of drills.
func (p *progress) observeDrill(d drill.Progress) {
	switch {
	case !d.Ended && p.interactive:
		fmt.Fprintf(p.w, "%s[%d/%d, %s left] %s #%d", clearLine, d.Done+1, d.Total, left(d.Left), d.Drill, d.Repetition)
	case d.Ended:
		failed := 0
		for _, s := range d.Samples {
			if s.Error != "" {
				failed++
				p.Clear()
				fmt.Fprintf(p.w, "%s #%d, %s: %s\n", d.Drill, d.Repetition, s.Variant, s.Error)
			}
		}
		if !p.interactive {
			fmt.Fprintf(p.w, "[%d/%d, %s left] %s #%d: %d variants, %d failed\n", d.Done, d.Total, left(d.Left), d.Drill,
				d.Repetition, len(d.Samples), failed)
		}
	}
}
