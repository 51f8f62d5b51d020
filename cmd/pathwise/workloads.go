package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/workload"
	"pathwise.dev/pathwise/internal/workload/catalogue"
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
			if err := checkFormat(format, "text", "json"); err != nil {
				return err
			}
			rows := workloadRows(e)
			if format == "json" {
				return writeJSON(e.stdout, rows)
			}
			tw := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "WORKLOAD\tWORKS\tGENERATOR\tLOAD\tMAIN METRIC\t")
			for _, r := range rows {
				works := "yes"
				if !r.Works {
					works = "no"
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t\n", r.Name, works, generator(r.Tool), strings.Join(r.Knobs, ","), r.Metrics[0])
				for _, miss := range r.Needs {
					fmt.Fprintf(tw, "  missing: %s\t\t\t\t\t\n", miss)
				}
			}
			return flush(tw)
		},
	}
	formatFlag(cmd, &format, "text", "json")
	return cmd
}

// generator is the program alone; what it counts stands behind it in Tool.
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
