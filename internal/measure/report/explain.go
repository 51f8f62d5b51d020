package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pathwise.dev/pathwise/internal/explain"
)

// Folded is the format of stacks that flame graph programs read.
const Folded = "folded"

// ExplainFormats lists what Explain writes, the default first.
func ExplainFormats() []string { return []string{Text, Wide, Markdown, CSV, JSON, Folded} }

// Explain writes where the CPU time went and what bounds each network, as format.
func Explain(w io.Writer, format, name string, findings []explain.Finding, stages []StageDoc, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, explainBlocks(name, findings, stages, o), o.as(format))
	case Markdown:
		return writeMarkdown(w, explainBlocks(name, findings, stages, Options{}))
	case CSV:
		return writeExplainCSV(w, findings)
	case JSON:
		return writeJSON(w, ExplainDocument{"pathwise/explanation", 1, name, stages, findings})
	case Folded:
		return writeExplainFolded(w, findings)
	}
	return unknownFormat(format, ExplainFormats())
}

// StageDoc is a stage and what it is.
type StageDoc struct {
	Stage explain.Stage `json:"stage"`
	Doc   string        `json:"doc"`
}

// StageDocs lists the stages of a table but idleness, in its order.
func StageDocs(t *explain.Table) (out []StageDoc) {
	for _, s := range t.Stages() {
		if s != explain.Idle {
			out = append(out, StageDoc{s, t.Doc(s)})
		}
	}
	return out
}

// ExplainDocument is the JSON form. Shares are from 0 to 1; costs are
// CPU-seconds per unit of work.
type ExplainDocument struct {
	Format   string            `json:"format"`
	Version  int               `json:"version"`
	Name     string            `json:"name"`
	Stages   []StageDoc        `json:"stages"`
	Findings []explain.Finding `json:"findings"`
}

// byQuestion splits findings, which come in the order of questions.
func byQuestion(findings []explain.Finding) (out [][]explain.Finding) {
	for _, f := range findings {
		if n := len(out); n > 0 && out[n-1][0].Question() == f.Question() {
			out[n-1] = append(out[n-1], f)
			continue
		}
		out = append(out, []explain.Finding{f})
	}
	return out
}

func explainBlocks(name string, findings []explain.Finding, stages []StageDoc, o Options) []block {
	out := []block{heading{1, name + ": where the CPU time went"}}
	if len(findings) == 0 {
		return append(out, alert("no trial ended ok: there is nothing to explain"))
	}
	for _, fs := range byQuestion(findings) {
		q := fs[0].Question()
		title := fmt.Sprintf("%s, %s: %s", q.Workload, q.Scenario, load(q))
		for _, part := range columnsThatFit(fs, o.Width) {
			out = append(out, grid{title: title, table: explainTable(part, stages)})
			title = ""
		}
		for _, f := range fs {
			out = append(out, para(f.Sentence))
		}
	}
	for _, why := range missing(findings) {
		out = append(out, alert(why))
	}
	return append(out, explainLegend())
}

func explainLegend() para {
	return para("Stages are shares of the lab's own CPU time, told from samples of kernel stacks: of its pods and hosts, without the underlay, which represents a wire, and without other programs. " +
		"Client and server are the pods and their hosts. Packets are those that the receiving pods got, and those that the client's host sent on the underlay; " +
		"one GSO packet counts once.")
}

// missing says of which networks there are no samples, and of which not all limits'
// counters, and why.
func missing(findings []explain.Finding) []string {
	samples := func(f explain.Finding) []string {
		if f.Missing == "" {
			return nil
		}
		return []string{f.Missing}
	}
	counters := func(f explain.Finding) []string { return f.Limits.Unread }
	return append(lacking("no samples of", findings, samples),
		lacking("not all limits are counted of", findings, counters)...)
}

// lacking groups networks by what they lack.
func lacking(what string, findings []explain.Finding, of func(explain.Finding) []string) (out []string) {
	var order []string
	by := map[string][]string{}
	for _, f := range findings {
		for _, why := range of(f) {
			if by[why] == nil {
				order = append(order, why)
			}
			if !slices.Contains(by[why], f.Network) {
				by[why] = append(by[why], f.Network)
			}
		}
	}
	for _, why := range order {
		out = append(out, fmt.Sprintf("%s %s: %s", what, listed(by[why], ", ", 0), why))
	}
	return out
}

