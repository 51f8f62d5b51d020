package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// plain is text whose columns matter.
type plain []string

func (t plain) text(p *printer) {
	for _, l := range t {
		p.printf("%s\n", l)
	}
}

func (t plain) markdown(p *printer) {
	p.printf("```text\n")
	for _, l := range t {
		p.printf("%s\n", strings.ReplaceAll(l, "```", "'''"))
	}
	p.printf("```\n")
}

// items is a list.
type items []string

func (t items) text(p *printer) {
	for _, item := range t {
		for _, l := range wrap(item, p.opts.Width, 4) {
			p.printf("%s\n", l)
		}
	}
}

func (t items) markdown(p *printer) {
	for _, item := range t {
		p.printf("- %s\n", escapeMarkdown(oneLine(item)))
	}
}

// steeringBlocks is the whole page for readers of text and Markdown; time lines
// are drawn width columns wide, and the names of figures broken at nameWidth.
func steeringBlocks(s *steeringStudy, width, nameWidth int) []block {
	out := []block{heading{1, s.title()}}
	if t := s.subtitle(); t != "" {
		out = append(out, para(t+"."))
	}
	if s.Incomplete != "" {
		out = append(out, alert(oneLine(s.Incomplete)))
	}
	for _, g := range groupWarnings(s.Warnings) {
		out = append(out, alert(g.String()))
	}
	for _, v := range s.verdict() {
		out = append(out, para(v))
	}
	out = append(out, figureGrids(s.Figures, nameWidth)...)
	for i := range s.scripts {
		out = append(out, s.scripts[i].blocks(width)...)
	}
	return out
}

