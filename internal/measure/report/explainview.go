package report

import (
	"cmp"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/explain"
)

// explainView is the section about where the CPU time went.
type explainView struct {
	Questions []explainQuestion
	Stages    []stageView
	Missing   []string
	Legend    string
}

// stageView explains a colour.
type stageView struct{ Class, Name, Doc string }

// explainQuestion is what networks took for one question.
type explainQuestion struct {
	ID, Title, Unit string
	Bars            []explainBar
	Table           *dataTable
	Sentences       []explainSentence
	Flames          []flameView
}

// explainBar is a network's stacked bar; positions are parts of the scale, 0 to 100.
type explainBar struct {
	Network, Total string
	Parts          []barPart
}

type barPart struct {
	X, Width     float64
	Class, Title string
}

type explainSentence struct{ Network, Bound, Text string }

// flameView is a flame graph, 1200 wide.
type flameView struct {
	Network string
	Samples uint64
	Height  int
	Boxes   []flameBox
}

// flameBox is one function; Label is as much of its name as has room.
type flameBox struct {
	X, Width, Y        float64
	Class, Name, Label string
	Title              string
}

// Measures of a flame graph: its width, the height of a box, the least share of
// a box that is drawn, and the width of a letter.
const (
	flameWidth  = 1200
	flameRow    = 15
	flameLeast  = 0.002
	flameLetter = 5.6
)

// newExplainView is nil where nobody looked inside any trial.
func newExplainView(a *analysis) *explainView {
	if !slices.ContainsFunc(a.Findings, func(f explain.Finding) bool { return f.Missing != explain.NotSampled }) {
		return nil
	}
	out := &explainView{Missing: missing(a.Findings), Legend: string(explainLegend())}
	for _, s := range a.Stages {
		if slices.ContainsFunc(a.Findings, func(f explain.Finding) bool { return f.Share(s.Stage) > 0 }) {
			out.Stages = append(out.Stages, stageView{stageClass(s.Stage), string(s.Stage), s.Doc})
		}
	}
	for i, fs := range byQuestion(a.Findings) {
		out.Questions = append(out.Questions, newExplainQuestion(i, fs, a))
	}
	return out
}

func newExplainQuestion(i int, fs []explain.Finding, a *analysis) explainQuestion {
	q := fs[0].Question()
	out := explainQuestion{
		ID: fmt.Sprintf("x%d", i+1), Title: fmt.Sprintf("%s, %s: %s", q.Workload, q.Scenario, load(q)),
		Unit: "CPU-s per " + string(cmp.Or(fs[0].Unit, "second")),
	}
	var most float64
	for _, f := range fs {
		most = max(most, barLength(f))
	}
	for _, f := range fs {
		out.Sentences = append(out.Sentences, explainSentence{f.Network, string(f.Bound), f.Sentence})
		if f.Samples == 0 {
			continue
		}
		out.Bars = append(out.Bars, newExplainBar(f, most))
		out.Flames = append(out.Flames, newFlameView(f, a))
	}
	t := explainTable(fs, a.Stages)
	out.Table = &dataTable{Rows: t.rows}
	for _, c := range t.cols {
		out.Table.Head = append(out.Table.Head, c.head)
	}
	return out
}

// barLength is the CPU time for each unit of work, or of the window where no work
// was counted.
func barLength(f explain.Finding) float64 { return cmp.Or(f.Lab, f.LabShare) }

func newExplainBar(f explain.Finding, most float64) explainBar {
	bar := explainBar{Network: f.Network, Total: digits(barLength(f))}
	var x float64
	for _, c := range f.Stages {
		w := 100 * c.Share * barLength(f) / most
		title := fmt.Sprintf("%s: %s %s", f.Network, c.Stage, shareText(c.Share))
		if c.PerWork > 0 {
			title += fmt.Sprintf(", %s CPU-s per %s", digits(c.PerWork), f.Unit)
		}
		bar.Parts = append(bar.Parts, barPart{tenths(x), tenths(w), stageClass(c.Stage), title})
		x += w
	}
	return bar
}

func newFlameView(f explain.Finding, a *analysis) flameView {
	out := flameView{Network: f.Network, Samples: f.Samples}
	frames := explain.Flame(a.Table, f.Stacks, flameLeast)
	deepest := 0
	for _, fr := range frames {
		deepest = max(deepest, fr.Depth)
	}
	out.Height = (deepest + 1) * flameRow
	for _, fr := range frames {
		w := fr.Share * flameWidth
		class := "st"
		if fr.Stage != "" {
			class = stageClass(fr.Stage)
		}
		out.Boxes = append(out.Boxes, flameBox{
			X: tenths(fr.From * flameWidth), Width: tenths(w), Y: float64((deepest - fr.Depth) * flameRow), Class: class,
			Name: fr.Name, Label: fitting(fr.Name, w),
			Title: fmt.Sprintf("%s: %s of the lab's time", fr.Name, shareText(fr.Share)),
		})
	}
	return out
}

// fitting is as much of a name as has room in a box; nothing rather than a letter.
func fitting(name string, width float64) string {
	room := int((width - 4) / flameLetter)
	switch {
	case room < 3:
		return ""
	case len(name) > room:
		return ellipsis(name, room)
	}
	return name
}

// stageClass is a stage's class in the style sheet.
func stageClass(s explain.Stage) string { return "st st-" + string(s) }

// tenths keeps files small.
func tenths(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
