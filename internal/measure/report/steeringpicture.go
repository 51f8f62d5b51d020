package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The frame of a picture of a script over time. The rows of a phase's text and of its means
// are as many as they need.
const (
	playLeft   = 84
	playRight  = 810
	playHeight = 190
	playPoints = 360
	playMoves  = 6
	playApart  = 9
)

// SteeringPicture draws what happened over time in the first script that has runs, with
// what each run achieved in each phase, as SVG.
func SteeringPicture(w io.Writer, in SteeringInput, _ Options) error {
	s, err := studySteering(in)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.scripts, func(sc scriptStudy) bool {
		return slices.ContainsFunc(sc.runs, func(r runStudy) bool { return len(r.steps) > 0 })
	})
	if i < 0 {
		return errors.New("no picture: the drills have no time line: the drill \"demo\" has one")
	}
	p := play{&canvas{title: s.title() + ": " + s.scripts[i].Quantity + " over time"}, s, &s.scripts[i]}
	p.draw()
	return p.write(w)
}

// play draws a script over time.
type play struct {
	*canvas
	all    *steeringStudy
	script *scriptStudy
}

// x is where a time is.
func (p play) x(t float64) float64 {
	part := (t - p.script.from) / (p.script.end - p.script.from)
	return playLeft + min(max(part, 0), 1)*(playRight-playLeft)
}

func (p play) draw() {
	sc := p.script.scale()
	p.text(drawingMargin, 28, "ink head", "What a pod's traffic got while load and faults changed")
	p.legend(50)
	rows := 1
	for _, part := range p.script.parts {
		rows = max(rows, len(p.partName(part)))
	}
	top := 66 + lineHeight*float64(rows) + 8
	bottom := top + playHeight
	for _, part := range p.script.parts {
		p.rect(p.x(part.from), 60, p.x(part.to)-p.x(part.from), bottom-60, p.shade(part))
		for k, line := range p.partName(part) {
			p.text(p.x(part.from)+6, 75+lineHeight*float64(k), "ink", line)
		}
		p.line(p.x(part.from), 60, p.x(part.from), bottom, "edge")
	}
	y := p.axis(top, bottom, sc)
	p.moves(top, bottom)
	for _, r := range slices.Backward(p.script.runs) {
		p.curve(r, y)
	}
	p.height = p.foot(p.means(bottom+46, sc)) + 4
}

// shade is the class of a part's ground: that of its worst phase.
func (p play) shade(part part) string {
	worst := PhaseLoad
	for _, ph := range p.script.phases {
		if ph.from >= part.to || ph.to <= part.from {
			continue
		}
		if ph.Kind == PhaseFault || ph.Kind == PhaseLimit && worst == PhaseLoad {
			worst = ph.Kind
		}
	}
	return worst
}

// partName is a part's name in the lines that it has room for, with its letters.
func (p play) partName(part part) []string {
	out := fitted(strings.TrimSpace(part.letters+"  "+part.name), p.x(part.to)-p.x(part.from)-8)
	for _, line := range out {
		if !p.fits(line, part) {
			return nil
		}
	}
	return out[:min(len(out), 4)]
}

// fits tells whether there is room for a text in a part's columns.
func (p play) fits(text string, part part) bool {
	return breadth(text) <= p.x(part.to)-p.x(part.from)-8
}

// classes are those of a run's line: the steered ones are thick and drawn through, the others
// dashed, so that they can be told apart without colours.
func (p play) classes(r runStudy) string {
	if r.Steered {
		return fmt.Sprintf("curve s%d thick", steered)
	}
	n := p.all.names[p.all.index(r.Name)]
	return fmt.Sprintf("curve s%d d%d", n.Color, (n.Color-1)%3+1)
}

// name of a run for readers: a network kept is one from the beginning to the end.
func (p play) name(r runStudy) string {
	if r.Steered {
		return r.Name
	}
	return "kept on " + r.Name
}

// legend names the lines at y.
func (p play) legend(y float64) {
	x := float64(drawingMargin)
	for _, r := range p.script.runs {
		p.line(x, y-4, x+26, y-4, p.classes(r))
		p.text(x+32, y, "ink", p.name(r))
		x += 32 + breadth(p.name(r)) + 22
	}
	if p.script.moves > 0 {
		p.line(x, y-4, x+26, y-4, "move")
		p.text(x+32, y, "ink", "flows moved")
	}
}

// axis draws the axes between top and bottom and returns where a value is.
func (p play) axis(top, bottom float64, sc scale) func(float64) float64 {
	most := 0.0
	for _, r := range p.script.runs {
		for _, v := range r.steps {
			if !math.IsNaN(v.value) {
				most = max(most, v.value/sc.by)
			}
		}
	}
	step, limit := axisUpTo(most)
	y := func(v float64) float64 { return bottom - (bottom-top)*min(max(v/sc.by/limit, 0), 1) }
	for v := 0.0; v <= limit*1.0001; v += step {
		p.line(playLeft, y(v*sc.by), playRight, y(v*sc.by), "rule")
		p.text(playLeft-6, y(v*sc.by)+4, "soft end", strconv.FormatFloat(v, 'g', 4, 64))
	}
	unit := strings.TrimSuffix(p.script.Quantity+", "+sc.unit, ", ")
	for k, word := range fitted(unit, playLeft-16) {
		p.text(playLeft-6, 75+lineHeight*float64(k), "soft end", word)
	}
	p.line(playLeft, bottom, playRight, bottom, "edge")
	tick := niceStep((p.script.end - p.script.from) / 10)
	for t := math.Ceil(p.script.from/tick) * tick; t <= p.script.end*1.0001; t += tick {
		p.line(p.x(t), bottom, p.x(t), bottom+4, "edge")
		p.text(p.x(t), bottom+17, "soft mid", strconv.FormatFloat(round1(t), 'g', 4, 64))
	}
	p.text(playRight, bottom+33, "soft end", "seconds")
	return y
}