// subtitle says what there is, when it ran and from which seed.
func (s *steeringStudy) subtitle() string {
	var parts []string
	if n := len(s.Figures); n > 0 {
		drills := map[string]bool{}
		for _, f := range s.Figures {
			drills[f.Drill] = true
		}
		parts = append(parts, Plural(len(drills), "drill"), Plural(n, "figure"))
	}
	if n := len(s.scripts); n > 0 {
		parts = append(parts, Plural(n, "script"))
	}
	if !s.Started.IsZero() {
		parts = append(parts, s.Started.UTC().Format("2006-01-02 15:04")+" UTC")
	}
	if s.Took > 0 {
		parts = append(parts, duration(s.Took.Seconds()))
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", s.Seed)), " · ")
}

func (s *steeringStudy) title() string { return cmp.Or(oneLine(s.Name), "Steering") }

// verdict is the answer in sentences.
func (s *steeringStudy) verdict() []string {
	var out []string
	for i := range s.scripts {
		out = append(out, s.scripts[i].sentences()...)
	}
	bars, met := 0, 0
	var missed []string
	for _, f := range s.Figures {
		switch {
		case f.Bar == nil:
			continue
		case f.Met():
			met++
		default:
			missed = append(missed, fmt.Sprintf("%s: %s (%s, %s)", f.Drill, f.Name, f.value(), f.bar()))
		}
		bars++
	}
	if bars > 0 {
		t := fmt.Sprintf("%d of %s met", met, Plural(bars, "bar"))
		if len(missed) > 0 {
			t += "; not met: " + listed(missed, "; ", 6)
		}
		out = append(out, t+".")
	}
	if len(out) == 0 {
		out = append(out, "Nothing has been measured yet.")
	}
	return out
}

// sentences say what each steered run achieved.
func (s *scriptStudy) sentences() (out []string) {
	for i, r := range s.Runs {
		if !r.Steered || math.IsNaN(s.all.values[i]) {
			continue
		}
		v := s.all.values[i]
		t := fmt.Sprintf("%s: %s achieved %s", s.Name, r.Name, quantity(v, s.Unit))
		if !math.IsNaN(s.all.best) {
			t += fmt.Sprintf(", %s of the best choice in hindsight (%s)", quantity(s.ofBest(v, s.all.best), "share"),
				quantity(s.all.best, s.Unit))
		}
		if h := s.all.hindsight; h >= 0 {
			t += fmt.Sprintf(" and %s of the best static network, %s (%s)",
				quantity(s.ofBest(v, s.all.values[h]), "share"), s.Runs[h].Name, quantity(s.all.values[h], s.Unit))
		}
		out = append(out, t+".")
	}
	return out
}

// figureGrids are the tables of figures, one a drill. In a narrow terminal a
// long name goes on in rows of its own rather than being cut, and so do interval
// and spread.
func figureGrids(figures []SteeringFigure, nameWidth int) (out []block) {
	for _, d := range byDrill(figures) {
		g := grid{title: d.name}
		g.table.cols = []column{{head: "figure"}, {"value", true, 0}, {"bar", true, 0}, {head: "verdict"}, {"n", true, 1}}
		if nameWidth == 0 {
			g.table.cols = append(g.table.cols, column{"95 %", true, 3}, column{"least", true, 7}, column{"median", true, 4},
				column{"p99", true, 6}, column{"most", true, 5})
		}
		g.table.cols = append(g.table.cols, column{head: "notes"})
		for _, f := range d.figures {
			note := ""
			if f.Note != "" {
				note = g.notes.mark([]string{oneLine(f.Note)})
			}
			rows := wrap(oneLine(f.Name), nameWidth, 2)
			row := []string{rows[0], f.value(), f.bar(), f.verdict(), fmt.Sprint(f.N)}
			if nameWidth == 0 {
				row = append(append(row, f.interval()), append(f.spread(), make([]string, 4)...)[:4]...)
			} else {
				rows = append(rows, f.asides()...)
				if f.spread() != nil {
					g.left = []string{"median", "p99"}
				}
			}
			g.table.add(append(row, note)...)
			for _, rest := range rows[1:] {
				g.table.add(append([]string{rest}, make([]string, len(g.table.cols)-1)...)...)
			}
		}
		out = append(out, g)
	}
	return out
}

// asides are the interval and the spread for a narrow terminal.
func (f SteeringFigure) asides() (out []string) {
	if t := f.interval(); t != "" {
		out = append(out, "  95 %: "+t)
	}
	if f.spread() != nil {
		out = append(out, "  spread: "+f.between(f.Least, f.Most))
	}
	return out
}

type drillFigures struct {
	name    string
	figures []SteeringFigure
}

// byDrill groups figures in their order.
func byDrill(figures []SteeringFigure) (out []drillFigures) {
	at := map[string]int{}
	for _, f := range figures {
		i, ok := at[f.Drill]
		if !ok {
			i = len(out)
			at[f.Drill] = i
			out = append(out, drillFigures{name: f.Drill})
		}
		out[i].figures = append(out[i].figures, f)
	}
	return out
}

// blocks of one script: what was achieved, the time line, the events.
func (s *scriptStudy) blocks(width int) []block {
	out := []block{heading{2, s.Name}}
	if s.About != "" {
		out = append(out, para(oneLine(s.About)))
	}
	if len(s.Runs)+len(s.phases)+s.moves > 0 {
		out = append(out, s.timeline(width))
	}
	for _, r := range s.Runs {
		if r.Note != "" {
			out = append(out, para(r.Name+": "+oneLine(r.Note)))
		}
	}
	if len(s.Runs) > 0 {
		out = append(out, s.grid())
	}
	if len(s.events) > 0 {
		out = append(out, heading{3, s.Name + ": events"}, s.list())
	}
	return out
}

// grid is what was achieved by phase.
func (s *scriptStudy) grid() grid {
	sc := s.scale()
	g := grid{title: s.Name + ": " + cmp.Or(s.Quantity, "value") + " achieved by phase"}
	if sc.unit != "" {
		g.title += " (" + sc.unit + ")"
	}
	g.table.cols = []column{{head: "phase"}, {"s", true, 2}, {head: "what", drop: 3}}
	for _, r := range s.Runs {
		if r.Steered {
			g.table.cols = append(g.table.cols, column{r.Name, true, 0}, column{"of best", true, 0})
		}
	}
	g.table.cols = append(g.table.cols, column{"best", true, 0})
	for _, r := range s.Runs {
		if !r.Steered {
			g.table.cols = append(g.table.cols, column{r.Name, true, 0})
		}
	}
	rows := s.parts
	if len(rows) != 1 {
		rows = append(rows[:len(rows):len(rows)], s.all)
	}
	for i, p := range rows {
		name := cmp.Or(p.letters, "-")
		if i == len(s.parts) {
			name = "all"
		}
		g.table.add(append([]string{name, instant(p.from) + "-" + instant(p.to), p.name}, s.gridValues(p, sc)...)...)
	}
	g.legend = hindsightNote
	return g
}

// gridValues are the steered runs' values with their part of the best, the
// best, and the static runs'.
func (s *scriptStudy) gridValues(p part, sc scale) (out []string) {
	for j, r := range s.Runs {
		if r.Steered {
			out = append(out, sc.num(p.values[j]), quantity(s.ofBest(p.values[j], p.best), "share"))
		}
	}
	out = append(out, sc.num(p.best))
	for j, r := range s.Runs {
		if !r.Steered {
			out = append(out, sc.num(p.values[j]))
		}
	}
	return out
}

const hindsightNote = "Best in hindsight is the static run that did best in the phase; over the whole script, the mean of these by length, " +
	"as if changing cost nothing and were known in time."

// list tells every event in a sentence.
func (s *scriptStudy) list() items {
	var out items
	for _, e := range s.events {
		mark := "-"
		if e.mark > 0 {
			mark = fmt.Sprint(e.mark)
		}
		out = append(out, fmt.Sprintf("%s  %.3f s  %s", mark, e.At.Seconds(), e.sentence()))
	}
	return out
}

// sentence is the event without its number and time.
func (e eventStudy) sentence() string {
	t := strings.TrimSpace(e.Host + " " + e.Kind)
	if r := e.route(); r != "" {
		t += " " + r
	}
	if e.By != "" {
		t += " (" + e.By + ")"
	}
	said := e.effects()
	if e.Reason != "" {
		said = append([]string{oneLine(e.Reason)}, said...)
	}
	if len(said) == 0 {
		return t
	}
	return t + ": " + strings.Join(said, "; ")
}

// route is "vxlan → macvlan".
func (e eventStudy) route() string {
	switch {
	case e.From != "" && e.To != "" && e.From != e.To:
		return e.From + " → " + e.To
	case e.To != "":
		return e.To
	}
	return e.From
}

// effects are the event's figures.
func (e eventStudy) effects() (out []string) {
	exactly := func(d time.Duration) string { return human(d.Seconds(), "s") }
	if e.Detected > 0 {
		out = append(out, "detected in "+exactly(e.Detected))
	}
	if e.Took > 0 {
		out = append(out, "moved in "+exactly(e.Took))
	}
	if e.PredictedGain != 0 {
		out = append(out, "predicted "+gain(e.PredictedGain))
	}
	if b := e.brought(); b != "" {
		out = append(out, "brought "+b)
	}
	if e.DryRun {
		out = append(out, "not done (dry run)")
	}
	return out
}

// brought is the outcome: its own words, or the figure alone.
func (e eventStudy) brought() string {
	if e.outcome == "" && e.Gain != nil {
		return gain(*e.Gain)
	}
	return e.outcome
}
