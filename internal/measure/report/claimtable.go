package report

import (
	"encoding/csv"
	"io"
	"strings"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// claimsGrid is a line for each finding, for the end of a run.
func claimsGrid(judged []claim.Judged) grid {
	g := grid{title: "Claims of the documents: " + claimCounts(judged)}
	g.table.cols = []column{{head: "verdict"}, {head: "claim"}, {head: "source", drop: 2}, {head: "question"},
		{head: "measured", right: true}, {head: "tested", drop: 1}}
	for _, j := range judged {
		name, source := j.ID, j.Source
		for _, f := range j.Findings {
			verdict := string(f.Verdict)
			if inPart(f) {
				verdict += " *"
				g.legend = "* without the networks that have no figures."
			}
			g.table.add(verdict, name, source, shortWhere(j, f), shortly(j.Claim, f), limits(j.Claim))
			name, source = "", ""
		}
	}
	return g
}

// shortWhere is the question in few words: "macvlan two-hosts c=8".
func shortWhere(j claim.Judged, f claim.Finding) string {
	q := told(j, f)
	var parts []string
	if f.Network != "" && len(j.Networks) > 1 {
		parts = append(parts, f.Network)
	}
	if n := q.Scenario.Pairs; n == 0 {
		q.Scenario.Pairs = 1 // the test varies it
	}
	if n := q.Scenario.MTU; n == 0 {
		q.Scenario.MTU = topo.DefaultMTU
	}
	if q.Scenario.Placement != "" {
		parts = append(parts, strings.Replace(q.Scenario.String(), "kernel=", "", 1))
	}
	if q.Load != (sample.Load{}) {
		parts = append(parts, q.Load.String())
	}
	return strings.Join(parts, " ")
}

// shortly is what was found in a word.
func shortly(c claim.Claim, f claim.Finding) string {
	switch {
	case f.Value != nil:
		m, _ := sample.MetricByName(c.Metric)
		return human(f.Value.Center, m.Unit)
	case len(f.Chosen) > 0:
		return chosenText(f.Chosen)
	case f.At != nil:
		return "at " + plainNumber(*f.At)
	case len(f.Steps) == 1:
		return ratioSpan(f.Steps[0].Ratio)
	case len(f.Steps) > 1:
		n := 0
		for _, s := range f.Steps {
			if s.Verdict == claim.Holds {
				n++
			}
		}
		return plainNumber(float64(n)) + " of " + Plural(len(f.Steps), "step")
	}
	return ""
}

// limits is what the figures are held to, in few words.
func limits(c claim.Claim) string {
	switch t := c.Test; {
	case t.Ratio != nil:
		return strings.TrimPrefix(rangeText(t.Ratio.Range, plainNumber), "from ")
	case t.Order != nil:
		return "in order"
	case t.Value != nil:
		m, _ := sample.MetricByName(c.Metric)
		return rangeText(*t.Value, func(v float64) string { return human(v, m.Unit) })
	case t.Choice != nil:
		return t.Choice.Network
	case c.Untested != "":
		return ""
	case t.Optimum != nil:
		return "at " + strings.TrimPrefix(rangeText(t.Optimum.Range, plainNumber), "from ")
	case t.Trend != nil && t.Trend.Falling:
		return "falls"
	}
	return "rises"
}

// writeClaimsCSV writes a row for each comparison, and one for a finding without.
func writeClaimsCSV(w io.Writer, judged []claim.Judged) error {
	cw := csv.NewWriter(w)
	head := []string{"claim", "source", "text", "published", "tested", "metric", "unit", "network", "workload",
		"placement", "pairs", "mtu", "connections", "size", "rate", "congestion", "kernel", "verdict", "of", "to"}
	for _, name := range []string{"of_mean", "to_mean", "ratio", "value"} {
		head = append(head, name, name+"_low", name+"_high", name+"_n")
	}
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write(append(head, "step_verdict", "best_at", "notes", "because"))
	for _, j := range judged {
		for _, f := range j.Findings {
			steps := f.Steps
			if len(steps) == 0 {
				steps = []claim.Step{{}}
			}
			for _, s := range steps {
				_ = cw.Write(append(append(claimCells(j, f), stepCells(f, s)...), j.Because))
			}
		}
	}
	cw.Flush()
	return cw.Error()
}

func claimCells(j claim.Judged, f claim.Finding) []string {
	m, _ := sample.MetricByName(j.Metric)
	q := f.Question
	cells := cellCells(sample.Cell{Scenario: q.Scenario, Workload: q.Workload, Load: q.Load})
	cells[0] = f.Network
	for i, n := range map[int]int{3: q.Scenario.Pairs, 4: q.Scenario.MTU} { // 0 where the test varies it
		cells[i] = knob(n)
	}
	out := []string{j.ID, j.Source, j.Text, j.Published, tested(j.Claim), m.Name, m.Unit}
	return append(append(out, cells...), kernelCell(q.Scenario), string(f.Verdict))
}

func stepCells(f claim.Finding, s claim.Step) []string {
	out := []string{s.Of.Name, s.To.Name}
	for _, i := range []*stat.Interval{&s.Of.Mean, &s.To.Mean, &s.Ratio} {
		if s.Of.Name == "" {
			i = nil
		}
		out = append(out, intervalCells(i)...)
	}
	out = append(out, intervalCells(f.Value)...)
	at := ""
	if f.At != nil {
		at = exact(*f.At)
	}
	return append(out, string(s.Verdict), at, strings.Join(findingNotes(f), "; "))
}