// curve draws a run; where nothing was measured the line has a gap.
func (p play) curve(r runStudy, y func(float64) float64) {
	k := max((len(r.steps)+playPoints-1)/playPoints, 1)
	var path strings.Builder
	pen := "M"
	for from := 0; from < len(r.steps); from += k {
		part := r.steps[from:min(from+k, len(r.steps))]
		mean, _, _ := envelope(part)
		if from > 0 && apart(r.steps[from-1], part[0], r.Step.Seconds()) {
			pen = "M"
		}
		if math.IsNaN(mean) {
			pen = "M"
			continue
		}
		path.WriteString(pen + pixel(p.x((part[0].from+part[len(part)-1].to)/2)) + " " + pixel(y(mean)))
		pen = "L"
	}
	if path.Len() > 0 {
		p.path(path.String(), p.classes(r))
	}
}

// shownMoves are the events that moved traffic for good, the first of those that are too close
// to be drawn apart: a canary is there and back before a reader sees it.
func (p play) shownMoves() (out []eventStudy) {
	for _, e := range p.script.events {
		t := e.At.Seconds()
		if e.mark == 0 || e.Kind == "canary" || t < p.script.from || t > p.script.end {
			continue
		}
		if n := len(out); n > 0 && p.x(t)-p.x(out[n-1].At.Seconds()) < playApart {
			continue
		}
		out = append(out, e)
	}
	return out[:min(len(out), playMoves)]
}

// canaries counts the moves that are not shown as they were trials.
func (p play) canaries() (n int) {
	for _, e := range p.script.events {
		if e.mark > 0 && e.Kind == "canary" {
			n++
		}
	}
	return n
}

// moves draws when flows were moved, with numbers that the foot explains.
func (p play) moves(top, bottom float64) {
	for i, e := range p.shownMoves() {
		x := p.x(e.At.Seconds())
		p.line(x, top-4, x, bottom, "move")
		p.text(x+3, top+6, "ink bold", strconv.Itoa(i+1))
	}
}

// means writes what each run achieved in each phase below the phases, and over the whole at
// the left, and returns where the next line goes.
func (p play) means(y float64, sc scale) float64 {
	p.text(drawingMargin-8, y, "soft", strings.TrimSpace("means, "+sc.unit))
	for j, r := range p.script.runs {
		y += lineHeight + 2
		weight := "ink"
		if r.Steered {
			weight = "ink bold"
		}
		p.line(drawingMargin-8, y-4, drawingMargin+10, y-4, p.classes(r))
		p.text(drawingMargin+16, y, weight, sc.num(p.script.all.values[j]))
		for _, part := range p.script.parts {
			for _, text := range []string{p.name(r) + " " + sc.num(part.values[j]), sc.num(part.values[j])} {
				if p.fits(text, part) {
					p.text(p.x(part.from)+6, y, weight, text)
					break
				}
			}
		}
	}
	return y + lineHeight + 10
}

// foot tells the moves, how it was measured and on what, and returns where the next line goes.
func (p play) foot(y float64) float64 {
	var moved []string
	for i, e := range p.shownMoves() {
		text := fmt.Sprintf("%d at %s s, %s %s", i+1, signless(fmt.Sprintf("%.2f", e.At.Seconds())), e.Kind, e.route())
		if e.Detected > 0 {
			text += ", detected in " + human(e.Detected.Seconds(), "s")
		}
		moved = append(moved, text)
	}
	if len(moved) > 0 {
		y = p.paragraph(y, "ink", "Flows moved: "+strings.Join(moved, "; ")+".")
	}
	if n := p.canaries(); n > 0 {
		y = p.paragraph(y, "soft", fmt.Sprintf("Not marked: %s of another network for a moment.", Plural(n, "trial")))
	}
	var steps []float64
	for _, r := range p.script.runs {
		if len(r.steps) > 0 {
			steps = append(steps, r.Step.Seconds())
		}
	}
	texts := []string{oneLine(p.script.About), fmt.Sprintf(
		"Lines: %s as the receiving application read it, in steps of about %s; one run each, so without intervals.",
		p.script.Quantity, human(math.Round(100*slices.Max(steps))/100, "s"))}
	when := ""
	if !p.all.Started.IsZero() {
		when = "Measured " + p.all.Started.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	if text := machineWords(p.all.Machine); text != "" {
		when = strings.TrimPrefix(when+" on "+text, " on ")
	}
	if when != "" {
		texts = append(texts, capital(when)+".")
	}
	if p.all.Incomplete != "" {
		texts = append(texts, capital(p.all.Incomplete)+".")
	}
	return p.paragraph(y+4, "soft", texts...)
}
