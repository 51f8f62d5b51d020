package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"pathwise.dev/pathwise/internal/bench"
	"pathwise.dev/pathwise/internal/sample"
)

// printPlan says what would run, and for how long.
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
