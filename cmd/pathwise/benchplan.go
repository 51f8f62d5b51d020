package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/campaign"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/sample"
)

// printCampaign says what would run, and for how long.
func printCampaign(w io.Writer, c *campaign.Campaign, o report.Options) error {
	exp := c.Experiment()
	if err := report.Lines(w, fmt.Sprintf("experiment %s: %s\n", exp.Name, exp.Description), o); err != nil {
		return err
	}
	l := report.NewList(report.Named("WORKLOAD", "SCENARIO", "LOAD", "NETWORKS")...)
	var order []sample.Question
	nets := map[sample.Question][]string{}
	left := map[sample.Question][]string{}
	claimed := 0
	var why reasons
	r := exp.Repeat
	for _, cell := range c.Cells() {
		q := cell.Question()
		if _, ok := nets[q]; !ok {
			order = append(order, q)
			nets[q] = nil
		}
		if cell.Unsupported != "" {
			left[q] = append(left[q], cell.Network)
			why.add(cell)
			continue
		}
		nets[q] = append(nets[q], cell.Network)
		if cell.Least > r.Min {
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
	x := c.Extent()
	text := why.String() + fmt.Sprintf("\n%d cells, %d to %d repetitions of each (until %s)\n", x.Cells, r.Min, r.Max,
		aim(r))
	if r.Shared {
		text += "cells of one network and topology share a build in each repetition\n"
	}
	if claimed > 0 {
		text += fmt.Sprintf("%d of them are compared by claims: %d repetitions at least\n", claimed, r.Claims)
	}
	text += fmt.Sprintf("%d trials and about %v at least, about %v at most; nothing run (--dry-run)", x.Trials, x.Least,
		x.Most)
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
