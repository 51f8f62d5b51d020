package flow_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// TestSpread: each place has a rank of its own; places without flows keep their order; and any part of the places has
// as large a part of the flows of either row, but for one flow and what shares its place.
func TestSpread(t *testing.T) {
	if got := flow.Spread([flow.Rows][flow.Width]int{}); got[0] != 0 || got[flow.Width-1] != flow.Width-1 {
		t.Errorf("no flows: %v", got)
	}
	two := [flow.Rows][flow.Width]int{}
	two[1][20], two[1][31] = 1, 1
	if got := flow.Spread(two); got[20] != flow.Width/4-1 || got[31] != 3*flow.Width/4-1 {
		t.Errorf("two flows: ranks %d and %d", got[20], got[31])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var flows [flow.Rows][flow.Width]int
		row, most := rng.IntN(flow.Rows), 1
		for range 1 + rng.IntN(20) {
			at := rng.IntN(flow.Width)
			flows[row][at]++
			most = max(most, flows[row][at])
		}
		ranks, seen := flow.Spread(flows), map[uint8]bool{}
		for _, r := range ranks {
			seen[r] = true
		}
		if len(seen) != flow.Width || seen[flow.Width] {
			t.Fatalf("%v: ranks %v", flows, ranks)
		}
		total := 0
		for _, n := range flows[row] {
			total += n
		}
		for part := range flow.Width + 1 {
			in := 0
			for at, n := range flows[row] {
				if int(ranks[at]) < part {
					in += n
				}
			}
			if want := float64(total) * float64(part) / flow.Width; math.Abs(float64(in)-want) > float64(most)+1 {
				t.Fatalf("%v: %d of the places have %d of %d flows: ranks %v", flows[row], part, in, total, ranks)
			}
		}
	}
}

// TestSpreadOfBothRows: bulk is spread evenly also where there is far more of the other class.
func TestSpreadOfBothRows(t *testing.T) {
	var flows [flow.Rows][flow.Width]int
	for at := range 16 {
		flows[0][at]++
	}
	flows[1][30], flows[1][31] = 1, 1
	ranks, inHalf := flow.Spread(flows), 0
	for at := range 16 {
		if ranks[at] < flow.Width/2 {
			inHalf++
		}
	}
	if one := ranks[30] < flow.Width/2; one == (ranks[31] < flow.Width/2) || inHalf < 7 || inHalf > 9 {
		t.Errorf("ranks %v: %d of 16 in the first half", ranks, inHalf)
	}
}
