package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

const traceLong = `Follow a packet through a pipeline as Open vSwitch does, without one: the flow that
takes it in each table, what the connection tracker is asked, where it is recirculated,
and what leaves in the end.

PACKET is written as for ovs-appctl ofproto/trace; fields that it does not name are zero,
nw_ttl too. The tracker's answer is that the connection is new, unless --ct says
otherwise. With --all, the packet is followed once for each answer that flows tell apart,
each size and each choice of a group, and the outcomes are listed.

What is not understood ends the walk and is named. FILE and BRIDGE are those of
"pathwise ovs show"; of several bridges, the packet comes to the first.`

// tracing is a command line of ovs trace.
type tracing struct {
	format           string
	answers, patches []string
	all, larger      bool
}

func ovsTraceCommand(e env) *cobra.Command {
	var t tracing
	cmd := &cobra.Command{
		Use:   "trace FILE|BRIDGE PACKET",
		Short: "Follow a packet through a pipeline, without a switch",
		Long:  traceLong,
		Example: `  pathwise ovs trace br-int tcp,in_port=3,nw_src=10.0.0.3,nw_dst=10.0.0.4,tp_dst=80
  pathwise ovs trace flows.txt icmp,in_port=1,icmp_type=8 --ct zone=5,state=est|rpl
  pathwise ovs trace flows.txt udp,in_port=1,nw_ttl=64 --all
  pathwise ovs trace br-int,br-tun icmp,in_port=5
  pathwise ovs trace flows.txt arp,in_port=1 -o json | jq .results`,
		Args: exactArgs("FILE|BRIDGE", "PACKET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(t.format, listFormats()...); err != nil {
				return err
			}
			return e.trace(cmd.Context(), args[0], args[1], t)
		},
	}
	formatFlag(cmd, &t.format, listFormats()...)
	patchFlag(cmd, &t.patches)
	cmd.Flags().StringArrayVar(&t.answers, "ct", nil,
		"the tracker's answer, such as zone=5,state=est|rpl,mark=1 (repeatable; without zone: of all others)")
	cmd.Flags().BoolVar(&t.larger, "larger", false, "have the packet be larger than any size that is asked about")
	cmd.Flags().BoolVar(&t.all, "all", false, "list every outcome over the tracker's answers")
	return cmd
}

// trace follows a packet, or lists how it may fare.
func (e env) trace(ctx context.Context, name, packet string, t tracing) error {
	given := walk.Given{All: walk.Answer{State: walk.New}, Long: t.larger}
	for _, a := range t.answers {
		if err := given.Read(a); err != nil {
			return usageError{fmt.Errorf("--ct: %w", err)}
		}
	}
	if t.all && len(t.answers) > 0 {
		return usageError{fmt.Errorf("--all and --ct: expected one of them")}
	}
	p, err := e.readPipeline(ctx, name, t.patches)
	if err != nil {
		return err
	}
	m, err := p.ReadPacket(packet)
	if err != nil {
		return usageError{err}
	}
	w, came := walk.Through(p), walk.NewPacket(m)
	if t.all {
		return e.outcomes(ctx, w, came, t.format)
	}
	tr := traceOf(w, came, w.Follow(came, given))
	if t.format == report.JSON {
		return writeJSON(e.stdout, tr)
	}
	return report.Lines(e.stdout, tr.text(), e.listOptions(t.format))
}

// packetTrace is a walk as it is printed.
type packetTrace struct {
	Packet string `json:"packet"`
	// Passes is what a cached packet pays for.
	Passes    int          `json:"passes"`
	Lookups   int          `json:"lookups"`
	Resubmits int          `json:"resubmits"`
	Results   []traceEvent `json:"results"`
	Walk      []tracePass  `json:"walk"`
	// Undefined and NotUnderstood limit what the trace says.
	Undefined     []string        `json:"undefined"`
	Opaque        []string        `json:"opaque"`
	NotUnderstood []pipeline.Note `json:"notUnderstood"`
}

