package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// formatSchema is JSON Schema, which editors read.
const formatSchema = "schema"

func keysCommand(e env) *cobra.Command {
	kinds := []string{kindExperiment, kindDrills}
	formats := []string{report.Text, report.Wide, report.Markdown, formatSchema}
	var format string
	cmd := &cobra.Command{
		Use: "keys " + strings.Join(kinds, "|"), Short: "Say which keys a file has, or tell an editor",
		Long: `Say which keys a file with an experiment, or one with drills, has: what each means, which
values it takes, and what holds without it. docs/reference/keys.md has the same.

With -o schema it prints a JSON Schema, by which an editor completes keys and words and
marks what is wrong as you write: see docs/reference/experiments.md.`,
		Example: `  pathwise experiments keys experiment
  pathwise experiments keys drills -o markdown
  pathwise experiments keys experiment -o schema > experiment.schema.json`,
		Args: exactArgs(strings.Join(kinds, " or ")), ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkFormat(format, formats...); err != nil {
				return err
			}
			return e.writeKeys(args[0], format)
		},
	}
	formatFlag(cmd, &format, formats...)
	return cmd
}

// writeKeys tells of a kind of file.
func (e env) writeKeys(kind, format string) error {
	title, keys, schema := "Experiments", experiment.Keys, e.experimentSchema
	switch kind {
	case kindExperiment:
	case kindDrills:
		title, keys = "Files of drills", drill.Keys
		schema = func() (*config.Schema, error) { return drill.Schema(catalogue.Names()) }
	default:
		return usageError{fmt.Errorf("%q: expected %s or %s", kind, kindExperiment, kindDrills)}
	}
	if format == formatSchema {
		s, err := schema()
		if err != nil {
			return fmt.Errorf("describe %s: %w", kind, err)
		}
		return writeJSON(e.stdout, s)
	}
	sections, err := keys()
	if err != nil {
		return fmt.Errorf("describe %s: %w", kind, err)
	}
	if format == report.Markdown {
		return config.Markdown(e.stdout, title, sections)
	}
	return printKeys(e, sections, format)
}

func (e env) experimentSchema() (*config.Schema, error) {
	w := experiment.Words{Networks: catalogue.Names(), Kernels: kernelNames()[1:]}
	for _, known := range e.workloads() {
		w.Workloads = append(w.Workloads, known.Info().Name)
	}
	return experiment.Schema(w)
}

func printKeys(e env, sections []config.Section, format string) error {
	l := report.NewList(report.Head{Name: "KEY"}, report.Head{Name: "MEANING"}, report.Head{Name: "VALUE", Drop: 1},
		report.Head{Name: "UNIT", Drop: 3}, report.Head{Name: "DEFAULT", Drop: 2})
	for _, s := range sections {
		for _, k := range s.Keys {
			preset := strings.ReplaceAll(k.Default, "`", "")
			if k.Needed {
				preset = "required"
			}
			l.Add(strings.TrimPrefix(s.Path+"."+k.Name, "."), k.Meaning, k.Says(func(path string) string { return path }),
				k.Unit, preset)
		}
	}
	return l.Write(e.stdout, e.listOptions(format))
}
