package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/drill"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/catalogue"
	"pathwise.dev/pathwise/internal/report"
)

// runDrills is bench for a file of drills.
func runDrills(ctx context.Context, e env, f benchFlags) error {
	if f.repetitions != 0 {
		return usageError{errors.New("--repetitions: drills have their own: see the file's key repetitions")}
	}
	if len(f.families) > 0 {
		return usageError{errors.New("--family: drills steer over IPv4: expected an experiment's file")}
	}
	if len(f.networks) > 0 || len(f.workloads) > 0 {
		return usageError{errors.New("bench: --networks and --workloads are for trials: a file of drills has --drills")}
	}
	file, err := drill.Parse(f.experiment, bytes.NewReader(f.text), func(name string) error { _, err := catalogue.Find(name); return err })
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
			return missingError("network "+name, miss)
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
func drills(ctx context.Context, e env, f benchFlags, file drill.File) (err error) {
	if f.out == "" {
		f.out = filepath.Join("results", file.Name+"-"+e.now().Format("20060102-150405"))
	}
	var log *drill.Log
	if f.resume {
		log, err = drill.Resume(f.out)
	} else {
		if !f.seeded {
			f.seed = rand.Uint64N(1e6)
		}
		m := machine.Read(ctx, lab.DefaultCNIPath(e.self))
		log, err = drill.Create(f.out, drill.Header{Name: file.Name, Seed: f.seed, Started: e.now(), Load: m.Load}, f.text, m)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Fprintf(e.stderr, "drills %s, seed %d, result in %s\n", file.Name, log.Seed, f.out)
	for _, w := range busy(log.Load, "all") {
		fmt.Fprintf(e.stderr, "pathwise: %s\n", w.Text)
	}
	p := newProgress(e.stderr, e.interactive(), e.now)
	all := log.Done
	runErr := drill.Run(ctx, drill.Config{
		File: file, Seed: log.Seed, Out: f.out, Store: e.store(), Self: e.self, Find: catalogue.Find, Now: e.now, Done: log.Done,
		Lab: lab.Options{CNIPath: lab.DefaultCNIPath(e.self)},
		Write: func(s []drill.Sample) error {
			all = append(all, s...)
			return log.Write(s)
		},
		Observe: p.observeDrill,
		Say:     func(line string) { p.clear(); fmt.Fprintln(e.stdout, line) },
	})
	p.clear()
	if runErr != nil {
		fmt.Fprintf(e.stderr, "every finished repetition is kept: go on with \"pathwise bench --resume --out %s\"\n", f.out)
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
				p.clear()
				fmt.Fprintf(p.w, "%s #%d, %s: %s\n", d.Drill, d.Repetition, s.Variant, s.Error)
			}
		}
		if !p.interactive {
			fmt.Fprintf(p.w, "[%d/%d, %s left] %s #%d: %d variants, %d failed\n", d.Done, d.Total, left(d.Left), d.Drill, d.Repetition, len(d.Samples), failed)
		}
	}
}
