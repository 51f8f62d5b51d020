package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Compare writes what changed from run a to run b as format, one of
// TableFormats. The runs' names stand in headings.
func Compare(w io.Writer, format string, a, b string, c rank.Comparison, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, compareBlocks(a, b, c, o), o.as(format))
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
	out := []block{heading{1, fmt.Sprintf("%s -> %s", a, b)}}
	if len(c.Conditions) > 0 {
		out = append(out, alert("The runs differ in more than time: what changed below may come from that."), conditionGrid(c.Conditions))
	}
	out = append(out, para(verdicts(c)))
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
		g := changeGrid(q, changes[:n])
		for _, f := range c.Families {
			if f.Question != nil && *f.Question == q {
				g.legend = reachText(f)
			}
		}
		out = append(out, g)
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
	if c.Family == rank.PerComparison && len(c.Families) == 1 {
		out = append(out, para(reachText(c.Families[0])))
	}
	return append(out, para(compareLegend(c, o)))
}

// compareLegend explains the columns, and what the verdicts promise.
func compareLegend(c rank.Comparison, o Options) string {
	family := "the rows of a question (one table)"
	if c.Family == rank.PerComparison {
		family = "all rows"
	}
	by := "p"
	if c.Correction == rank.ByDiscovery {
		by = "fdr"
	}
	return fmt.Sprintf("b/a is the change of the figure itself, host b/a that of the baseline network in the same cell, and vs host the first relative to "+
		"the second, repetition by repetition: the verdict rests on it, or on b/a where that is written. In brackets its %s interval, which includes the drift of the machine. "+
		"finds is the smallest change that these repetitions would have shown with 80 %% power. "+
		"p is adjusted by Holm within %s: in each such family the chance of any false claim is at most %.0f %%. "+
		"fdr is adjusted over all rows by Benjamini and Hochberg: of the rows below 0.05 at most 5 %% are false on average. Verdicts are drawn by %s. "+
		"~ means no significant difference, which is not a proof that there is none.", o.level(), family, 5.0, by)
}

// reachText says what a family of tests could have found, and what to do for more.
func reachText(f rank.Reach) string {
	size := fmt.Sprintf("%.3g %%", f.Change*100)
	out := fmt.Sprintf("A change of %s would have been found in %d of %s.", size, f.Found, Plural(f.Tests, "row"))
	switch {
	case f.Found == f.Tests:
	case f.NeedsMost > 0:
		out += fmt.Sprintf(" For half of them it takes --repetitions %d in both runs, for all %d.", f.NeedsMedian, f.NeedsMost)
	case f.NeedsMedian > 0:
		out += fmt.Sprintf(" For half of them it takes --repetitions %d in both runs; for all no number would do, as the machine drifts by more than that or the figures scatter too much.", f.NeedsMedian)
	default:
		out += " No number of repetitions would do for half of them: the machine drifts by more than that, or the figures scatter too much. Run on an idle machine, or for longer."
	}
	return out
}

func conditionGrid(conditions []rank.Condition) grid {
	g := grid{title: "Conditions that differ"}
	g.table.cols = []column{{head: "condition"}, {head: "a"}, {head: "b"}}
	for _, c := range conditions {
		g.table.add(c.Name, cmp.Or(oneLine(c.A), "-"), cmp.Or(oneLine(c.B), "-"))
	}
	return g
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
	return fmt.Sprintf("%s of %s compared.", strings.Join(parts, ", "), Plural(len(c.Changes)-n[rank.Reference], "figure"))
}

func changeGrid(q sample.Question, changes []rank.Change) grid {
	g := grid{title: fmt.Sprintf("%s, %s: %s", q.Workload, q.Scenario, load(q))}
	g.table.cols = []column{{head: "network"}, {head: "metric"}, {"a", true, 0}, {"b", true, 0}, {"b/a", true, 2},
		{"host b/a", true, 6},
		{"vs host", true, 0}, {"interval", true, 5}, {"finds", true, 1}, {"p", true, 3}, {"fdr", true, 4}, {head: "verdict"}}
	for _, c := range changes {
		s := scaleFor(c.Metric.Unit, max(c.A.Center, c.B.Center))
		p, fdr, finds := "", "", ""
		if c.Tested {
			p = pvalue(c.Adjusted)
			if c.Verdict != rank.Reference {
				fdr = pvalue(c.Discovery)
			}
		}
		if c.Finds != nil && c.Verdict != rank.Reference {
			finds = findable(*c.Finds)
		}
		host, relative := "", "-"
		switch {
		case c.Relative != nil:
			host, relative = percent(c.Baseline.Center), percent(c.Relative.Center)
		case c.Verdict != rank.Reference:
			relative = "b/a " + percent(c.Ratio.Center)
		}
		var notes []string
		for _, w := range c.Warnings {
			notes = append(notes, w.Gate+": "+w.Text)
		}
		g.table.add(c.Network, title(c.Metric)+" "+shortUnit(s.unit), s.pm(c.A), s.pm(c.B), percent(c.Ratio.Center), host,
			relative, percentRange(basis(c)), finds, p, fdr, strings.TrimSpace(string(c.Verdict)+" "+g.notes.mark(notes)))
	}
	return g
}

// findable is a size of change; nothing above tenfold means anything.
func findable(v float64) string {
	if v > 10 {
		return ">1000 %"
	}
	return strconv.FormatFloat(v*100, 'f', decimals(v*100)/2, 64) + " %"
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
	head := []string{"network", "workload", "placement", "pairs", "mtu", "connections", "size", "rate", "congestion",
		"metric", "unit"}
	for _, name := range []string{"a", "b", "ratio", "relative", "baseline"} {
		head = append(head, name, name+"_low", name+"_high", name+"_n")
	}
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write(append(head, "p", "holm", "fdr", "finds", "needs", "significant", "verdict", "kernel"))
	for _, ch := range c.Changes {
		row := append(cellCells(ch.Cell), ch.Metric.Name, ch.Metric.Unit)
		row = append(row, intervalCells(&ch.A)...)
		row = append(row, intervalCells(&ch.B)...)
		row = append(row, intervalCells(&ch.Ratio)...)
		row = append(row, intervalCells(ch.Relative)...)
		row = append(row, intervalCells(ch.Baseline)...)
		finds := ""
		if ch.Finds != nil {
			finds = exact(*ch.Finds)
		}
		_ = cw.Write(append(row, exact(ch.P), exact(ch.Adjusted), exact(ch.Discovery), finds, strconv.Itoa(ch.Needs),
			fmt.Sprint(ch.Significant), string(ch.Verdict), kernelCell(ch.Scenario)))
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
