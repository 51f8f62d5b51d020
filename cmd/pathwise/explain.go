package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
)

func explainCommand(e env) *cobra.Command {
	var format string
	var networks, workloads []string
	cmd := &cobra.Command{
		Use: "explain DIR", Short: "Say where the CPU time went, and what bounds each network",
		Long: `Say where the CPU time of a result went, per network and workload, and what
bounds each network: by stage of a packet's way (device, bridge, encapsulation,
netfilter, copy, wake-up ...), from samples of kernel stacks; service demand at
client and server; packets per GB and their size.

A limit is named by its own counter: queues with a rate (HTB, TBF), policers,
windows and buffers of sockets, the rate of the load itself, which is no limit of
the network. The CPU is named only where the lab had it: where other programs took
it and no counter explains the figure, that cannot be told, and is said.

The samples are taken by "pathwise bench --explain" and lie in the result
directory, so that this works on any machine. A result without them is
explained by the modes of the CPU alone. The HTML report of such a result holds
the same figures, as bars and flame graphs.

-o folded writes the stacks for flame graph programs.`,
		Example: `  pathwise bench --explain --out results/why
  pathwise explain results/why
  pathwise explain results/why --networks vxlan,host --workloads tcp-stream
  pathwise explain results/why -o folded | flamegraph.pl > why.svg
  pathwise report results/why -o html > why.html`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, report.ExplainFormats()...); err != nil {
				return err
			}
			in, err := openResult(args[0])
			if err != nil {
				return err
			}
			findings, err := only(in.Findings, networks, workloads)
			if err != nil {
				return err
			}
			return report.Explain(e.stdout, format, in.Name, findings, in.Stages, e.reportOptions())
		},
	}
	formatFlag(cmd, &format, report.ExplainFormats()...)
	cmd.Flags().StringSliceVar(&networks, "networks", nil, "only these networks")
	cmd.Flags().StringSliceVar(&workloads, "workloads", nil, "only these workloads")
	for flag, of := range map[string]func(sample.Cell) string{
		"networks":  func(c sample.Cell) string { return c.Network },
		"workloads": func(c sample.Cell) string { return c.Workload },
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			return cellsOf(args, of), cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

// withFindings explains the result for a report's input.
func withFindings(in report.Input) (report.Input, error) {
	profiles, err := result.Profiles(in.Dir)
	if err != nil {
		return in, err
	}
	table, err := explain.DefaultTable()
	if err != nil {
		return in, err
	}
	in.Table, in.Stages = table, report.StageDocs(table)
	in.Findings = explain.Find(table, in.Results.Trials, profiles, rank.Baseline)
	return in, nil
}

// only keeps the findings of the named networks and workloads; no names mean all.
func only(findings []explain.Finding, networks, workloads []string) ([]explain.Finding, error) {
	for _, ask := range []struct {
		flag  string
		names []string
		of    func(sample.Cell) string
	}{
		{"--networks", networks, func(c sample.Cell) string { return c.Network }},
		{"--workloads", workloads, func(c sample.Cell) string { return c.Workload }},
	} {
		if len(ask.names) == 0 {
			continue
		}
		var known []string
		var kept []explain.Finding
		for _, f := range findings {
			known = append(known, ask.of(f.Cell))
			if slices.Contains(ask.names, ask.of(f.Cell)) {
				kept = append(kept, f)
			}
		}
		slices.Sort(known)
		known = slices.Compact(known)
		for _, n := range ask.names {
			if !slices.Contains(known, n) {
				return nil, usageError{fmt.Errorf("%s %s: the result has no such figures: expected some of %s", ask.flag, n,
					strings.Join(known, ", "))}
			}
		}
		findings = kept
	}
	return findings, nil
}

// cellsOf completes a flag by what the result named on the command line holds.
func cellsOf(args []string, of func(sample.Cell) string) (out []cobra.Completion) {
	if len(args) != 1 {
		return nil
	}
	r, err := openTrials(args[0])
	if err != nil {
		return nil
	}
	for _, t := range r.Samples.Trials {
		if name := of(t.Cell); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
