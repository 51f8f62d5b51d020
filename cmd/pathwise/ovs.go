package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/report"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/bundle"
	"pathwise.dev/pathwise/internal/pipeline/graph"
	"pathwise.dev/pathwise/internal/pipeline/survey"
)

func ovsCommand(e env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ovs",
		Short: "Explain pipelines of Open vSwitch",
		Long: `Explain pipelines of Open vSwitch, from a dump of flows or from a bridge. What a
pipeline means here is in docs/explanation/pipelines.md.`,
		Example: `  pathwise ovs show br-int
  ovs-ofctl dump-flows br0 | pathwise ovs show -`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ovsShowCommand(e), ovsTraceCommand(e), ovsDepthCommand(e), ovsEqualCommand(e),
		ovsShortenCommand(e))
	return cmd
}

func ovsShowCommand(e env) *cobra.Command {
	var format string
	var dead bool
	var patches []string
	cmd := &cobra.Command{
		Use:   "show FILE|BRIDGE",
		Short: "Show a pipeline's tables, jumps, recirculations and dead flows",
		Long: `Show what a pipeline consists of: its tables with their flows and packets, the ways
between them, the fields that they read and write, the zones in which they track
connections, and each place where a packet is recirculated, that is begins another
pass of the datapath. Passes are what cached packets pay for.

Dead flows are those that no packet can meet, with the reason: hidden by flows of
higher priority, in a table that nothing leads to, or wanting a value that nothing
loads. In doubt a flow is not dead. Flows that have met no packet so far are another
matter, and are counted apart. Tables that only a controller's own packets enter
(packet-out) seem not to be reached.

With -o html, the tables and the ways between them are drawn.

FILE is the output of "ovs-ofctl dump-flows" (with that of "dump-groups" after it,
where there are groups) or a list for "ovs-ofctl add-flows"; - is standard input.
BRIDGE is a name, or unix:SOCKET, which ovs-ofctl is asked for.

Bridges that patch ports join are one pipeline: name them all, with commas in between,
such as br-int,br-tun. Packets are followed through the patch ports that ovs-vsctl knows.
Of files, each has the name of its bridge before it, and --patch tells the ports.`,
		Example: `  pathwise ovs show br-int
  pathwise ovs show flows.txt --dead
  ovs-ofctl dump-flows br0 | pathwise ovs show -
  pathwise ovs show flows.txt -o html
  pathwise ovs show br-int,br-tun
  pathwise ovs show br-int=int.txt,br-tun=tun.txt --patch br-int:2=br-tun:1
  pathwise ovs show flows.txt -o json | jq -r '.dead[] | .why'`,
		Args: exactArgs("FILE|BRIDGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format, append(listFormats(), report.HTML)...); err != nil {
				return err
			}
			p, err := e.readPipeline(cmd.Context(), args[0], patches)
			if err != nil {
				return err
			}
			s, err := until(cmd.Context(), func() survey.Survey { return survey.Of(p) })
			if err != nil {
				return err
			}
			return e.showSurvey(s, format, dead)
		},
	}
	formatFlag(cmd, &format, append(listFormats(), report.HTML)...)
	patchFlag(cmd, &patches)
	cmd.Flags().BoolVar(&dead, "dead", false, "list the dead flows alone, each whole")
	return cmd
}

// showSurvey prints what a pipeline consists of, or its dead flows alone.
func (e env) showSurvey(s survey.Survey, format string, dead bool) error {
	switch {
	case format == report.JSON:
		return writeJSON(e.stdout, s)
	case format == report.HTML:
		return graph.Write(e.stdout, s)
	case dead:
		return printDead(e.stdout, s, e.listOptions(format))
	}
	return printSurvey(e.stdout, s, e.listOptions(format))
}

