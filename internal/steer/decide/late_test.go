package decide

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

// TestWhatLateKnowledgeReaches: on capacities that swing, and where connections bring their windows along, a rule that
// is given for nothing what each network gave some time ago, and leaves for a tenth more, is soon short of hindsight.
// It says what can be expected of policies, which have to try networks to learn of them:
// docs/explanation/decision-simulated.md has the figures.
func TestWhatLateKnowledgeReaches(t *testing.T) {
	for name, first := range map[string]uint64{"swing": 7500003, "mixed": 9300002} {
		t.Run(name, func(t *testing.T) { lateKnowledge(t, name, first) })
	}
}

func lateKnowledge(t *testing.T, name string, first uint64) {
	const schedules = 200
	family := familyNamed(t, name)
	reached := map[time.Duration][]float64{}
	for i := range uint64(schedules) {
		s := family.Schedule(first + 2*i)
		alone := Play(s, Static{Network: s.Networks[0].Name}, s.Seed)
		best := alone.Hindsight
		if s.mixed() {
			best = alone.Classes[0].Hindsight
		}
		for _, late := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second} {
			reached[late] = append(reached[late], knownLate(s, late)/best)
		}
	}
	was := math.Inf(1)
	for _, late := range slices.Sorted(maps.Keys(reached)) {
		v := reached[late]
		slices.Sort(v)
		sum := 0.0
		for _, r := range v {
			sum += r
		}
		low := v[len(v)/20]
		t.Logf("known %v late: %.1f %% of hindsight, %.1f in the worst twentieth", late, 100*sum/float64(len(v)), 100*low)
		if low > was {
			t.Errorf("what is known %v late reaches %.3f, and earlier knowledge %.3f", late, low, was)
		}
		was = low
	}
}

// knownLate is what is carried by going where it was best by a tenth so long ago.
func knownLate(s Schedule, late time.Duration) (sum float64) {
	const more = 1.1
	var truths []map[string]float64
	at, behind := s.Networks[0].Name, int(late/Period)+1 // a decision takes effect in the next period
	w := newWorld(s, s.Seed)
	for _, p := range s.Phases {
		for range int(p.For / Period) {
			now, was := w.truth(p), at
			if truths = append(truths, now); len(truths) > behind {
				known := truths[len(truths)-1-behind]
				best := slices.MaxFunc(s.Networks, func(a, b SimNetwork) int { return cmp.Compare(known[a.Name], known[b.Name]) })
				if known[best.Name] > more*known[at] {
					at = best.Name
					sum -= s.Loss * now[at]
				}
			}
			sum += w.part(p, was, at) * now[at] * Period.Seconds()
		}
	}
	return sum
}

// part is what connections that go from a network to another one, or stay, get of what it gives, for a period.
func (w *world) part(p Phase, from, to string) float64 {
	if !w.s.Windows {
		return 1
	}
	w.moveWindows(p, Assignment{Active: from}, Assignment{Active: to})
	w.connections = p.Load.Connections
	out := w.filled(p, Assignment{Active: to})[to]
	w.growWindows(p, Assignment{Active: to})
	return out
}
