package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/stat"
)

// answer is the first screen of a result of drills.
func (s *steeringStudy) answer() answerView {
	out := answerView{Asked: s.asked()}
	for i := range s.scripts {
		for _, text := range s.scripts[i].sentences() {
			out.Known = append(out.Known, answerLine{Text: text, Href: "#" + scriptID(i)})
		}
	}
	out.Known = append(out.Known, s.knownBars()...)
	out.Open = s.openBars()
	if len(out.Known) == 0 {
		out.Known = []answerLine{{Text: "Nothing has been measured yet."}}
	}
	f := &forest{}
	for i := range s.scripts {
		f.add(s.scripts[i].Name+": the whole script over the best choice in hindsight", s.scripts[i].forestItems())
	}
	f.add("Figures over their bars", barItems(s.Figures))
	f.Caption = "Ratios with intervals; what is met lies on the shaded side of 1"
	if len(f.Panels) > 0 {
		out.Forest = f
	}
	return out
}

// asked is the question that the drills are to answer.
func (s *steeringStudy) asked() string {
	var parts []string
	if n := len(s.scripts); n > 0 {
		phases := 0
		for _, sc := range s.scripts {
			phases += len(sc.phases)
		}
		parts = append(parts,
			fmt.Sprintf("How near does steering come to the best choice in hindsight while load and faults change (%s)?", Plural(phases, "phase")))
	}
	if n := countBars(s.Figures); n > 0 {
		parts = append(parts, fmt.Sprintf("Does steering keep its bars? %s of %s have one.", Plural(n, "figure"),
			Plural(len(byDrill(s.Figures)), "drill")))
	} else if n := len(s.Figures); n > 0 {
		parts = append(parts, fmt.Sprintf("What do %s of steering measure?", Plural(len(byDrill(s.Figures)), "drill")))
	}
	return cmp.Or(strings.Join(parts, " "), "How well does steering do?")
}

func countBars(figures []SteeringFigure) (n int) {
	for _, f := range figures {
		if f.Bar != nil {
			n++
		}
	}
	return n
}

// knownBars counts the bars that are met, names those that are not, and where all are met the
// one that is met most narrowly.
func (s *steeringStudy) knownBars() (out []answerLine) {
	var met, missed []SteeringFigure
	for _, f := range s.Figures {
		switch {
		case f.Bar == nil || f.N == 0:
		case f.Met():
			met = append(met, f)
		default:
			missed = append(missed, f)
		}
	}
	bars := countBars(s.Figures)
	if bars == 0 {
		return nil
	}
	out = append(out, answerLine{Text: fmt.Sprintf("%d of %s met.", len(met), Plural(bars, "bar")), Href: "#figures"})
	for _, f := range missed {
		out = append(out, answerLine{Mark: "not met", Class: "failed", Text: f.sized(), Href: "#figures"})
	}
	if len(missed) == 0 && len(met) > 0 {
		f := slices.MinFunc(met, func(x, y SteeringFigure) int { return cmp.Compare(x.margin(), y.margin()) })
		out = append(out, answerLine{Mark: "met", Class: "ok", Text: "Most narrowly: " + f.sized(), Href: "#figures"})
	}
	return few(out, "the figures", "#figures")
}

// sized is the figure with its interval and its bar.
func (f SteeringFigure) sized() string {
	out := f.Drill + ": " + f.Name + " " + f.value()
	if i := f.interval(); i != "" {
		out += " (" + i + ")"
	}
	return out + ", " + f.bar() + "."
}

// margin is how far the value is from its bar, on logarithms where both have one.
func (f SteeringFigure) margin() float64 {
	if f.Value > 0 && f.Bar.Limit > 0 {
		return math.Abs(math.Log(f.Value / f.Bar.Limit))
	}
	if f.Value == f.Bar.Limit {
		return math.Inf(1) // a count of none that was to be none
	}
	return math.Abs(f.Value - f.Bar.Limit)
}