// until is what comes of a reckoning, unless it is to end before: it is left then, as the program ends.
func until[T any](ctx context.Context, reckon func() T) (out T, err error) {
	done := make(chan T, 1)
	go func() { done <- reckon() }()
	select {
	case out = <-done:
		return out, nil
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

// checkPackets wants --packets to be at least the least.
func checkPackets(n, least int) error {
	if n < least {
		return usageError{fmt.Errorf("--packets=%d: expected a number from %d", n, least)}
	}
	return nil
}

// readPipeline reads the flows of a file, of standard input, or of a bridge, or of several.
func (e env) readPipeline(ctx context.Context, name string, patches []string) (*pipeline.Pipeline, error) {
	return e.readBridges(ctx, name, pipeline.NewNames(), patches)
}

// readNamed reads a pipeline whose ports and tables have the names that are known.
func (e env) readNamed(ctx context.Context, name string, names *pipeline.Names) (*pipeline.Pipeline, error) {
	p := pipeline.New(names)
	info, err := os.Stat(name)
	switch {
	case name == "-":
		err = p.Read(e.stdin)
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("read flows: %s is a directory: expected a file of flows, or a bridge", name)
	case err == nil:
		err = readFlows(p, name)
	case strings.ContainsRune(name, '/') && !strings.Contains(name, ":"):
		return nil, fmt.Errorf("read flows: %w", err)
	default:
		err = bundle.Bridge(name).Read(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	if p.Second > 0 {
		return nil, fmt.Errorf("%s:%d: a second dump begins here, as of another bridge: expected the flows of one bridge; "+
			"split the file, and see each by itself, or both as %q with --patch", name, p.Second, "br-int=FILE,br-tun=FILE")
	}
	if len(p.Flows) == 0 {
		if len(p.Lost) > 0 {
			l := p.Lost[0]
			return nil, fmt.Errorf("%s:%d: %s: expected a flow, such as \"table=0,priority=10,ip actions=drop\"", name, l.Line,
				l.Reason)
		}
		return nil, fmt.Errorf("%s: there are no flows: expected the output of \"ovs-ofctl dump-flows\"", name)
	}
	return p, nil
}

func readFlows(p *pipeline.Pipeline, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open flows: %w", err)
	}
	defer f.Close()
	return p.Read(f)
}

// printSurvey writes the survey as text.
func printSurvey(w io.Writer, s survey.Survey, o report.Options) error {
	if err := report.Lines(w, overview(s), o); err != nil {
		return err
	}
	tables := report.NewList(report.Head{Name: "TABLE"}, report.Head{Name: "FLOWS", Right: true},
		report.Head{Name: "PACKETS", Right: true, Drop: 2}, report.Head{Name: "IDLE", Right: true, Drop: 3},
		report.Head{Name: "DEAD", Right: true}, report.Head{Name: "LEADS TO"}, report.Head{Name: "ZONES", Drop: 1})
	for _, t := range s.Tables {
		packets, idle := "-", "-"
		if s.Idle >= 0 {
			packets, idle = strconv.FormatUint(t.Packets, 10), strconv.Itoa(t.Idle)
		}
		tables.Add(t.Name, strconv.Itoa(t.Flows), packets, idle, strconv.Itoa(t.Dead), leads(t),
			orDash(strings.Join(t.Zones, " ")))
		tables.Note("reads " + orDash(strings.Join(t.Reads, " ")))
		tables.Note("writes " + orDash(strings.Join(t.Writes, " ")))
	}
	if err := tables.Write(w, o); err != nil {
		return err
	}
	if len(s.Recirculations) > 0 {
		fmt.Fprintln(w)
		if err := recirculations(s).Write(w, o); err != nil {
			return err
		}
	}
	for _, part := range []string{deadText(s), notes(s)} {
		if part == "" {
			continue
		}
		fmt.Fprintln(w)
		if err := report.Lines(w, strings.TrimSuffix(part, "\n"), o); err != nil {
			return err
		}
	}
	return nil
}

// overview is the survey in one line.
func overview(s survey.Survey) string {
	out := fmt.Sprintf("%s in %s, %s, %s, %d dead", report.Plural(s.Flows, "flow"), report.Plural(len(s.Tables), "table"),
		report.Plural(s.Groups, "group"), report.Plural(len(s.Recirculations), "recirculation"), len(s.Dead))
	if s.Idle >= 0 {
		out += fmt.Sprintf(", %s without a packet so far", report.Plural(s.Idle, "other"))
	}
	return out + "\n"
}

// leads says where a table's flows lead, and how many do.
func leads(t survey.Table) string {
	var order []string
	flows := map[string]int{}
	add := func(to string, n int) {
		if flows[to] == 0 {
			order = append(order, to)
		}
		flows[to] += n
	}
	for _, j := range t.Jumps {
		if j.Kind == string(pipeline.CT) {
			add("ct:"+j.To, j.Flows)
		} else {
			add(j.To, j.Flows)
		}
	}
	if t.Ends > 0 {
		add("end", t.Ends)
	}
	for i, to := range order {
		order[i] = fmt.Sprintf("%s (%d)", to, flows[to])
	}
	if !t.Reached {
		order = append(order, "not reached")
	}
	return strings.Join(order, ", ")
}

func recirculations(s survey.Survey) *report.List {
	l := report.NewList(report.Head{Name: "RECIRCULATION"}, report.Head{Name: "FROM"}, report.Head{Name: "TO"},
		report.Head{Name: "ZONE"}, report.Head{Name: "COMMITS"}, report.Head{Name: "PACKETS", Right: true, Drop: 1})
	for _, r := range s.Recirculations {
		commits, packets := "no", "-"
		if r.Commit {
			commits = "yes"
		}
		if s.Idle >= 0 {
			packets = strconv.FormatUint(r.Packets, 10)
		}
		l.Add(fmt.Sprintf("line %d", r.Line), r.Table, r.To, r.Zone, commits, packets)
	}
	return l
}

// deadText lists the first dead flows by line.
func deadText(s survey.Survey) string {
	const shown = 20
	var out strings.Builder
	for i, d := range s.Dead {
		if i == shown {
			fmt.Fprintf(&out, "and %d more dead flows: see --dead\n", len(s.Dead)-shown)
			break
		}
		fmt.Fprintf(&out, "line %d, table %s: dead: %s\n", d.Line, d.Table, d.Why)
	}
	return out.String()
}

// notes are what limits the survey.
func notes(s survey.Survey) string {
	var out strings.Builder
	for _, u := range s.Unsure {
		fmt.Fprintf(&out, "note: %s, so that each table may be reached\n", u)
	}
	for _, o := range s.Overlaps[:min(len(s.Overlaps), 5)] {
		fmt.Fprintf(&out, "note: table %s: lines %d and %d have priority %d, and some packets meet both: which is taken is undefined\n",
			o.Table, o.Lines[0], o.Lines[1], o.Priority)
	}
	if n := len(s.Overlaps) - 5; n > 0 {
		fmt.Fprintf(&out, "note: %d more such pairs: see -o json\n", n)
	}
	for i, n := range slices.Concat(s.Lost, s.NotUnderstood) {
		if i == 5 {
			fmt.Fprintf(&out, "note: %d more places were not understood: see -o json\n", len(s.Lost)+len(s.NotUnderstood)-i)
			break
		}
		fmt.Fprintf(&out, "note: line %d was not understood: %s: %s\n", n.Line, n.Text, n.Reason)
	}
	return out.String()
}

// printDead lists the dead flows, each with its reason.
func printDead(w io.Writer, s survey.Survey, o report.Options) error {
	var out strings.Builder
	for _, d := range s.Dead {
		fmt.Fprintf(&out, "line %d, table %s: %s\n  %s\n", d.Line, d.Table, d.Why, d.Flow)
	}
	if len(s.Dead) == 0 {
		out.WriteString("no dead flows\n")
	}
	return report.Lines(w, strings.TrimSuffix(out.String(), "\n"), o)
}
