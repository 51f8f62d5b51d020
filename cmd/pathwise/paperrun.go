package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
)

// paperFlags is the command line of "paper run".
type paperFlags struct {
	quick, dry bool
	out        string
	seed       uint64
	seeded     bool
}

func paperRunCommand(e env) *cobra.Command {
	var f paperFlags
	cmd := &cobra.Command{
		Use: "run NAME...", Short: "Repeat the study of a document, or of all",
		Long: `Repeat the study of a document: its networks, workloads and loads, every trial
on a network built afresh. With --quick a variant of minutes, with shorter
windows, fewer loads, and a build shared by what a repetition asks of a network.

A run that was interrupted goes on where it was when the same command is given
again: finished trials are not repeated, and finished documents are left alone.
Each document has its report, and index.html leads to them.`,
		Example: `  pathwise paper run --quick all --dry-run   how long it takes
  pathwise paper run --quick all
  pathwise paper run claassen                as its author did, hours`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("paper run: expected NAME or all: see \"pathwise paper list\"")}
			}
			return nil
		},
		ValidArgsFunction: completePapers,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.seeded = cmd.Flags().Changed("seed")
			return runPapers(cmd.Context(), e, args, f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "the variants of minutes")
	fl.BoolVar(&f.dry, "dry-run", false, "print what would run and the time it will take, and run nothing")
	fl.StringVar(&f.out, "out", "", "directory of the results (default results/papers, or results/papers-quick)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: drawn, and recorded)")
	return cmd
}

// paperRun is the study of one document in a run.
type paperRun struct {
	name string
	dir  string
	// document is the experiment as its file says it now.
	document experiment.Experiment
	// finished: there is nothing left to do.
	finished bool
	*campaign.Campaign
	flags benchFlags
}

func runPapers(ctx context.Context, e env, names []string, f paperFlags) error {
	exps, err := e.readPapers(names)
	if err != nil {
		return err
	}
	if !f.dry { // without root all networks would be skipped as missing
		if err := needBenchRoot(false); err != nil {
			return err
		}
	}
	var runs []paperRun
	for _, exp := range exps {
		r, err := e.newPaperRun(ctx, exp, f)
		if err != nil {
			return fmt.Errorf("paper %s: %w", exp.Name, err)
		}
		runs = append(runs, r)
	}
	if f.dry {
		return printPapers(e.stdout, runs, e.reportOptions())
	}
	for _, r := range runs {
		if r.finished {
			continue
		}
		if err := e.ready(ctx, r.Campaign, false); err != nil {
			return fmt.Errorf("paper %s: %w", r.name, err)
		}
	}
	unlock, err := e.store().LockBench()
	if err != nil {
		return err
	}
	return errors.Join(e.measurePapers(ctx, runs, papersDir(f.out, f.quick)), unlock())
}

// newPaperRun plans a document's study: a new one, or the rest of one that was
// begun in its directory.
func (e env) newPaperRun(ctx context.Context, exp experiment.Experiment, f paperFlags) (paperRun, error) {
	r := paperRun{name: exp.Name, document: exp, dir: paperDir(f.out, f.quick, exp.Name)}
	r.flags = benchFlags{kernel: campaign.Auto, out: r.dir, seed: f.seed, seeded: f.seeded, dry: f.dry}
	if _, err := os.Stat(filepath.Join(r.dir, result.SamplesFile)); err == nil {
		begun, err := result.Open(r.dir)
		if r.finished = err == nil && begun.Samples.Footer != nil; r.finished {
			return r, nil
		}
		r.flags.resume = true
		r.flags.experiment = filepath.Join(r.dir, result.ExperimentFile)
		if exp, err = readExperiment(e, r.flags); err != nil {
			return r, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("look for an earlier run: %w", err)
	} else if f.quick {
		quick, ok := exp.AsQuick()
		if !ok {
			return r, usageError{errors.New("--quick: the file has no quick variant")}
		}
		exp = quick
	}
	r.Campaign = e.campaign(exp, false)
	return r, r.flags.plan(ctx, r.Campaign)
}

// measurePapers runs what is left. A document whose run breaks does not keep the
// others from theirs.
func (e env) measurePapers(ctx context.Context, runs []paperRun, dir string) error {
	var failed error
	for i, r := range runs {
		fmt.Fprintf(e.stderr, "paper %d of %d: %s\n", i+1, len(runs), r.name)
		if r.finished {
			fmt.Fprintf(e.stderr, "finished before, in %s: remove it to measure again\n", r.dir)
			continue
		}
		_, err := e.measure(ctx, r.Campaign, r.flags, "every finished trial of %s is kept: the same command goes on from there")
		if ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		if err != nil {
			err = fmt.Errorf("paper %s: %w", r.name, err)
			fmt.Fprintf(e.stderr, "%s\n", oneLine(err))
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, e.concludePapers(runs, dir))
}

// concludePapers writes the reports and the page that leads to them, and prints
// how many claims hold.
func (e env) concludePapers(runs []paperRun, dir string) error {
	var studies []report.Study
	for _, r := range runs {
		if _, err := os.Stat(filepath.Join(r.dir, result.SamplesFile)); err != nil {
			continue // its run did not begin, and has said why
		}
		s, err := study(r.document, r.dir)
		if err != nil {
			return err
		}
		if _, _, err = writeReport(r.dir); err != nil {
			return err
		}
		s.Report = filepath.Join(r.name, result.ReportFile)
		studies = append(studies, s)
	}
	path := filepath.Join(dir, "index.html")
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	if err := errors.Join(report.Index(f, studies), f.Close()); err != nil {
		return err
	}
	if err := report.StudyCounts(e.stdout, studies, e.reportOptions()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "\nreports: %s\n", path)
	return err
}

// printPapers says what would run, and for how long.
func printPapers(w io.Writer, runs []paperRun, o report.Options) error {
	l := report.NewList(report.Named("PAPER", "CELLS", "TRIALS AT LEAST", "TIME AT LEAST", "AT MOST")...)
	var least, most time.Duration
	var trials int
	for _, r := range runs {
		if r.finished {
			l.Add(r.name, "-", "-", "-", "-")
			l.Note("finished, in " + r.dir)
			continue
		}
		x := r.Extent()
		l.Add(r.name, strconv.Itoa(x.Cells), strconv.Itoa(x.Trials), x.Least.String(), x.Most.String())
		trials += x.Trials
		least += x.Least
		most += x.Most
	}
	l.Add("all", "", strconv.Itoa(trials), least.Round(time.Second).String(), most.Round(time.Second).String())
	if err := l.Write(w, o); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nnothing run (--dry-run); what an earlier run has done already is not subtracted")
	return err
}