// openBars are the figures of which the data do not tell whether they meet their bars: what
// was not measured, and intervals that reach over the bar, with what it would take.
func (s *steeringStudy) openBars() (out []answerLine) {
	var none []string
	for _, f := range s.Figures {
		switch {
		case f.Bar == nil:
		case f.N == 0:
			none = append(none, f.Drill+": "+f.Name)
		case f.N > 1 && f.Low < f.Bar.Limit && f.Bar.Limit < f.High:
			out = append(out, answerLine{Text: f.openText(), Href: "#figures"})
		}
	}
	if len(none) > 0 {
		out = append(out, answerLine{Text: "Not measured, and so not met: " + inWords(none, 3) + ".", Href: "#figures"})
	}
	if len(out) == 0 && countBars(s.Figures) > 0 {
		return []answerLine{{Text: "Nothing that has a bar is left open: no interval reaches over its bar."}}
	}
	return few(out, "the figures", "#figures")
}

// openText says of a figure whose interval reaches over its bar what would tell.
func (f SteeringFigure) openText() string {
	out := fmt.Sprintf("%s: %s: the interval %s reaches over the bar, %s;", f.Drill, f.Name, f.interval(), f.bar())
	// An interval narrows with the root of what enters it.
	times := math.Pow((f.High-f.Low)/2/math.Abs(f.Bar.Limit-f.Value), 2)
	const most = 100
	if !(times < most) {
		return out + " no number of repetitions in sight is expected to tell."
	}
	more := math.Ceil(max(times, 1)) // in addition to those that there are
	if f.Took <= 0 {
		return out + fmt.Sprintf(" about %.0f times as many repetitions more are expected to tell.", more)
	}
	return out + fmt.Sprintf(" about %s more, %.0f times as long as the drill took, are expected to tell.",
		minutes(f.Took.Seconds()*more), more)
}

// forestItems are the runs' means over that of hindsight.
func (s *scriptStudy) forestItems() (out []forestItem) {
	for i, r := range s.Runs {
		v := s.all.values[i] / s.all.best
		if s.Lower {
			v = 1 / v
		}
		if v > 0 && !math.IsInf(v, 0) {
			out = append(out, forestItem{label: r.Name, network: r.Name, text: quantity(v, "share"),
				of: stat.Interval{Center: v, Low: v, High: v}})
		}
	}
	return out
}

// barItems are the figures over their bars: those with the least to spare first.
func barItems(figures []SteeringFigure) (out []forestItem) {
	one := 1.0
	var with []SteeringFigure
	for _, f := range figures {
		if f.Bar != nil && f.N > 0 && f.Value > 0 && f.Bar.Limit > 0 && !math.IsInf(f.Value, 0) {
			with = append(with, f)
		}
	}
	slices.SortStableFunc(with, func(x, y SteeringFigure) int {
		switch met := x.Met(); {
		case met == y.Met():
			return cmp.Compare(x.margin(), y.margin())
		case met:
			return 1
		}
		return -1
	})
	for _, f := range with {
		of := stat.Interval{Center: f.Value / f.Bar.Limit, Low: f.Low / f.Bar.Limit, High: f.High / f.Bar.Limit}
		if !(of.Low > 0) || math.IsInf(of.High, 0) || of.Low > of.Center || of.High < of.Center {
			of.Low, of.High = of.Center, of.Center
		}
		it := forestItem{label: f.Name, class: "holds", text: f.value(), of: of}
		if !f.Met() {
			it.class = "fails"
		}
		it.within.Most = &one
		if f.Bar.AtLeast {
			it.within.Most, it.within.Least = nil, &one
		}
		out = append(out, it)
	}
	return out
}

// plotClass names the colour of a run or network in a drawing.
func (s *steeringStudy) plotClass(name string) string {
	if i := s.index(name); i >= 0 {
		return fmt.Sprintf("c%d k%d", s.names[i].Color, s.names[i].Cycle%4)
	}
	return ""
}
