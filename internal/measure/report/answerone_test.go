package report

import (
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// TestOneRepetitionPromisesNothing: nothing is known of the scatter of a single repetition, so
// none is said to be expected to tell; and the baseline is no rival of the networks.
func TestOneRepetitionPromisesNothing(t *testing.T) {
	for reps, want := range map[int]string{1: "2 repetitions of these, are the least that can tell", 5: ""} {
		a := analyse(Input{Name: "x", Results: closePlan("x", reps).results()}, Options{Rank: rank.Options{Draws: 500}})
		got := newAnswer(a)
		if !strings.HasPrefix(got.Asked, "Which of 3 networks is best") {
			t.Errorf("asked %q", got.Asked)
		}
		said := slices.ContainsFunc(got.Open,
			func(l answerLine) bool { return strings.Contains(l.Text, "the least that can tell") })
		if said != (want != "") || want != "" && !strings.Contains(got.Open[0].Text, want) {
			t.Errorf("%d repetitions: %+v", reps, got.Open)
		}
	}
}

// TestRegretHasOneValue: the table of regrets has those that recommendations rest on, and no
// rows of nothing.
func TestRegretHasOneValue(t *testing.T) {
	a := analyse(Input{Name: "x", Results: fullPlan().results()}, Options{Rank: rank.Options{Draws: 500}})
	m := appMatrix(a)
	if m == nil {
		t.Fatal("no table")
	}
	column := 0
	for _, g := range a.grids {
		for _, r := range g.Rows {
			for _, row := range m.Rows {
				want := "-"
				if o, ok := r.OptimumUnrobust.Ranking.Outlook.Find(row.Network); ok && o.Regret != nil {
					want = rank.Percent(*o.Regret)
				}
				if got := row.Cells[column].Text; got != want {
					t.Errorf("%s, %s: %s, recommended by %s", m.Head[column], row.Network, got, want)
				}
			}
			column++
		}
	}
	for _, row := range m.Rows {
		if !slices.ContainsFunc(row.Cells, func(c matrixCell) bool { return c.Text != "-" }) {
			t.Errorf("a row of nothing: %s", row.Network)
		}
	}
}
