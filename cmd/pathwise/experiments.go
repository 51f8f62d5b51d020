package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// Kinds of what is shipped.
const (
	kindExperiment = "experiment"
	kindDrills     = "drills"
	kindPaper      = "paper"
)

// shippedRow is one shipped experiment as "experiments -o json" prints it.
type shippedRow struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
	// Run is the command that runs it.
	Run string `json:"run"`
}

func experimentsCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "experiments", Short: "List the shipped experiments, and what each is for",
		Long: `List what is shipped to run, and what it is for: experiments rank networks ("pathwise
bench"), drills try steering ("pathwise drill"), papers repeat the study of a document
("pathwise paper"). One of your own is a file: see docs/reference/experiments.md.`,
		Example: `  pathwise experiments
  pathwise experiments -o json | jq -r '.[] | select(.kind == "drills") | .run'`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			rows, err := e.shippedRows()
			if err != nil {
				return err
			}
			if format == report.JSON {
				return writeJSON(e.stdout, rows)
			}
			l := report.NewList(report.Head{Name: "NAME"}, report.Head{Name: "KIND"}, report.Head{Name: "FOR"})
			for _, r := range rows {
				l.Add(r.Name, r.Kind, r.Description)
			}
			return l.Write(e.stdout, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	cmd.AddCommand(keysCommand(e))
	return cmd
}

// shippedRows reads what is shipped: experiments first, then drills, then papers.
func (e env) shippedRows() ([]shippedRow, error) {
	var trials, drills, papers []shippedRow
	for _, name := range experiments.Names() {
		text, err := shippedText(experiments.Open(name))
		if err != nil {
			return nil, err
		}
		if drill.IsFile(text) {
			f, err := parseDrills(name, text)
			if err != nil {
				return nil, err
			}
			drills = append(drills, shippedRow{name, kindDrills, f.Description, "pathwise drill " + name})
			continue
		}
		exp, err := experiment.Parse(name, bytes.NewReader(text), e.catalogue())
		if err != nil {
			return nil, err
		}
		trials = append(trials, shippedRow{name, kindExperiment, exp.Description, "pathwise bench -f " + name})
	}
	all, err := e.readPapers(nil)
	for _, exp := range all {
		papers = append(papers, shippedRow{exp.Name, kindPaper, exp.Description, "pathwise paper run " + exp.Name})
	}
	return slices.Concat(trials, drills, papers), err
}

// shippedText reads a shipped file to its end.
func shippedText(f fs.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read experiment: %w", err)
	}
	return text, nil
}

// shippedDrills are the names of the shipped files of drills.
func shippedDrills() (out []string) {
	for _, name := range experiments.Names() {
		if text, err := shippedText(experiments.Open(name)); err == nil && drill.IsFile(text) {
			out = append(out, name)
		}
	}
	return out
}

// completeExperiments completes the name of a shipped experiment, or of a file.
func completeExperiments(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return experiments.Names(), cobra.ShellCompDirectiveDefault
}

// completeDrillFiles completes the name of a shipped file of drills, or of a file.
func completeDrillFiles(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return shippedDrills(), cobra.ShellCompDirectiveDefault
}

// completeDrills completes the drills of the file that the command line names, behind
// those that are there already.
func completeDrills(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var name string
	if flag := cmd.Flags().Lookup("file"); flag != nil {
		name = flag.Value.String()
	}
	if len(args) == 1 {
		name = args[0]
	}
	text, err := readFile(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	file, err := parseDrills(name, text)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before := typed[:strings.LastIndex(typed, ",")+1]
	var out []cobra.Completion
	for _, d := range file.Drills {
		if !slices.Contains(strings.Split(before, ","), d.Name) {
			out = append(out, cobra.CompletionWithDesc(before+d.Name, drill.About(d.Drill)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
