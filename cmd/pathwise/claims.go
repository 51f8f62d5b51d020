package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

func claimsCommand(e env) *cobra.Command {
	var format, file string
	var check bool
	cmd := &cobra.Command{
		Use: "claims DIR", Short: "Say which claims of documents hold in a result",
		Long: `Hold the claims of an experiment against its result: what a document says, what
was measured here with its interval, and whether that holds, does not hold,
cannot be told or was not tested, and why.`,
		Example: `  pathwise claims results/networks
  pathwise claims results/networks -o markdown
  pathwise claims results/mine -f networks     the claims of another experiment`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, report.TableFormats()...); err != nil {
				return err
			}
			r, err := openTrials(args[0])
			if err != nil {
				return err
			}
			in := report.Input{Name: r.Samples.Header.Experiment, Dir: args[0], Results: r.Samples}
			if in.Claims, err = e.readClaims(r, file); err != nil {
				return err
			}
			if err := report.Claims(e.stdout, format, in, e.reportOptions()); err != nil {
				return err
			}
			if check && anyFails(report.Judge(in, report.Options{})) {
				return silentError{errors.New("a claim does not hold")}
			}
			return nil
		},
	}
	formatFlag(cmd, &format, report.TableFormats()...)
	cmd.Flags().StringVarP(&file, "file", "f", "",
		"take the claims of this experiment: a file, or the name of a shipped one")
	cmd.Flags().BoolVar(&check, "check", false, "exit with 1 when a claim does not hold")
	return cmd
}

func anyFails(judged []claim.Judged) bool {
	for _, j := range judged {
		for _, f := range j.Findings {
			if f.Verdict == claim.Fails {
				return true
			}
		}
	}
	return false
}

// readClaims reads the claims of the file, or those that the result was made with.
func (e env) readClaims(r result.Result, file string) ([]claim.Claim, error) {
	if file == "" {
		return storedClaims(r)
	}
	f, err := openExperiment(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := experiment.Recorded()
	accept := c.Workload
	c.Workload = func(name string) (workload.Info, error) {
		info, err := accept(name)
		if w, unknown := e.workload(name); unknown == nil {
			info.Metrics = w.Info().Metrics // the first is a claim's where it names none
		}
		return info, err
	}
	exp, err := experiment.Parse(file, f, c)
	return exp.Claims, err
}

// storedClaims are those that the result was made with.
func storedClaims(r result.Result) ([]claim.Claim, error) {
	exp, err := stored(r)
	return exp.Claims, err
}

// stored is the experiment that the result was made with.
func stored(r result.Result) (experiment.Experiment, error) {
	if r.Experiment == "" {
		return experiment.Experiment{}, nil
	}
	return experiment.Parse(filepath.Join(r.Dir, result.ExperimentFile), strings.NewReader(r.Experiment),
		experiment.Recorded())
}

// withClaims adds the claims, the applications and the paper of the result to a report's input. A
// report of what was measured does not fail for want of them.
func withClaims(in report.Input, r result.Result) report.Input {
	exp, err := stored(r)
	if err != nil {
		in.Results.Header.Warnings = append(in.Results.Header.Warnings,
			sample.Warning{Gate: "claims", Text: "the claims cannot be read: " + oneLine(err)})
	}
	in.Claims, in.Paper, in.Applications = exp.Claims, exp.Paper, exp.Applications
	return in
}