// columnsThatFit splits the networks of a question where a terminal has no room
// for all: figures are not left out.
func columnsThatFit(fs []explain.Finding, width int) (out [][]explain.Finding) {
	const names, least = 22, 9
	room := width - names
	for _, f := range fs {
		w := max(utf8.RuneCountInString(f.Network), least) + len(gap)
		n := len(out)
		if n == 0 || width > 0 && room < w {
			out = append(out, nil)
			n++
			room = width - names
		}
		out[n-1] = append(out[n-1], f)
		room -= w
	}
	return out
}

// explainTable has a column for each network.
func explainTable(fs []explain.Finding, stages []StageDoc) (t table) {
	t.cols = []column{{head: ""}}
	for _, f := range fs {
		t.cols = append(t.cols, column{head: f.Network, right: true})
	}
	for _, r := range explainRows(stages) {
		cells := []string{r.name}
		some := r.always
		for _, f := range fs {
			v, ok := r.value(f)
			if !ok {
				v = "-"
			}
			cells = append(cells, v)
			some = some || ok
		}
		if some {
			t.rows = append(t.rows, cells)
		}
	}
	return t
}

// explainRow is one figure of findings; ok where there is one.
type explainRow struct {
	name   string
	always bool
	value  func(explain.Finding) (string, bool)
}

func explainRows(stages []StageDoc) []explainRow {
	context := func(c explain.Context) explainRow {
		return shareRow("  "+string(c), func(f explain.Finding) float64 { return f.Contexts[c] })
	}
	rows := []explainRow{
		{"CPU-s per GB", false,
			func(f explain.Finding) (string, bool) { return digits(f.Lab), f.Lab > 0 && f.Unit == explain.PerGB }},
		{"CPU-s per 1000 ops", false,
			func(f explain.Finding) (string, bool) { return digits(f.Lab), f.Lab > 0 && f.Unit == explain.PerKop }},
		context(explain.User), context(explain.System), context(explain.SoftIRQ),
	}
	for _, s := range stages {
		r := shareRow(string(s.Stage), func(f explain.Finding) float64 { return f.Share(s.Stage) })
		if s.Stage == explain.Unattributed {
			r = explainRow{string(s.Stage), false, func(f explain.Finding) (string, bool) {
				return shareText(f.Share(s.Stage)),
					f.Samples > 0
			}}
		}
		rows = append(rows, r)
	}
	rows = append(rows,
		explainRow{"machine idle", true, func(f explain.Finding) (string, bool) { return shareText(f.Machine.Idle), true }},
		shareRow("  other programs", func(f explain.Finding) float64 { return f.Others }),
		explainRow{"core most in softirq", false, func(f explain.Finding) (string, bool) {
			return shareText(mostSoftIRQ(f)),
				len(f.Cores) > 0
		}},
	)
	return slices.Concat(rows, limitRows(), demandRows(), packetRows())
}

// demandRows are what each side's programs ask of the processor.
func demandRows() (rows []explainRow) {
	for _, side := range demandSides() {
		rows = append(rows,
			shareRow(side+" CPU", func(f explain.Finding) float64 { return f.Demand[side].CPU }),
			explainRow{"  us per KB", false,
				func(f explain.Finding) (string, bool) { v := f.Demand[side].PerKB; return digits(v), v > 0 }},
			explainRow{"  us per operation", false, func(f explain.Finding) (string, bool) {
				v := f.Demand[side].PerOperation
				return digits(v), v > 0 && f.Unit == explain.PerKop
			}})
	}
	return rows
}

// packetRows are how many packets of what size a piece of work takes.
func packetRows() (rows []explainRow) {
	for _, d := range []struct {
		name string
		of   func(explain.Finding) *explain.Packets
	}{
		{"pod packets", func(f explain.Finding) *explain.Packets { return f.Pod }},
		{"uplink packets", func(f explain.Finding) *explain.Packets { return f.Uplink }},
	} {
		figure := func(name string, v func(explain.Finding, *explain.Packets) float64) explainRow {
			return explainRow{name, false, func(f explain.Finding) (string, bool) {
				p := d.of(f)
				if p == nil {
					return "", false
				}
				return digits(v(f, p)), v(f, p) > 0
			}}
		}
		rows = append(rows,
			figure(d.name+"/GB",
				func(f explain.Finding, p *explain.Packets) float64 { return ifUnit(f, explain.PerGB, p.PerWork) }),
			figure(d.name+"/op",
				func(f explain.Finding, p *explain.Packets) float64 { return ifUnit(f, explain.PerKop, p.PerWork/1000) }),
			figure("  mean size, B", func(_ explain.Finding, p *explain.Packets) float64 { return p.Size }),
			figure("  segments in each", func(_ explain.Finding, p *explain.Packets) float64 { return p.Segments }))
	}
	return rows
}

