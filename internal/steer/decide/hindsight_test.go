package decide

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHindsightBringsWindowsAlong: where connections bring their windows along, what a network gives those that stay
// there is what the policy gets that stays there, and no course of switches gets more than hindsight. Fails if
// hindsight has connections fill a network at once.
func TestHindsightBringsWindowsAlong(t *testing.T) {
	family := familyNamed(t, "mixed")
	r := rand.New(rand.NewPCG(1, 2))
	grew := false
	for seed := uint64(9300002); seed < 9300042; seed += 2 {
		s := family.Schedule(seed)
		first := s.Networks[0].Name
		stays, _ := playBoth(s, Static{Network: first}, seed, true)
		if got := stays.book.best([]string{first}); math.Abs(got/stays.book.achieved-1) > 1e-9 {
			t.Errorf("seed %d: who stays on %s gets %g, and the policy that does %g", seed, first, got, stays.book.achieved)
		}
		best, free := stays.book.hindsight(stays.book.networks())
		grew = grew || best < 0.99*free
		for range 5 {
			often := 1 + r.IntN(60)
			bulk := newSimulation(s, Static{Network: first}, seed)
			for _, phase := range s.Phases {
				for range int(phase.For / Period) {
					d := Decision{Kind: Stay}
					if r.IntN(often) == 0 {
						d = Decision{Kind: Switch, To: s.Networks[r.IntN(len(s.Networks))].Name}
					}
					bulk.play(phase, phase, d)
				}
			}
			if bulk.book.achieved > best {
				t.Errorf("seed %d: switches at random get %g, and hindsight %g", seed, bulk.book.achieved, best)
			}
		}
	}
	if !grew {
		t.Error("windows cost hindsight nothing")
	}
}
