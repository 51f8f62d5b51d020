package claim_test

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/sample"
)

// TestDoubts: what is open wants the more blocks the nearer it is to the edge, what is told
// wants none, and what is looked at between two looks counts as at the last one.
func TestDoubts(t *testing.T) {
	c := ordered(sample.Throughput, []string{"a"}, []string{"b"})
	for name, tc := range map[string]struct {
		trials      []sample.Trial
		least, most int
	}{
		"told":               {join(speed("a", 30, 31, 30), speed("b", 20, 20.5, 20)), 0, 0},
		"practically equal":  {join(speed("a", 30, 30.01, 30), speed("b", 30, 30.01, 30.02)), 0, 0},
		"nearly told":        {join(speed("a", 30, 33, 31), speed("b", 20, 24, 19)), 1, 6},
		"far from it":        {join(speed("a", 30, 20, 40), speed("b", 25, 33, 22)), 60, claim.MostBlocks},
		"told between looks": {join(speed("a", 30, 36, 31, 30), speed("b", 20, 29, 19, 20)), 1, 20},
		"not measured":       {speed("a", 1, 2, 3), 0, 0},
	} {
		got := claim.Doubts([]claim.Claim{c}, tc.trials, 0.95)
		if tc.most == 0 {
			if len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Blocks < tc.least || got[0].Blocks > tc.most || len(got[0].Cells) != 2 {
			t.Errorf("%s: got %+v, want %d to %d blocks of two cells", name, got, tc.least, tc.most)
			continue
		}
		if !slices.ContainsFunc(got[0].Cells, func(c sample.Cell) bool { return c.Network == "b" }) {
			t.Errorf("%s: cells %v", name, got[0].Cells)
		}
	}
}
