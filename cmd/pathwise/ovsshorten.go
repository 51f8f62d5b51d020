package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/bundle"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
)

// Formats of the flows to change.
const (
	applyFormat  = "apply"
	revertFormat = "revert"
)

// shortening is a command line of ovs shorten.
type shortening struct {
	format  string
	assume  []string
	packets int
	seed    uint64
	// fold has lookups saved too, at so many more flows and masks.
	fold   bool
	growth int
	// apply has the bridge changed, and the way back kept in a file; revert is the file of
	// an earlier change to be taken back.
	apply        bool
	keep, revert string
}

const shortenLong = `Find what a pipeline can do without: fewer passes of the datapath first, which cached
packets pay for, fewer table lookups second. Dead flows go; the connection tracker is
asked where its answer is first read, not before, and not where the packet is committed
anyway; it is not asked where nobody reads the answer. Each step is proved to change
nothing, as by "pathwise ovs equal"; what is not proved is not done, and is named if it
would have saved a pass.

With --fold, lookups are saved too, which only the first packet of a flow pays for: flows
that send packets into another table do at once what that would do, as long as neither
flows nor masks become more, or no more than --growth of each. A lookup tries each mask
of its table. The controller that wrote the pipeline will not know it again.

Nothing is changed on a switch but with --apply. It reads the bridge's flows once more,
wants them to be those that the proof is about, writes the way back to a file, and has the
bridge change all flows at once or none (a bundle of OpenFlow 1.4). --revert takes that
back. A controller that owns the flows may undo either: the flows are read again
afterwards, and what is not as it should be is an error.

With -o apply, the lines that "ovs-ofctl --bundle add-flows" takes to change the flows are
printed, with -o revert those that change them back.

What the steps take for granted is listed. More is found with --assume:
  zone-private=Z  nobody but these flows commits connections in zone Z; zone 0 of the
                  kernel's datapath is the zone of the host's iptables too
  drop-lookups    the tracker need not be asked about each packet that is delivered: what
                  it knows of a connection may become older

Costs are means over packets that are made to reach as many flows as possible, not of
your traffic. FILE and BRIDGE are those of "pathwise ovs show".`

func ovsShortenCommand(e env) *cobra.Command {
	var s shortening
	formats := append(listFormats(), applyFormat, revertFormat)
	cmd := &cobra.Command{
		Use:   "shorten FILE|BRIDGE",
		Short: "Find what a pipeline can do without, with proof",
		Long:  shortenLong,
		Example: `  pathwise ovs shorten br-int
  pathwise ovs shorten flows.txt --assume zone-private=0
  pathwise ovs shorten flows.txt --fold --growth 20
  pathwise ovs shorten br0 --apply
  pathwise ovs shorten br0 --revert br0.revert
  pathwise ovs shorten br0 -o apply | ovs-ofctl -O OpenFlow14 --bundle add-flows br0 -`,
		Args: exactArgs("FILE|BRIDGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(s.format, formats...); err != nil {
				return err
			}
			if err := checkPackets(s.packets, 1); err != nil {
				return err
			}
			if err := s.check(args[0]); err != nil {
				return usageError{err}
			}
			if s.revert != "" {
				return e.revert(cmd.Context(), bundle.Bridge(args[0]), s.revert)
			}
			return e.shorten(cmd.Context(), args[0], s)
		},
	}
	formatFlag(cmd, &s.format, formats...)
	cmd.Flags().StringArrayVar(&s.assume, "assume", nil, "take for granted: zone-private=Z or drop-lookups (repeatable)")
	cmd.Flags().BoolVar(&s.fold, "fold", false, "save lookups too, by doing in one table what another does")
	cmd.Flags().IntVar(&s.growth, "growth", 0, "with --fold: how many more flows, and masks, there may be after a step")
	cmd.Flags().IntVar(&s.packets, "packets", 1000, "how many packets to make")
	cmd.Flags().Uint64Var(&s.seed, "seed", 1, "which packets: the same seed makes the same ones")
	cmd.Flags().BoolVar(&s.apply, "apply", false, "change the bridge's flows, all at once")
	cmd.Flags().StringVar(&s.keep, "keep", "", "the file for the way back of --apply (default BRIDGE.revert)")
	cmd.Flags().StringVar(&s.revert, "revert", "", "take back what --apply did, by the file that it kept")
	return cmd
}