type tracePass struct {
	Pass int `json:"pass"`
	// From is the pass that sent the packet on, Zone and Answer the tracker's.
	From   int         `json:"from,omitempty"`
	Zone   *uint16     `json:"zone,omitempty"`
	Answer string      `json:"answer,omitempty"`
	Failed string      `json:"failed,omitempty"`
	Steps  []traceStep `json:"steps"`
}

type traceStep struct {
	Depth   int         `json:"depth"`
	Table   string      `json:"table,omitempty"`
	Line    int         `json:"line,omitempty"`
	Match   string      `json:"match,omitempty"`
	Actions string      `json:"actions,omitempty"`
	Event   *traceEvent `json:"event,omitempty"`
	Say     string      `json:"say,omitempty"`
}

type traceEvent struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// With is what of the packet is not as it came, Learns the flow that is learnt.
	With   string `json:"with,omitempty"`
	Learns string `json:"learns,omitempty"`
}

func traceOf(p *walk.Pipeline, packet *walk.Packet, w *walk.Walk) packetTrace {
	tr := packetTrace{Packet: p.PrintPacket(packet.Terms(p.Words)), Passes: w.Depth(), Results: []traceEvent{},
		Undefined: []string{}, Opaque: append([]string{}, slices.Compact(w.Opaque)...),
		NotUnderstood: append([]pipeline.Note{}, w.Unknown...)}
	shown := func(ev walk.Event) traceEvent {
		out := traceEvent{Kind: string(ev.Kind), Text: ev.Text, With: p.PrintTerms(ev.Packet.Changes(packet, p.Words))}
		if ev.Flow != nil {
			out.Learns = p.Print(ev.Flow, pipeline.AsGiven)
		}
		return out
	}
	for _, ev := range w.Events() {
		if ev.Kind != walk.Lookup && ev.Kind != walk.Choice {
			tr.Results = append(tr.Results, shown(ev))
		}
	}
	for i, pass := range w.Passes {
		tr.Lookups, tr.Resubmits = tr.Lookups+pass.Lookups, tr.Resubmits+pass.Resubmits
		tp := tracePass{Pass: i + 1, From: pass.From, Failed: pass.Failed, Steps: []traceStep{}}
		if pass.From > 0 {
			tp.Zone, tp.Answer = &pass.Zone, walk.Tracking(pass.Start).String()
		}
		for _, s := range pass.Steps {
			st := traceStep{Depth: s.Depth, Say: s.Say}
			if s.Lookup {
				st.Table = p.Names.FormatTable(s.Table)
			}
			if s.Flow != nil {
				st.Line, st.Match, st.Actions = s.Flow.Line, p.PrintMatch(s.Flow), p.PrintActions(s.Flow.Actions)
			}
			if s.Event != nil {
				ev := shown(*s.Event)
				st.Event = &ev
			}
			tp.Steps = append(tp.Steps, st)
		}
		tr.Walk = append(tr.Walk, tp)
	}
	for _, u := range w.Undefined {
		tr.Undefined = append(tr.Undefined, fmt.Sprintf("lines %d and %d of table %s both want it at priority %d",
			u[0].Line, u[1].Line, p.Names.FormatTable(u[0].Table), u[0].Priority))
	}
	return tr
}

