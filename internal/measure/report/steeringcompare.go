package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// SteeringChange is one figure of a drill in two results.
type SteeringChange struct {
	A, B SteeringFigure
	// P of the test that nothing changed, as it is and adjusted; NaN where there is none.
	P, Adjusted float64
	// Verdict in a word.
	Verdict string
}

// SteeringComparison is two results of drills.
type SteeringComparison struct {
	// Conditions that differ between the runs.
	Conditions []rank.Condition
	Changes    []SteeringChange
	// OnlyA and OnlyB are figures that one of them has.
	OnlyA, OnlyB []SteeringFigure
	// By says how p is adjusted.
	By string
}

// CompareSteering writes what changed from one result of drills to another as format,
// one of TableFormats.
func CompareSteering(w io.Writer, format, a, b string, c SteeringComparison, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, c.blocks(a, b), o.as(format))
	case Markdown:
		return writeMarkdown(w, c.blocks(a, b))
	case CSV:
		return c.csv(w)
	case JSON:
		return writeJSON(w, c.document(a, b))
	}
	return unknownFormat(format, TableFormats())
}

func (c SteeringComparison) blocks(a, b string) []block {
	out := []block{heading{1, fmt.Sprintf("%s -> %s", a, b)}}
	if len(c.Conditions) > 0 {
		out = append(out, alert("The runs differ in more than time: what changed below may come from that."), conditionGrid(c.Conditions))
	}
	out = append(out, para(c.verdicts()))
	for from := 0; from < len(c.Changes); {
		g := grid{title: c.Changes[from].A.Drill}
		g.table.cols = []column{{head: "figure"}, {"a", true, 0}, {"b", true, 0}, {"a 95 %", true, 4}, {"b 95 %", true, 4},
			{"n", true, 2}, {"p", true, 1}, {head: "verdict"}, {"bar", false, 3}}
		for ; from < len(c.Changes) && c.Changes[from].A.Drill == g.title; from++ {
			ch := c.Changes[from]
			n := fmt.Sprint(ch.A.N)
			if ch.A.N != ch.B.N {
				n = fmt.Sprintf("%d, %d", ch.A.N, ch.B.N)
			}
			p := ""
			if !math.IsNaN(ch.Adjusted) {
				p = pvalue(ch.Adjusted)
			}
			g.table.add(oneLine(ch.A.Name), ch.A.value(), ch.B.value(), ch.A.interval(), ch.B.interval(), n, p, ch.Verdict,
				ch.bar())
		}
		out = append(out, g)
	}
	for _, only := range []struct {
		run     string
		figures []SteeringFigure
	}{{a, c.OnlyA}, {b, c.OnlyB}} {
		var names []string
		for _, f := range only.figures {
			names = append(names, f.Drill+": "+oneLine(f.Name))
		}
		if len(names) > 0 {
			out = append(out, para(fmt.Sprintf("Only in %s: %s.", only.run, listed(names, "; ", 0))))
		}
	}
	return append(out, para(fmt.Sprintf("p is of a permutation test of the values behind a figure, for sums of their mean, adjusted by %s. "+
		"~ means no significant difference, which is not a proof that there is none; too few, that so few values could show none. "+
		"A figure without a bar has no better and worse.", c.By)))
}

// bar is what became of the figure's bar.
func (c SteeringChange) bar() string {
	was, is := c.A.verdict(), c.B.verdict()
	if was == is {
		return is
	}
	return strings.TrimSpace(was + " -> " + is)
}

// verdicts counts the figures by verdict, and names bars that are met in one run alone.
func (c SteeringComparison) verdicts() string {
	n := map[string]int{}
	var crossed []string
	for _, ch := range c.Changes {
		n[ch.Verdict]++
		if ch.A.Met() != ch.B.Met() {
			crossed = append(crossed, fmt.Sprintf("%s: %s (%s)", ch.A.Drill, oneLine(ch.A.Name), ch.bar()))
		}
	}
	out := fmt.Sprintf("%d better, %d worse, %d changed, %d without a significant difference, %d of too few values, of %s compared.",
		n["better"], n["worse"], n["changed"], n["~"], n["too few"], Plural(len(c.Changes), "figure"))
	if len(crossed) > 0 {
		out += " Bars met in one run alone: " + listed(crossed, "; ", 6) + "."
	}
	return out
}

func (c SteeringComparison) csv(w io.Writer) error {
	cw := csv.NewWriter(w)
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write([]string{"drill", "figure", "unit", "a", "a_low", "a_high", "a_n", "b", "b_low", "b_high", "b_n", "p",
		"adjusted", "verdict", "bar_a", "bar_b"})
	for _, ch := range c.Changes {
		row := []string{ch.A.Drill, ch.A.Name, ch.A.Unit}
		for _, f := range []SteeringFigure{ch.A, ch.B} {
			row = append(row, bound(f.Value), bound(f.Low), bound(f.High), fmt.Sprint(f.N))
		}
		_ = cw.Write(append(row, bound(ch.P), bound(ch.Adjusted), ch.Verdict, ch.A.verdict(), ch.B.verdict()))
	}
	cw.Flush()
	return cw.Error()
}

// document is the JSON form.
func (c SteeringComparison) document(a, b string) any {
	type side struct {
		Value float64 `json:"value"`
		Low   float64 `json:"low"`
		High  float64 `json:"high"`
		N     int     `json:"n"`
		Bar   string  `json:"bar,omitempty"`
	}
	type change struct {
		Drill    string   `json:"drill"`
		Figure   string   `json:"figure"`
		Unit     string   `json:"unit"`
		A        side     `json:"a"`
		B        side     `json:"b"`
		P        *float64 `json:"p,omitempty"`
		Adjusted *float64 `json:"adjusted,omitempty"`
		Verdict  string   `json:"verdict"`
	}
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	sideOf := func(f SteeringFigure) side { return side{f.Value, f.Low, f.High, f.N, f.verdict()} }
	changes := []change{}
	for _, ch := range c.Changes {
		changes = append(changes, change{ch.A.Drill, ch.A.Name, ch.A.Unit, sideOf(ch.A), sideOf(ch.B), known(ch.P),
			known(ch.Adjusted), ch.Verdict})
	}
	return struct {
		Format     string           `json:"format"`
		Version    int              `json:"version"`
		A          string           `json:"a"`
		B          string           `json:"b"`
		Conditions []rank.Condition `json:"conditions,omitempty"`
		Changes    []change         `json:"changes"`
	}{"pathwise/drill-comparison", 1, a, b, c.Conditions, changes}
}
