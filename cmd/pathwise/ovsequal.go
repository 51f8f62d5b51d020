package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

const equalLong = `Decide whether two pipelines do the same with each packet, whatever the connection
tracker answers: the same outputs in the same order with the same header, the same
commits, packets to controllers and so on. What is observed and what is not is in
docs/explanation/pipelines.md.

Questions to the tracker that commit nothing are not observed, neither those of packets
that are dropped nor those of packets that are delivered: but they keep a connection
alive, and one that the tracker is not asked about any more times out. With --strict
they count.

EQUAL (exit code 0) is shown for all packets, under the assumptions that are listed;
never by trying some. DIFFERENT (1) comes with a packet, the tracker's answers and how
the packet fares in both. UNDECIDED (2) names the flows for which neither was found.

A and B are files or bridges, as those of "pathwise ovs show". Of several bridges that
patch ports join, packets come to each by its other ports.`

// comparison is a command line of ovs equal.
type comparison struct {
	format  string
	strict  bool
	packets int
	patches []string
	seed    uint64
}

func ovsEqualCommand(e env) *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "equal A B",
		Short: "Decide whether two pipelines do the same",
		Long:  equalLong,
		Example: `  pathwise ovs equal before.txt after.txt
  pathwise ovs equal br-int after.txt --strict
  pathwise ovs equal before.txt after.txt -o json | jq .verdict`,
		Args: exactArgs("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(c.format, listFormats()...); err != nil {
				return err
			}
			if err := checkPackets(c.packets, 0); err != nil {
				return err
			}
			return e.equal(cmd.Context(), args[0], args[1], c)
		},
	}
	formatFlag(cmd, &c.format, listFormats()...)
	patchFlag(cmd, &c.patches)
	cmd.Flags().BoolVar(&c.strict, "strict", false,
		"have questions to the tracker count, also those of packets that are dropped")
	cmd.Flags().IntVar(&c.packets, "packets", 20000, "how many packets to try where equality is not shown")
	cmd.Flags().Uint64Var(&c.seed, "seed", 1, "which packets: the same seed makes the same ones")
	return cmd
}

// equal decides it of two pipelines, and has the exit code say what.
func (e env) equal(ctx context.Context, nameA, nameB string, c comparison) error {
	names := pipeline.NewNames()
	a, err := e.readBridges(ctx, nameA, names, c.patches)
	if err != nil {
		return err
	}
	b, err := e.readBridges(ctx, nameB, names, c.patches)
	if err != nil {
		return err
	}
	if err := checkAlike(a, b); err != nil {
		return err
	}
	d, err := until(ctx, func() proof.Decision {
		return proof.Of(a, b, proof.Options{Strict: c.strict, Packets: c.packets,
			Random: rand.New(rand.NewPCG(c.seed, c.seed))})
	})
	if err != nil {
		return err
	}
	out := equalOf(d, c.strict)
	if c.format == report.JSON {
		err = writeJSON(e.stdout, out)
	} else {
		err = report.Lines(e.stdout, strings.TrimSuffix(out.text(), "\n"), e.listOptions(c.format))
	}
	switch {
	case err != nil || d.Verdict == proof.Equal:
		return err
	case d.Verdict == proof.Different:
		return codeError(1)
	}
	return codeError(2)
}

// equality is a decision as it is printed.
type equality struct {
	Verdict     string   `json:"verdict"`
	Level       string   `json:"level"`
	Assumptions []string `json:"assumptions"`
	// Packet fares differently, as A and B tell, when the tracker gives these answers.
	Packet  string       `json:"packet,omitempty"`
	Answers []string     `json:"answers,omitempty"`
	A       *packetTrace `json:"a,omitempty"`
	B       *packetTrace `json:"b,omitempty"`
	// Reasons are why nothing is decided.
	Reasons []proof.Reason `json:"reasons,omitempty"`
	Tried   int            `json:"tried"`
}

func equalOf(d proof.Decision, strict bool) equality {
	out := equality{Verdict: string(d.Verdict), Level: "forwarding", Reasons: d.Reasons, Tried: d.Tried,
		Assumptions: []string{}}
	if strict {
		out.Level = "strict"
	}
	if d.Verdict == proof.Equal {
		out.Assumptions = d.Assumptions
	}
	if w := d.Witness; w != nil {
		a, b := traceOf(w.InA, w.Packet, w.A), traceOf(w.InB, w.Packet, w.B)
		out.A, out.B, out.Packet, out.Answers = &a, &b, a.Packet, w.Answers
	}
	return out
}

// text is the decision for the terminal.
func (q equality) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", q.Verdict, q.Level)
	for _, s := range q.Assumptions {
		fmt.Fprintf(&b, "assuming: %s\n", s)
	}
	if q.A != nil {
		fmt.Fprintf(&b, "packet: %s\n", q.Packet)
		for _, s := range q.Answers {
			fmt.Fprintf(&b, "tracker: %s\n", s)
		}
		for _, side := range []struct {
			name string
			tr   *packetTrace
		}{{"A", q.A}, {"B", q.B}} {
			fmt.Fprintf(&b, "\nin %s:\n%s\n", side.name, side.tr.text())
		}
	}
	const shown = 10
	for i, r := range q.Reasons {
		if i == shown {
			fmt.Fprintf(&b, "and %d more reasons: see -o json\n", len(q.Reasons)-shown)
			break
		}
		where := ""
		for _, l := range []struct {
			name string
			line int
		}{{"A", r.LineA}, {"B", r.LineB}} {
			if l.line > 0 {
				where += fmt.Sprintf("line %d of %s: ", l.line, l.name)
			}
		}
		fmt.Fprintf(&b, "not shown: %s%s\n", where, r.Why)
	}
	if q.Verdict == string(proof.Undecided) {
		fmt.Fprintf(&b, "%s were tried in both, and fared alike\n", report.Plural(q.Tried, "packet"))
	}
	return b.String()
}
