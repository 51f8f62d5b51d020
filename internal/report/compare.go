package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Compare writes what changed from run a to run b as format, one of
// TableFormats. The runs' names stand in headings.
func Compare(w io.Writer, format string, a, b string, c rank.Comparison, o Options) error {
	switch format {
	case Text:
		return writeText(w, compareBlocks(a, b, c, o), o)
	case Markdown:
		return writeMarkdown(w, compareBlocks(a, b, c, o))
	case CSV:
		return writeCompareCSV(w, c)
	case JSON:
		return writeJSON(w, ComparisonDocument{"pathwise/comparison", 1, a, b, c})
	}
	return unknownFormat(format, TableFormats())
}

// ComparisonDocument is the JSON form of a comparison.
type ComparisonDocument struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	A       string `json:"a"`
	B       string `json:"b"`
	rank.Comparison
}

func compareBlocks(a, b string, c rank.Comparison, o Options) []block {
	out := []block{heading{1, fmt.Sprintf("%s -> %s", a, b)}, para(verdicts(c))}
	for _, w := range c.Warnings {
		out = append(out, alert(w.Gate+": "+w.Text))
	}
	if len(c.Statuses) > 0 {
		out = append(out, statusGrid(c.Statuses))
	}
	for changes := c.Changes; len(changes) > 0; {
		q := changes[0].Question()
		n := slices.IndexFunc(changes, func(ch rank.Change) bool { return ch.Question() != q })
		if n < 0 {
			n = len(changes)
		}
		out = append(out, changeGrid(q, changes[:n]))
		changes = changes[n:]
	}
	for _, only := range []struct {
		run   string
		cells []sample.Cell
	}{{a, c.OnlyA}, {b, c.OnlyB}} {
		if len(only.cells) > 0 {
			out = append(out, para(fmt.Sprintf("Only in %s: %s.", only.run, listed(cellNames(only.cells), ", ", 0))))
		}
	}
	return append(out, para("change is b over a, relative to the baseline network's own change where it was measured in both; "+
		"in brackets its "+o.level()+" interval. ~ means no significant difference, which is not a proof that there is none. "+
		"p is adjusted for the number of rows (Holm)."))
}

func cellNames(cells []sample.Cell) (out []string) {
	for _, c := range cells {
		out = append(out, c.String())
	}
	return out
}

// verdicts counts the rows by verdict.
func verdicts(c rank.Comparison) string {
	n := map[rank.Verdict]int{}
	for _, ch := range c.Changes {
		n[ch.Verdict]++
	}
	parts := []string{fmt.Sprintf("%d better", n[rank.Better]), fmt.Sprintf("%d worse", n[rank.Worse])}
	if n[rank.Changed] > 0 {
		parts = append(parts, fmt.Sprintf("%d changed", n[rank.Changed]))
	}
	parts = append(parts, fmt.Sprintf("%d without a significant difference", n[rank.Same]))
	return fmt.Sprintf("%s of %s compared.", strings.Join(parts, ", "), plural(len(c.Changes)-n[rank.Reference], "figure"))
}

func changeGrid(q sample.Question, changes []rank.Change) grid {
	g := grid{title: fmt.Sprintf("%s, %s: %s", q.Workload, q.Scenario, load(q))}
	g.table.cols = []column{{head: "network"}, {head: "metric"}, {"a", true, 0}, {"b", true, 0}, {"change", true, 0},
		{"interval", true, 4}, {"p", true, 3}, {head: "verdict"}}
	for _, c := range changes {
		s := scaleFor(c.Metric.Unit, max(c.A.Center, c.B.Center))
		r := basis(c)
		p := ""
		if c.Tested {
			p = pvalue(c.Adjusted)
		}
		var notes []string
		for _, w := range c.Warnings {
			notes = append(notes, w.Gate+": "+w.Text)
		}
		g.table.add(c.Network, title(c.Metric)+" "+shortUnit(s.unit), s.pm(c.A), s.pm(c.B), percent(r.Center),
			percentRange(r), p, strings.TrimSpace(string(c.Verdict)+" "+g.notes.mark(notes)))
	}
	return g
}

// basis is the ratio on which the verdict rests.
func basis(c rank.Change) stat.Interval {
	if c.Relative != nil {
		return *c.Relative
	}
	return c.Ratio
}

// percentRange is "[-9.1, -4.8]"; empty where a bound is missing.
func percentRange(r stat.Interval) string {
	if !r.Bounded() {
		return ""
	}
	return fmt.Sprintf("[%s, %s]", signed((r.Low-1)*100, 1), signed((r.High-1)*100, 1))
}

func statusGrid(changes []rank.StatusChange) grid {
	g := grid{title: "Cells that ended otherwise"}
	g.table.cols = []column{{head: "cell"}, {"ok in a", true, 0}, {"ok in b", true, 0}, {head: "notes"}}
	ends := func(run string, es []rank.End) (out []string) {
		for _, e := range es {
			if e.Status != sample.OK {
				out = append(out, fmt.Sprintf("%s: %s: %s (%d x)", run, e.Status, oneLine(e.Reason), e.Count))
			}
		}
		return out
	}
	for _, c := range changes {
		g.table.add(c.Cell.String(), share(c.OKA), share(c.OKB), g.notes.mark(append(ends("a", c.A), ends("b", c.B)...)))
	}
	return g
}

func share(v float64) string { return fmt.Sprintf("%.0f %%", v*100) }

func writeCompareCSV(w io.Writer, c rank.Comparison) error {
	cw := csv.NewWriter(w)
	head := []string{"network", "workload", "placement", "pairs", "mtu", "connections", "size", "rate", "metric", "unit"}
	for _, name := range []string{"a", "b", "ratio", "relative"} {
		head = append(head, name, name+"_low", name+"_high", name+"_n")
	}
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write(append(head, "p", "adjusted", "significant", "verdict", "kernel"))
	for _, ch := range c.Changes {
		row := append(cellCells(ch.Cell), ch.Metric.Name, ch.Metric.Unit)
		row = append(row, intervalCells(&ch.A)...)
		row = append(row, intervalCells(&ch.B)...)
		row = append(row, intervalCells(&ch.Ratio)...)
		row = append(row, intervalCells(ch.Relative)...)
		_ = cw.Write(append(row, exact(ch.P), exact(ch.Adjusted), fmt.Sprint(ch.Significant), string(ch.Verdict), kernelCell(ch.Scenario)))
	}
	cw.Flush()
	return cw.Error()
}

// intervalCells are centre, low, high and n; empty where i is nil.
func intervalCells(i *stat.Interval) []string {
	if i == nil {
		return make([]string, 4)
	}
	return []string{bound(i.Center), bound(i.Low), bound(i.High), fmt.Sprint(i.N)}
}

// bound is v with every digit; empty where the data give none.
func bound(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return exact(v)
}