// shareRow is a share of the processors' time, shown where there is some.
func shareRow(name string, of func(explain.Finding) float64) explainRow {
	return explainRow{name, false, func(f explain.Finding) (string, bool) { v := of(f); return shareText(v), v > 0 }}
}

func ifUnit(f explain.Finding, u explain.Unit, v float64) float64 {
	if f.Unit != u {
		return 0
	}
	return v
}

// demandSides are the sides of a demand, in the order in which they are shown.
func demandSides() []string { return []string{"client", "server", "shared", "underlay"} }

func mostSoftIRQ(f explain.Finding) (most float64) {
	for _, c := range f.Cores {
		most = max(most, c.SoftIRQ)
	}
	return most
}

// shareText shows a share in per cent.
func shareText(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// digits shows three digits, without an exponent.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// writeExplainCSV writes tidy data: one figure a row.
func writeExplainCSV(w io.Writer, findings []explain.Finding) error {
	cw := csv.NewWriter(w)
	_ = cw.Write([]string{"network", "workload", "placement", "pairs", "mtu", "connections", "size", "rate", "congestion",
		"kernel", "group", "name", "figure", "unit", "value"})
	for _, f := range findings {
		head := append(cellCells(f.Cell), kernelCell(f.Scenario))
		row := func(group, name, figure, unit string, v float64) {
			_ = cw.Write(append(head[:len(head):len(head)], group, name, figure, unit, exact(v)))
		}
		_ = cw.Write(append(head[:len(head):len(head)], "bound", string(f.Bound), "sentence", "", oneLine(f.Sentence)))
		if f.Missing != "" {
			_ = cw.Write(append(head[:len(head):len(head)], "samples", "missing", "reason", "", oneLine(f.Missing)))
		}
		perWork := "CPU-s/" + string(f.Unit)
		row("samples", "all", "count", "1", float64(f.Samples))
		row("samples", "lost", "count", "1", float64(f.Lost))
		row("lab", "all", "cost", perWork, f.Lab)
		row("lab", "all", "share", "ratio", f.LabShare)
		row("lab", "outside", "share", "ratio", f.Outside)
		row("lab", "others", "share", "ratio", f.Others)
		row("lab", "contended", "share", "ratio", f.Contended)
		row("lab", "tunnels", "share", "ratio", f.Tunnels)
		for _, c := range []explain.Context{explain.User, explain.System, explain.SoftIRQ} {
			row("context", string(c), "share", "ratio", f.Contexts[c])
		}
		for _, c := range f.Stages {
			row("stage", string(c.Stage), "share", "ratio", c.Share)
			row("stage", string(c.Stage), "cost", perWork, c.PerWork)
		}
		explainModes(row, "machine", "all", f.Machine)
		for i, c := range f.Cores {
			explainModes(row, "core", strconv.Itoa(i), c)
		}
		for _, side := range demandSides() {
			if d, ok := f.Demand[side]; ok {
				row("demand", side, "cpu", "ratio", d.CPU)
				row("demand", side, "per_kb", "us/KB", d.PerKB)
				row("demand", side, "per_operation", "us", d.PerOperation)
			}
		}
		explainLimits(row, f)
		explainPackets(row, "pod", string(f.Unit), f.Pod)
		explainPackets(row, "uplink", string(f.Unit), f.Uplink)
	}
	cw.Flush()
	return cw.Error()
}

func explainModes(row func(group, name, figure, unit string, v float64), group, name string, m explain.Modes) {
	row(group, name, "user", "ratio", m.User)
	row(group, name, "system", "ratio", m.System)
	row(group, name, "softirq", "ratio", m.SoftIRQ)
	row(group, name, "irq", "ratio", m.IRQ)
	row(group, name, "steal", "ratio", m.Steal)
	row(group, name, "idle", "ratio", m.Idle)
}

func explainPackets(row func(group, name, figure, unit string, v float64), name, work string, p *explain.Packets) {
	if p == nil {
		return
	}
	row("packets", name, "packets", "1/"+work, p.PerWork)
	row("packets", name, "size", "B", p.Size)
	row("packets", name, "segments", "1", p.Segments)
	for i, v := range p.Sizes {
		row("packets", name, "size_from_"+strconv.Itoa(1<<i), "ratio", v)
	}
}

// writeExplainFolded writes all stacks, under their network and question.
func writeExplainFolded(w io.Writer, findings []explain.Finding) error {
	for _, f := range findings {
		if err := explain.WriteFoldedUnder(w, f.Network+";"+strings.ReplaceAll(f.Question().String(), ";", ","),
			f.Stacks); err != nil {
			return err
		}
	}
	return nil
}
