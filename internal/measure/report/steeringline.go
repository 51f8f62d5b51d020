package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// eighths are the heights of a time line's cells.
const eighths = " ▁▂▃▄▅▆▇█"

// timeline draws every run in one line: phases by letter, moves by number.
func (s *scriptStudy) timeline(width int) plain {
	label := len("phases")
	for _, r := range s.runs {
		label = max(label, min(utf8.RuneCountInString(r.Name), 16))
	}
	cols := max(width-label-2, 10)
	slot := (s.end - s.from) / float64(cols)
	slots, top := make([][]float64, len(s.runs)), 0.0
	for i, r := range s.runs {
		for c := range cols {
			v := r.mean(s.from+float64(c)*slot, s.from+float64(c+1)*slot)
			slots[i] = append(slots[i], v)
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	line := func(name, cells string) string {
		return strings.TrimRight(fmt.Sprintf("%-*s  %s", label, ellipsis(oneLine(name), label), cells), " ")
	}
	var out plain
	name := "phases"
	for _, row := range s.lanes(cols, slot) {
		out = append(out, line(name, row))
		name = ""
	}
	if s.moves > 0 {
		out = append(out, line("moves", s.moveRow(cols, slot)))
	}
	for i, r := range s.runs {
		var b strings.Builder
		for _, v := range slots[i] {
			b.WriteRune(cell(v, top))
		}
		out = append(out, line(r.Name, b.String()))
	}
	out = append(out, line("", axisRow(s.from, s.end, cols)), "")
	if top > 0 {
		out = append(out, wrap(fmt.Sprintf("Full height is %s of %s; a column is the mean of %s; · is not measured.",
			quantity(top, s.Unit), cmp.Or(s.Quantity, "the value"), human(slot, "s")), width, 0)...)
	}
	for _, p := range s.phases {
		out = append(out, wrap(fmt.Sprintf("%s: %s, %s", p.letter, fromTo(p.from, p.to), oneLine(p.Name)), width, 3)...)
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// fromTo is "20 to 35.5 s".
func fromTo(from, to float64) string { return instant(from) + " to " + instant(to) + " s" }

// instant shows a time of a script, in seconds, to the millisecond.
func instant(t float64) string {
	return signless(fmt.Sprintf("%.3f", t))
}

// signless leaves out zeros at the end.
func signless(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

func cell(v, top float64) rune {
	steps := []rune(eighths)
	switch {
	case math.IsNaN(v):
		return '·'
	case v <= 0 || top <= 0:
		return steps[0]
	}
	return steps[min(max(int(math.Round(v/top*8)), 1), 8)]
}

// lanes are rows of letters: where a phase begins, then dashes.
func (s *scriptStudy) lanes(cols int, slot float64) (out []string) {
	var rows [][]rune
	for _, p := range s.phases {
		for len(rows) <= p.lane {
			rows = append(rows, []rune(strings.Repeat(" ", cols)))
		}
		first := min(int((p.from-s.from)/slot+0.5), cols-1)
		for c := first; c < cols && (c == first || s.from+(float64(c)+0.5)*slot < p.to); c++ {
			rows[p.lane][c] = '-'
		}
		put(rows[p.lane], first, p.letter)
	}
	for _, r := range rows {
		out = append(out, string(r))
	}
	return out
}

// put writes text into a row as far as there is room.
func put(row []rune, at int, text string) {
	for i, r := range []rune(text) {
		if at+i >= 0 && at+i < len(row) {
			row[at+i] = r
		}
	}
}

func (s *scriptStudy) moveRow(cols int, slot float64) string {
	row := []rune(strings.Repeat(" ", cols))
	free := 0
	for _, e := range s.events {
		c := int(math.Floor((e.At.Seconds() - s.from) / slot))
		if e.mark == 0 || c < 0 || c >= cols {
			continue
		}
		if text := fmt.Sprint(e.mark); c >= free && c+len(text) <= cols {
			put(row, c, text)
			free = c + len(text) + 1
		} else if row[c] == ' ' {
			row[c] = '.'
		}
	}
	return string(row)
}

// axisRow shows some times below the lines.
func axisRow(from, end float64, cols int) string {
	row := []rune(strings.Repeat(" ", cols))
	step := niceStep((end - from) / float64(cols) * 10)
	for t := math.Ceil(from/step) * step; t <= end; t += step {
		c := int((t - from) / (end - from) * float64(cols))
		text := signless(fmt.Sprintf("%.3f", t))
		if t+step > end {
			text += " s"
		}
		if c+len(text) <= cols {
			put(row, c, text)
		}
	}
	return string(row)
}

// niceStep is the least of 1, 2, 5, 10, 20 ... that is not below v.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(max(v, 1e-3))))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}
