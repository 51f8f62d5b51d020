package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
)

func paperCommand(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "paper", Short: "Repeat the studies of documents, and say which findings hold",
		Long: `Repeat the studies of documents on this machine: each is an experiment with the
document's networks, workloads, loads and repetitions, and with what it says as
claims that are held against what was measured. See docs/howto/papers.md.`,
		Example: `  pathwise paper list
  pathwise paper run --quick all
  pathwise paper claims claassen`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(paperListCommand(e), paperShowCommand(e), paperRunCommand(e), paperClaimsCommand(e))
	return cmd
}

// completePapers completes the names of documents.
func completePapers(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return append(experiments.Papers(), allPapers), cobra.ShellCompDirectiveNoFileComp
}

// allPapers represents every shipped document on the command line.
const allPapers = "all"

// readPaper reads the experiment that repeats a document's study: a file, or
// the name of a shipped one.
func (e env) readPaper(name string) (experiment.Experiment, error) {
	var f fs.File
	var err error
	if strings.ContainsAny(name, "/.") {
		f, err = os.Open(name)
	} else {
		f, err = experiments.OpenPaper(name)
	}
	if err != nil {
		return experiment.Experiment{}, usageError{err}
	}
	defer f.Close()
	exp, err := experiment.Parse(name, f, e.catalogue())
	if err == nil && exp.Paper == nil {
		err = fmt.Errorf("%s: no paper: expected an experiment with the key paper", name)
	}
	return exp, err
}

// readPapers reads those that are named; "all" names all that are shipped.
func (e env) readPapers(names []string) ([]experiment.Experiment, error) {
	if len(names) == 0 || slices.Contains(names, allPapers) {
		names = experiments.Papers()
	}
	var out []experiment.Experiment
	for _, n := range names {
		exp, err := e.readPaper(n)
		if err != nil {
			return nil, err
		}
		out = append(out, exp)
	}
	return out, nil
}

// paperSummary is one document as "paper list -o json" prints it.
type paperSummary struct {
	Name      string `json:"name"`
	Authors   string `json:"authors"`
	Title     string `json:"title"`
	Networks  int    `json:"networks"`
	Workloads int    `json:"workloads"`
	Exhibits  int    `json:"exhibits"`
	Claims    int    `json:"claims"`
	// Untested claims cannot be tested by any trial here.
	Untested int `json:"untested"`
}

func newPaperRow(exp experiment.Experiment) paperSummary {
	row := paperSummary{Name: exp.Name, Authors: exp.Paper.Authors, Title: exp.Paper.Title,
		Exhibits: len(exp.Paper.Exhibits), Claims: len(exp.Claims)}
	var networks, workloads []string
	for _, n := range exp.Networks {
		networks = append(networks, n.Name)
	}
	for _, entry := range exp.Entries {
		workloads = append(workloads, entry.Workload)
	}
	row.Networks, row.Workloads = distinct(networks), distinct(workloads)
	for _, c := range exp.Claims {
		if c.Untested != "" {
			row.Untested++
		}
	}
	return row
}

// distinct counts different names.
func distinct(names []string) int {
	slices.Sort(names)
	return len(slices.Compact(names))
}

func paperListCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Short: "List the documents", Args: exactArgs(),
		Example: "  pathwise paper list\n  pathwise paper list -o json",
		RunE: func(*cobra.Command, []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			exps, err := e.readPapers(nil)
			if err != nil {
				return err
			}
			rows := []paperSummary{}
			var claims, untested int
			for _, exp := range exps {
				row := newPaperRow(exp)
				rows = append(rows, row)
				claims += row.Claims
				untested += row.Untested
			}
			if format == "json" {
				return writeJSON(e.stdout, rows)
			}
			l := report.NewList(report.Named("NAME", "DOCUMENT", "NETWORKS", "WORKLOADS", "FIGURES AND TABLES", "CLAIMS",
				"NOT TESTABLE")...)
			for _, r := range rows {
				l.Add(r.Name, r.Authors, strconv.Itoa(r.Networks), strconv.Itoa(r.Workloads), strconv.Itoa(r.Exhibits),
					strconv.Itoa(r.Claims), strconv.Itoa(r.Untested))
			}
			l.Add("all", "", "", "", "", strconv.Itoa(claims), strconv.Itoa(untested))
			return l.Write(e.stdout, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

func paperShowCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a document: its networks, figures, tables and claims",
		Example:           "  pathwise paper show claassen\n  pathwise paper show suo -o markdown",
		Args:              exactArgs("NAME"),
		ValidArgsFunction: completePapers,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkFormat(format, "text", "wide", "markdown", "json"); err != nil {
				return err
			}
			exp, err := e.readPaper(args[0])
			if err != nil {
				return err
			}
			return report.Paper(e.stdout, format, *exp.Paper, exp.Claims, e.reportOptions())
		},
	}
	formatFlag(cmd, &format, "text", "wide", "markdown", "json")
	return cmd
}

func paperClaimsCommand(e env) *cobra.Command {
	var format, out string
	var quick, check bool
	cmd := &cobra.Command{
		Use: "claims [NAME...]", Short: "Say which findings of the documents hold here",
		Long: `List what the documents say, what was measured and whether it holds. Verdicts
are those of the results in --out, as "paper run" makes them; a document that
was not run has its claims listed without.`,
		Example: `  pathwise paper claims                 every document, of results/papers
  pathwise paper claims --quick suo
  pathwise paper claims --quick -o csv all > claims.csv`,
		ValidArgsFunction: completePapers,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkFormat(format, report.TableFormats()...); err != nil {
				return err
			}
			exps, err := e.readPapers(args)
			if err != nil {
				return err
			}
			fails := false
			var studies []report.Study
			for _, exp := range exps {
				s, err := study(exp, paperDir(out, quick, exp.Name))
				if err != nil {
					return err
				}
				fails = fails || slices.ContainsFunc(s.Claims, func(j claim.Judged) bool { return j.Verdict() == claim.Fails })
				studies = append(studies, s)
			}
			if err := report.Studies(e.stdout, format, studies, e.reportOptions()); err != nil {
				return err
			}
			if check && fails {
				return silentError{errors.New("a claim does not hold")}
			}
			return nil
		},
	}
	formatFlag(cmd, &format, report.TableFormats()...)
	cmd.Flags().StringVar(&out, "out", "", "directory of the results (default results/papers, or results/papers-quick)")
	cmd.Flags().BoolVar(&quick, "quick", false, "of the quick variants")
	cmd.Flags().BoolVar(&check, "check", false, "exit with 1 when a claim does not hold")
	return cmd
}

// paperDir is where the result of a document's study lies.
func paperDir(out string, quick bool, name string) string {
	return filepath.Join(papersDir(out, quick), name)
}

// papersDir is where those of all lie.
func papersDir(out string, quick bool) string {
	switch {
	case out != "":
		return out
	case quick:
		return filepath.Join("results", "papers"+experiment.QuickSuffix)
	}
	return filepath.Join("results", "papers")
}

// study holds the claims of a document, as they are now, against its result;
// where there is none they stand without findings.
func study(exp experiment.Experiment, dir string) (report.Study, error) {
	s := report.Study{Name: exp.Name, Paper: *exp.Paper}
	if _, err := os.Stat(filepath.Join(dir, result.SamplesFile)); errors.Is(err, fs.ErrNotExist) {
		for _, c := range exp.Claims {
			s.Claims = append(s.Claims, claim.Judged{Claim: c})
		}
		return s, nil
	}
	in, err := openResult(dir)
	if err != nil {
		return s, err
	}
	in.Claims = exp.Claims
	s.Dir, s.Finished, s.Claims = dir, in.Results.Footer != nil, report.Judge(in, report.Options{})
	return s, nil
}
