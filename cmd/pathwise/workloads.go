package main

import (
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/catalogue"
)

// workloadRow is one workload as "workloads -o json" prints it.
type workloadRow struct {
	workload.Info
	Works bool              `json:"works"`
	Needs []network.Missing `json:"needs"`
}

func workloadsCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "workloads",
		Short:   "List the workloads, and what works on this machine",
		Example: "  pathwise workloads\n  pathwise workloads -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			rows := workloadRows(e)
			if format == "json" {
				return writeJSON(e.stdout, rows)
			}
			l := report.NewList(report.Head{Name: "WORKLOAD"}, report.Head{Name: "WORKS"},
				report.Head{Name: "GENERATOR", Drop: 1},
				report.Head{Name: "LOAD"}, report.Head{Name: "MAIN METRIC"})
			for _, r := range rows {
				works := "yes"
				if !r.Works {
					works = "no"
				}
				l.Add(r.Name, works, generator(r.Tool), strings.Join(r.Knobs, ","), r.Metrics[0])
				lacking(l, r.Needs)
			}
			return l.Write(e.stdout, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

// generator is the program alone; what it counts is behind it in Tool.
func generator(tool string) string {
	if i := strings.IndexAny(tool, ":,;"); i > 0 {
		return tool[:i]
	}
	return tool
}

func workloadRows(e env) []workloadRow {
	m := network.NewMachine(lab.DefaultCNIPath(e.self))
	rows := []workloadRow{}
	for _, w := range e.workloads() {
		row := workloadRow{Info: w.Info(), Needs: []network.Missing{}}
		row.Needs = append(row.Needs, m.Missing(row.Info.Needs)...)
		row.Works = len(row.Needs) == 0
		rows = append(rows, row)
	}
	return rows
}

// workloads is the catalogue of workloads.
func (e env) workloads() []workload.Workload { return catalogue.All(catalogue.Options{Self: e.self}) }

// workload returns the workload called name.
func (e env) workload(name string) (workload.Workload, error) {
	return catalogue.ByName(name, catalogue.Options{Self: e.self, Getenv: e.getenv})
}
