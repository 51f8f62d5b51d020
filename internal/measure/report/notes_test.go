package report

import (
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// Notes that differ in a percentage alone are one with the range, others stay apart.
func TestNotesOfManyPercentages(t *testing.T) {
	var f footnotes
	var marks []string
	for _, texts := range [][]string{
		{"busy: other work kept 37 % of the machine busy (1 of 5 trials)", "cpu-saturated (1 of 1 trial)"},
		{"busy: other work kept 8 % of the machine busy (5 of 5 trials)"},
		{"busy: other work kept 37 % of the machine busy (1 of 5 trials)",
			"busy: other work kept 100 % of the machine busy (2 of 3 trials)"},
		{"failed: exit status 1", "failed: exit status 2", "drift: -3.5 %", "drift: +3.5 %"},
		{"drift: +12 %", "cpu-saturated (1 of 1 trial)"},
	} {
		marks = append(marks, f.mark(texts))
	}
	if want := []string{"[1][2]", "[1]", "[1]", "[3][4][5][6]", "[6][2]"}; !slices.Equal(marks, want) {
		t.Errorf("marks %q, want %q", marks, want)
	}
	want := []string{"busy: other work kept 8 to 100 % of the machine busy (1 to 5 of 3 to 5 trials)", "cpu-saturated (1 of 1 trials)",
		"failed: exit status 1", "failed: exit status 2", "drift: -3.5 %", "drift: +3.5 to 12 %"}
	if !slices.Equal(f.texts, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(f.texts, "\n"), strings.Join(want, "\n"))
	}
}

// Warnings of a line that differ in a percentage alone are one of as many trials.
func TestWarningsOfManyPercentages(t *testing.T) {
	warning := func(gate, text string, n int) rank.Counted {
		return rank.Counted{Warning: sample.Warning{Gate: gate, Text: text}, Count: n}
	}
	got := alike([]rank.Counted{warning("busy", "other work kept 37 %", 1), warning("busy", "other work kept 41.5 %", 2),
		warning("slow", "other work kept 9 %", 1), warning("busy", "other work kept 12 %", 1)})
	if want := []rank.Counted{warning("busy", "other work kept 12 to 41.5 %", 4),
		warning("slow", "other work kept 9 %", 1)}; !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}