// text is the trace for the terminal.
func (tr packetTrace) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", tr.Packet)
	for _, p := range tr.Walk {
		fmt.Fprintf(&b, "\npass %d", p.Pass)
		if p.From > 0 {
			fmt.Fprintf(&b, ", from pass %d: zone %d says %s", p.From, *p.Zone, p.Answer)
		}
		b.WriteString("\n")
		for _, s := range p.Steps {
			in := strings.Repeat("  ", s.Depth+1)
			switch {
			case s.Table != "" && s.Line == 0 && s.Match != "": // no flow of the input
				fmt.Fprintf(&b, "%stable %s: %s actions=%s\n", in, s.Table, s.Match, s.Actions)
			case s.Table != "" && s.Line == 0:
				fmt.Fprintf(&b, "%stable %s: no flow\n", in, s.Table)
			case s.Table != "":
				fmt.Fprintf(&b, "%stable %s, line %d: %s actions=%s\n", in, s.Table, s.Line, s.Match, s.Actions)
			case s.Event != nil:
				fmt.Fprintf(&b, "%s> %s\n", in, s.Event.line())
			default:
				fmt.Fprintf(&b, "%s%s\n", in, s.Say)
			}
		}
	}
	b.WriteString("\n")
	tr.conclusion(&b)
	return strings.TrimSuffix(b.String(), "\n")
}

// conclusion writes what came of it.
func (tr packetTrace) conclusion(b io.Writer) {
	what := []string{}
	for _, ev := range tr.Results {
		what = append(what, ev.line())
	}
	if len(what) == 0 && len(tr.NotUnderstood) == 0 {
		what = append(what, "dropped")
	}
	for _, s := range what {
		fmt.Fprintf(b, "result: %s\n", s)
	}
	fmt.Fprintf(b, "%s, %s, %s\n", passes(tr.Passes), report.Plural(tr.Lookups, "table lookup"),
		report.Plural(tr.Resubmits, "resubmit"))
	for _, s := range tr.Opaque {
		fmt.Fprintf(b, "note: where %s sends it depends on what the switch has learned\n", s)
	}
	for _, s := range tr.Undefined {
		fmt.Fprintf(b, "note: %s: which is taken is undefined\n", s)
	}
	for _, n := range tr.NotUnderstood {
		fmt.Fprintf(b, "note: line %d was not understood, and the walk ends there: %s: %s\n", n.Line, n.Text, n.Reason)
	}
}

func passes(n int) string {
	if n == 1 {
		return "1 pass"
	}
	return fmt.Sprintf("%d passes", n)
}

func (ev traceEvent) line() string {
	text := ev.Text
	if ev.With != "" {
		text += " with " + ev.With
	}
	if ev.Learns != "" {
		text += ": " + ev.Learns
	}
	return text
}

// mostWalks is how often a packet is followed to list its outcomes.
const mostWalks = 4096

// outcomes lists how the packet may fare.
func (e env) outcomes(ctx context.Context, p *walk.Pipeline, packet *walk.Packet, format string) error {
	whole := false
	list, err := until(ctx, func() (list []walk.Outcome) {
		list, whole = p.Outcomes(packet, mostWalks)
		return list
	})
	if err != nil {
		return err
	}
	type outcome struct {
		Answers []string    `json:"answers"`
		Cases   int         `json:"cases"`
		Trace   packetTrace `json:"trace"`
	}
	out := struct {
		Whole    bool      `json:"whole"`
		Outcomes []outcome `json:"outcomes"`
	}{Whole: whole}
	for _, o := range list {
		out.Outcomes = append(out.Outcomes, outcome{append([]string{}, o.Answers...), o.Cases, traceOf(p, packet, o.Walk)})
	}
	if format == report.JSON {
		return writeJSON(e.stdout, out)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.PrintPacket(packet.Terms(p.Words)))
	for i, o := range out.Outcomes {
		fmt.Fprintf(&b, "\noutcome %d, of %s", i+1, report.Plural(o.Cases, "case"))
		if len(o.Answers) > 0 {
			fmt.Fprintf(&b, ", such as %s", strings.Join(o.Answers, "; "))
		}
		b.WriteString("\n")
		o.Trace.conclusion(&b)
	}
	if !whole {
		fmt.Fprintf(&b, "\nnote: there are more: only the first %d cases were followed\n", mostWalks)
	}
	return report.Lines(e.stdout, strings.TrimSuffix(b.String(), "\n"), e.listOptions(format))
}
