package detect

import (
	"math/rand"
	"slices"
	"testing"
	"testing/quick"
	"time"
)

// TestDetourLaws: whatever the kernel says of a connection, its path is blamed only if it was acknowledged on another
// one; each path is tried once, and nowhere is said only once all were; what is settled stays so; and where nothing is
// proven it is back where it was, unless it was moved meanwhile.
func TestDetourLaws(t *testing.T) {
	met := map[Transition[DetourState, DetourEvent]]bool{}
	course := func(seed int64) bool {
		rng, params, now := rand.New(rand.NewSource(seed)), Pairs(), at(0)
		paths := []int{0, 1, 2, 3}[:1+rng.Intn(4)]
		d := NewDetour(&params, 0, Progress{Acked: 10}, now)
		tried := []int{0}
		for range 60 {
			was := d
			now = now.Add(time.Duration(rng.Intn(150)) * time.Millisecond)
			p := Progress{Open: rng.Intn(40) > 0, Waiting: rng.Intn(40) > 0, Acked: 10, Tries: 1,
				Trip: time.Millisecond, Timer: 200 * time.Millisecond}
			if rng.Intn(12) == 0 {
				p.Acked = 20
			}
			moved := rng.Intn(60) == 0
			if moved {
				d.Abandon(now)
			} else if d.Look(p, 1, paths[1:], now); d.State() == Trying && d.On != was.On {
				if slices.Contains(tried, d.On) {
					t.Errorf("seed %d: path %d is tried twice", seed, d.On)
				}
				tried = append(tried, d.On)
			}
			switch is := d.State(); {
			case was.Over() && is != was.State(), is == Proven && was.State() != Proven && (p.Acked == 10 || d.On == d.From),
				is == Nowhere && len(tried) < len(paths),
				d.Over() && is != Proven && d.On != d.From && !moved && !was.Over():
				t.Errorf("seed %d: %v on path %d, after %v on path %d, by %+v", seed, is, d.On, was.State(), was.On, p)
				return false
			case is != was.State() || d.On != was.On:
				row := Transition[DetourState, DetourEvent]{From: was.State(), On: why(p, moved, is), To: is}
				if d.On != was.On && d.On == d.From {
					row.Do = Return
				}
				met[row] = true
			}
		}
		return true
	}
	if err := quick.Check(course, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	for _, row := range DetourTable() {
		if !met[row] {
			t.Errorf("never seen: %v on %v to %v", row.From, row.On, row.To)
		}
		delete(met, row)
	}
	if len(met) > 0 {
		t.Errorf("not in the table: %v", met)
	}
}

// why is the event behind what was seen.
func why(p Progress, moved bool, is DetourState) DetourEvent {
	switch {
	case moved:
		return Moved
	case p.Open && p.Acked != 10:
		return Acked
	case !p.Open || !p.Waiting:
		return Settled
	case is == Trying:
		return Unacked
	}
	return Exhausted
}
