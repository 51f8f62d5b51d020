package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/pipeline/depth"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

func ovsDepthCommand(e env) *cobra.Command {
	var format string
	var packets int
	var patches []string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "depth FILE|BRIDGE",
		Short: "Count what packets cost in a pipeline: passes, lookups, tracking",
		Long: `Count what packets cost in a pipeline, by class of traffic: passes of the datapath
(1, and one more for each recirculation), which cached packets pay for; table lookups
and resubmits, which only the first packet of a flow pays for; questions to the
connection tracker, and those that remember a connection. And how near that comes to
the limits of Open vSwitch.

Packets are made to reach as many flows as possible, and each is followed as by
"pathwise ovs trace": what is listed does occur, but there may be more. Where flows have
counters, the mean over the packets that they counted is told too.

FILE and BRIDGE are those of "pathwise ovs show"; of several bridges, packets come to the
first.`,
		Example: `  pathwise ovs depth br-int
  pathwise ovs depth flows.txt --packets 5000
  pathwise ovs depth flows.txt -o json | jq '.classes[] | {class, passes, example}'`,
		Args: exactArgs("FILE|BRIDGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			if err := checkPackets(packets, 1); err != nil {
				return err
			}
			p, err := e.readPipeline(cmd.Context(), args[0], patches)
			if err != nil {
				return err
			}
			r, err := until(cmd.Context(), func() depth.Report {
				return depth.Of(p, packets, rand.New(rand.NewPCG(seed, seed)))
			})
			if err != nil {
				return err
			}
			if format == report.JSON {
				return writeJSON(e.stdout, r)
			}
			return printDepth(e.stdout, r, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	patchFlag(cmd, &patches)
	cmd.Flags().IntVar(&packets, "packets", 1000, "how many packets to make")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "which packets: the same seed makes the same ones")
	return cmd
}

// printDepth writes the report as text.
func printDepth(w io.Writer, r depth.Report, o report.Options) error {
	l := report.NewList(report.Head{Name: "CLASS"}, report.Head{Name: "PASSES", Right: true},
		report.Head{Name: "LOOKUPS", Right: true}, report.Head{Name: "RESUBMITS", Right: true, Drop: 2},
		report.Head{Name: "TRACKED", Right: true}, report.Head{Name: "COMMITS", Right: true},
		report.Head{Name: "NESTED", Right: true, Drop: 3}, report.Head{Name: "PACKETS", Right: true, Drop: 1})
	between := func(n [2]int) string {
		if n[0] == n[1] {
			return strconv.Itoa(n[0])
		}
		return fmt.Sprintf("%d-%d", n[0], n[1])
	}
	for _, c := range r.Classes {
		l.Add(c.Name, strconv.Itoa(c.Passes), between(c.Lookups), between(c.Resubmits), strconv.Itoa(c.Asks),
			strconv.Itoa(c.Commits), strconv.Itoa(c.Nested), strconv.Itoa(c.Packets))
	}
	if err := l.Write(w, o); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return report.Lines(w, strings.TrimSuffix(depthText(r), "\n"), o)
}

// depthText is what the table does not say.
func depthText(r depth.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s were made; they reach %d of %s\n", report.Plural(r.Made, "packet"), r.Reached,
		report.Plural(r.Flows, "flow"))
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "note: %s more were not made: a packet has too much to do\n", report.Plural(r.Skipped, "packet"))
	}
	if m := r.Mean; m != nil {
		fmt.Fprintf(&b, "counted: %s, with a mean of %.2f passes, %.1f lookups, %.2f questions to the tracker and %.2f commits\n",
			report.Plural(int(m.Packets), "packet"), m.Passes, m.Lookups, m.Asks, m.Commits)
	}
	fmt.Fprintf(&b, "nearest to limits: %d of %d nested, %d of %d resubmits, %d of %d recirculations\n", r.Limits.Nested,
		walk.MaxDepth, r.Limits.Resubmits, walk.MaxResubmits, r.Limits.Recirculations, walk.MaxDeferred)
	for _, f := range r.Limits.Failed {
		fmt.Fprintf(&b, "note: some packets meet a limit: %s\n", f)
	}
	if r.NotUnderstood > 0 {
		fmt.Fprintf(&b, "note: %s met what is not understood: see \"pathwise ovs show\"\n",
			report.Plural(r.NotUnderstood, "packet"))
	}
	return b.String()
}
