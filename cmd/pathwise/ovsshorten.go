package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/reduction"
	"pathwise.dev/pathwise/internal/measure/report"
)

// Formats of the flows to change.
const (
	applyFormat  = "apply"
	revertFormat = "revert"
)

func ovsShortenCommand(e env) *cobra.Command {
	var format string
	var assume []string
	var packets, growth int
	var fold bool
	var seed uint64
	formats := append(listFormats(), applyFormat, revertFormat)
	cmd := &cobra.Command{
		Use:   "shorten FILE|BRIDGE",
		Short: "Find what a pipeline can do without, with proof",
		Long: `Find what a pipeline can do without: fewer passes of the datapath first, which cached
packets pay for, fewer table lookups second. Dead flows go; the connection tracker is
asked where its answer is first read, not before, and not where the packet is committed
anyway; it is not asked where nobody reads the answer. Each step is proved to change
nothing, as by "pathwise ovs equal"; what is not proved is not done, and is named if it
would have saved a pass.

With --fold, lookups are saved too, which only the first packet of a flow pays for: flows
that send packets into another table do at once what that would do, as long as neither
flows nor masks become more, or no more than --growth of each. A lookup tries each mask
of its table. The controller that wrote the pipeline will not know it again.

Nothing is changed on a switch. With -o apply, the lines that "ovs-ofctl --bundle
add-flows" takes to change the flows are printed, with -o revert those that change them
back.

What the steps take for granted is listed. More is found with --assume:
  zone-private=Z  nobody but these flows commits connections in zone Z; zone 0 of the
                  kernel's datapath is the zone of the host's iptables too
  drop-lookups    the tracker need not be asked about each packet that is delivered: what
                  it knows of a connection may become older

Costs are means over packets that are made to reach as many flows as possible, not of
your traffic. FILE and BRIDGE are those of "pathwise ovs show".`,
		Example: `  pathwise ovs shorten br-int
  pathwise ovs shorten flows.txt --assume zone-private=0
  pathwise ovs shorten flows.txt --fold --growth 20
  pathwise ovs shorten br0 -o revert
  pathwise ovs shorten br0 -o apply | ovs-ofctl -O OpenFlow14 --bundle add-flows br0 -`,
		Args: exactArgs("FILE|BRIDGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, formats...); err != nil {
				return err
			}
			o := reduction.Options{Packets: packets, Random: rand.New(rand.NewPCG(seed, seed))}
			if err := checkPackets(packets, 1); err != nil {
				return err
			}
			if growth < 0 || growth > 0 && !fold {
				return usageError{fmt.Errorf("--growth=%d: expected a number from 0, with --fold", growth)}
			}
			o.Fold, o.Growth = fold, growth
			if err := readAssumptions(&o, assume); err != nil {
				return usageError{err}
			}
			p, err := e.readPipeline(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r := reduction.Of(p, o)
			switch format {
			case report.JSON:
				return writeJSON(e.stdout, r)
			case applyFormat:
				return printLines(e.stdout, r.Apply)
			case revertFormat:
				return printLines(e.stdout, r.Revert)
			}
			return printReduction(e.stdout, r, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, formats...)
	cmd.Flags().StringArrayVar(&assume, "assume", nil, "take for granted: zone-private=Z or drop-lookups (repeatable)")
	cmd.Flags().BoolVar(&fold, "fold", false, "save lookups too, by doing in one table what another does")
	cmd.Flags().IntVar(&growth, "growth", 0, "with --fold: how many more flows, and masks, there may be after a step")
	cmd.Flags().IntVar(&packets, "packets", 1000, "how many packets to make")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "which packets: the same seed makes the same ones")
	return cmd
}

// readAssumptions reads what may be taken for granted.
func readAssumptions(o *reduction.Options, list []string) error {
	for _, s := range list {
		key, value, _ := strings.Cut(s, "=")
		switch {
		case key == "zone-private":
			n, err := strconv.ParseUint(value, 0, 16)
			if err != nil {
				return fmt.Errorf("--assume %s: expected a zone from 0 to 65535", s)
			}
			o.Private = append(o.Private, uint16(n))
		case s == "drop-lookups":
			o.DropLookups = true
		default:
			return fmt.Errorf("--assume %s: expected zone-private=Z or drop-lookups", s)
		}
	}
	return nil
}

func printLines(w io.Writer, lines []string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}

// printReduction writes the result as text.
func printReduction(w io.Writer, r reduction.Result, o report.Options) error {
	if err := report.Lines(w, strings.TrimSuffix(reductionText(r), "\n"), o); err != nil {
		return err
	}
	l := report.NewList(report.Head{Name: "CLASS"}, report.Head{Name: "PASSES", Right: true},
		report.Head{Name: "AFTER", Right: true}, report.Head{Name: "LOOKUPS", Right: true},
		report.Head{Name: "AFTER", Right: true}, report.Head{Name: "PACKETS", Right: true, Drop: 1})
	for _, c := range r.Classes {
		l.Add(c.Name, strconv.Itoa(c.Passes[0]), strconv.Itoa(c.Passes[1]), fmt.Sprintf("%.1f", c.Lookups[0]),
			fmt.Sprintf("%.1f", c.Lookups[1]), strconv.Itoa(c.Packets))
	}
	fmt.Fprintln(w)
	if err := l.Write(w, o); err != nil {
		return err
	}
	if len(r.Steps) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return report.Lines(w, fmt.Sprintf("%s to change; %d masks, then %d: see -o apply, and -o revert for the way back",
		report.Plural(len(r.Apply), "flow"), r.Masks[0], r.Masks[1]), o)
}

// reductionText is the steps, what they rest on, and what was not done.
func reductionText(r reduction.Result) string {
	var b strings.Builder
	cost := func(c reduction.Cost) string { return fmt.Sprintf("%.2f passes, %.1f lookups", c.Passes, c.Lookups) }
	if len(r.Steps) == 0 {
		fmt.Fprintf(&b, "nothing was found to do without: %s a packet\n", cost(r.Before))
	}
	for i, s := range r.Steps {
		fmt.Fprintf(&b, "step %d, %s: %s\n", i+1, pipeline.Lines(s.Lines), s.Why)
		fmt.Fprintf(&b, "  EQUAL; %s a packet, from %s\n", cost(s.After), cost(s.Before))
	}
	for _, s := range r.Assumptions {
		fmt.Fprintf(&b, "assuming: %s\n", s)
	}
	const shown = 5
	for i, f := range r.Refused {
		if i == shown {
			fmt.Fprintf(&b, "and %d more that were not done: see -o json\n", len(r.Refused)-shown)
			break
		}
		fmt.Fprintf(&b, "not done, line %d, %s: %s: %s\n", f.Line, f.Change, f.Verdict, f.Why)
	}
	return b.String()
}