// check wants flags that make sense together, for a pipeline of that name.
func (s shortening) check(name string) error {
	switch {
	case s.growth < 0 || s.growth > 0 && !s.fold:
		return fmt.Errorf("--growth=%d: expected a number from 0, with --fold", s.growth)
	case s.apply && s.revert != "":
		return fmt.Errorf("--apply and --revert: expected one of them")
	case s.keep != "" && !s.apply:
		return fmt.Errorf("--keep %s: expected --apply with it", s.keep)
	case (s.apply || s.revert != "") && (s.format == applyFormat || s.format == revertFormat):
		return fmt.Errorf("-o %s: expected it without --apply and --revert", s.format)
	case s.apply || s.revert != "":
		if _, err := os.Stat(name); err == nil || name == "-" {
			return fmt.Errorf("%s is a file: expected a bridge to change", name)
		}
	}
	return nil
}

// shorten shortens a pipeline, and the bridge that it is of where that is asked for.
func (e env) shorten(ctx context.Context, name string, s shortening) error {
	o := reduction.Options{Packets: s.packets, Seed: s.seed, Fold: s.fold, Growth: s.growth}
	if err := readAssumptions(&o, s.assume); err != nil {
		return usageError{err}
	}
	if _, several := bridgesOf(name); several {
		return usageError{fmt.Errorf("%s: expected one bridge: each is shortened by itself", name)}
	}
	p, err := e.readNamed(ctx, name, nil)
	if err != nil {
		return err
	}
	r, err := until(ctx, func() reduction.Result { return reduction.Of(p, o) })
	if err != nil {
		return err
	}
	applied := ""
	if s.apply && len(r.Apply) > 0 {
		applied = cmp.Or(s.keep, filepath.Base(strings.TrimPrefix(name, "unix:"))+".revert")
		if err := bundle.Bridge(name).Apply(ctx, p, r, applied); err != nil {
			return err
		}
	}
	switch s.format {
	case report.JSON:
		return writeJSON(e.stdout, struct {
			reduction.Result
			// WayBack is the file that takes back what was applied.
			WayBack string `json:"wayBack,omitempty"`
		}{r, applied})
	case applyFormat:
		return printLines(e.stdout, r.Apply)
	case revertFormat:
		return printLines(e.stdout, r.Revert)
	}
	last := fmt.Sprintf("to change; %d masks, then %d: see -o apply, and -o revert for the way back", r.Masks[0],
		r.Masks[1])
	if applied != "" {
		last = fmt.Sprintf("changed on %s; the way back: pathwise ovs shorten %s --revert %s", name, name, applied)
	}
	return printReduction(e.stdout, r, last, e.listOptions(s.format))
}

// revert takes back an earlier change.
func (e env) revert(ctx context.Context, b bundle.Bridge, file string) error {
	done, err := b.Revert(ctx, file)
	if err != nil {
		return err
	}
	said := "bridge %s has its flows of before %s already\n"
	if done {
		said = "bridge %s was changed back by %s\n"
	}
	_, err = fmt.Fprintf(e.stdout, said, b, file)
	return err
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

// printReduction writes the result as text; last says what is to become of the flows to change.
func printReduction(w io.Writer, r reduction.Result, last string, o report.Options) error {
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
	if err := printKept(w, r.Kept, o); err != nil {
		return err
	}
	if len(r.Steps) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return report.Lines(w, fmt.Sprintf("%s %s", report.Plural(len(r.Apply), "flow"), last), o)
}

// printKept says why recirculations stay.
func printKept(w io.Writer, kept []reduction.Kept, o report.Options) error {
	if len(kept) == 0 {
		return nil
	}
	const shown = 12
	l := report.NewList(report.Head{Name: "RECIRCULATION THAT STAYS"}, report.Head{Name: "FROM"}, report.Head{Name: "TO"},
		report.Head{Name: "ZONE"}, report.Head{Name: "COMMITS", Drop: 2}, report.Head{Name: "PACKETS", Right: true, Drop: 1})
	for _, k := range kept[:min(shown, len(kept))] {
		commits := "no"
		if k.Commit {
			commits = "yes"
		}
		l.Add(pipeline.Lines(k.Lines), k.Table, k.To, k.Zone, commits, strconv.Itoa(k.Packets))
		l.Note(k.Why)
	}
	fmt.Fprintln(w)
	if err := l.Write(w, o); err != nil {
		return err
	}
	if rest := len(kept) - shown; rest > 0 {
		return report.Lines(w, fmt.Sprintf("and %d more: see -o json", rest), o)
	}
	return nil
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
