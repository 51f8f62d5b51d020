package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// ranged is a text with ranges for its percentages and numbers of trials.
type ranged struct {
	// words are what lies between the numbers.
	words []string
	least []string
	most  []string
}

func newRanged(text string) ranged {
	var s ranged
	at := 0
	text = strings.ReplaceAll(text, " trial)", " trials)")
	// "37 %", and "(2 of 5 trials)".
	for _, m := range regexp.MustCompile(`(\d+(?:\.\d+)?) %|\((\d+) of (\d+) trials\)`).FindAllStringSubmatchIndex(
		text, -1) {
		for k := 2; k < len(m); k += 2 {
			if m[k] < 0 {
				continue
			}
			s.words = append(s.words, text[at:m[k]])
			s.least, at = append(s.least, text[m[k]:m[k+1]]), m[k+1]
		}
	}
	s.words = append(s.words, text[at:])
	s.most = slices.Clone(s.least)
	return s
}

// widen takes in a text of the same words.
func (s *ranged) widen(o ranged) {
	value := func(number string) float64 {
		v, _ := strconv.ParseFloat(number, 64) // digits alone
		return v
	}
	for i := range s.least {
		if value(o.least[i]) < value(s.least[i]) {
			s.least[i] = o.least[i]
		}
		if value(o.most[i]) > value(s.most[i]) {
			s.most[i] = o.most[i]
		}
	}
}

// String is the text, "21 to 87 %" where there is a range.
func (s ranged) String() string {
	var b strings.Builder
	for i, w := range s.words {
		b.WriteString(w)
		if i < len(s.least) {
			b.WriteString(s.least[i])
			if s.most[i] != s.least[i] {
				b.WriteString(" to " + s.most[i])
			}
		}
	}
	return b.String()
}

// alike makes one of a line's warnings that differ in percentages alone.
func alike(warnings []rank.Counted) (out []rank.Counted) {
	var spans []ranged
	for _, w := range warnings {
		s := newRanged(w.Gate + ": " + w.Text)
		i := slices.IndexFunc(spans, func(o ranged) bool { return slices.Equal(o.words, s.words) })
		if i < 0 {
			out, spans = append(out, w), append(spans, s)
			continue
		}
		spans[i].widen(s)
		out[i].Count += w.Count
		out[i].Text = strings.TrimPrefix(spans[i].String(), w.Gate+": ")
	}
	return out
}
