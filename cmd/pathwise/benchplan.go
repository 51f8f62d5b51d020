package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/bench"
	"pathwise.dev/pathwise/internal/experiment"
	"pathwise.dev/pathwise/internal/report"
	"pathwise.dev/pathwise/internal/sample"
)

// printPlan says what would run, and for how long.
func (b *benchRun) printPlan(w io.Writer, o report.Options) error {
	cells := b.cells()
	if err := report.Lines(w, fmt.Sprintf("experiment %s: %s\n", b.exp.Name, b.exp.Description), o); err != nil {
		return err
	}
	l := report.NewList(report.Named("WORKLOAD", "SCENARIO", "LOAD", "NETWORKS")...)
	var order []sample.Question
	nets := map[sample.Question][]string{}
	left := map[sample.Question][]string{}
	claimed := 0
	var why reasons
	r := b.exp.Repeat
	for _, c := range cells {
		q := c.Question()
		if _, ok := nets[q]; !ok {
			order = append(order, q)
			nets[q] = nil
		}
		if c.Unsupported != "" {
			left[q] = append(left[q], c.Network)
			why.add(c)
			continue
		}
		nets[q] = append(nets[q], c.Network)
		if c.Least > r.Min {
			claimed++
		}
	}
	for _, q := range order {
		l.Add(q.Workload, q.Scenario.String(), q.Load.String(), strings.Join(nets[q], " "))
		if len(left[q]) > 0 {
			l.Add("", "", "", "(not: "+strings.Join(left[q], " ")+")")
		}
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	x := extentOf(cells, b.exp)
	text := why.String() + fmt.Sprintf("\n%d cells, %d to %d repetitions of each (until %s)\n", x.cells, r.Min, r.Max, aim(r))
	if r.Shared {
		text += "cells of one network and topology share a build in each repetition\n"
	}
	if claimed > 0 {
		text += fmt.Sprintf("%d of them are compared by claims: %d repetitions at least\n", claimed, r.Claims)
	}
	text += fmt.Sprintf("%d trials and about %v at least, about %v at most; nothing run (--dry-run)", x.trials, x.least, x.most)
	return report.Lines(w, text, o)
}

// aim is what ends the repetitions of a cell.
func aim(r experiment.Repeat) string {
	narrow := fmt.Sprintf("the 95 %% interval is within ±%g %%", r.Width*100)
	if r.Raced {
		return "claims can be told, and " + narrow
	}
	return narrow
}

// extent is how many cells of a plan run, how many trials at the least, and how long
// that takes at the least and at most, in whole seconds.
type extent struct {
	cells, trials int
	least, most   time.Duration
}

func extentOf(cells []experiment.Planned, exp experiment.Experiment) (x extent) {
	for _, c := range cells {
		if c.Unsupported == "" {
			x.cells++
			x.trials += c.Least
			x.least += time.Duration(c.Least) * bench.Estimate(c)
			x.most += time.Duration(exp.Repeat.Max) * bench.Estimate(c)
		}
	}
	x.least, x.most = x.least.Round(time.Second), x.most.Round(time.Second)
	if exp.Budget > 0 {
		x.most = max(x.least, min(x.most, exp.Budget))
	}
	return x
}

// reasons gather why cells of a plan cannot be measured: there are few reasons, and
// many cells to each.
type reasons []reason

type reason struct {
	why              string
	networks, places []string
}

func (r *reasons) add(c experiment.Planned) {
	i := slices.IndexFunc(*r, func(x reason) bool { return x.why == c.Unsupported })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reason{why: c.Unsupported})
	}
	x := &(*r)[i]
	for list, word := range map[*[]string]string{&x.networks: c.Network, &x.places: string(c.Scenario.Placement)} {
		if !slices.Contains(*list, word) {
			*list = append(*list, word)
		}
	}
}

func (r reasons) String() string {
	var out strings.Builder
	for i, x := range r {
		if i == 0 {
			out.WriteString("\nnot measured:\n")
		}
		fmt.Fprintf(&out, "  %s (%s): %s\n", strings.Join(x.networks, ", "), strings.Join(x.places, ", "), x.why)
	}
	return out.String()
}
