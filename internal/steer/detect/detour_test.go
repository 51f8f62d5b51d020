package detect

import (
	"fmt"
	"slices"
	"testing"
	"testing/quick"
	"time"
)

// TestDetour plays what the kernel says of a connection whose timer has fired.
func TestDetour(t *testing.T) {
	stuck, got := Progress{Open: true, Waiting: true, Acked: 10}, Progress{Open: true, Waiting: true, Acked: 20}
	done, gone := Progress{Open: true, Acked: 20}, Progress{}
	slow := stuck
	slow.Timer = 400 * time.Millisecond
	sent := func(ms float64) Progress {
		p := slow
		p.LastSent = at(ms)
		return p
	}
	over := func(ms float64) Progress { return Progress{Waiting: true, Acked: 10, Delivered: at(ms)} }
	queued := stuck
	queued.Trip = 30 * time.Millisecond
	type look struct {
		at  float64 // ms
		is  Progress
		on  int
		end DetourState
	}
	for name, tt := range map[string]struct {
		others []int
		looks  []look
	}{
		"acknowledged late":   {[]int{2}, []look{{5, stuck, 1, Doubted}, {19, got, 1, Unfounded}}},
		"nothing to wait for": {[]int{2}, []look{{25, done, 1, Unfounded}}},
		"gone":                {[]int{2}, []look{{25, gone, 1, Unfounded}}},
		"gets through elsewhere": {[]int{2, 0}, []look{{19, stuck, 1, Doubted}, {20, stuck, 2, Trying},
			{25, stuck, 2, Trying},
			{30, got, 2, Proven}, {500, stuck, 2, Proven}}},
		"all that it had to send got through": {[]int{2}, []look{{20, stuck, 2, Trying}, {25, done, 2, Proven}}},
		"on the second one": {[]int{2, 0}, []look{{20, stuck, 2, Trying}, {119, stuck, 2, Trying}, {120, stuck, 0, Trying},
			{130, got, 0, Proven}}},
		"its timer is long": {[]int{2, 0}, []look{{20, slow, 2, Trying}, {400, slow, 2, Trying}, {420, slow, 0, Trying}}},
		"has not sent there yet": {[]int{2, 0}, []look{{20, sent(15), 2, Trying}, {900, sent(15), 2, Trying},
			{1000, sent(999), 2, Trying}, {1399, sent(999), 2, Trying}, {1400, sent(999), 0, Trying},
			{2000, sent(999), 0, Trying}, {2001, Progress{Open: true, Acked: 20, LastSent: at(2000)}, 0, Proven}}},
		"sends nothing any more": {[]int{2}, []look{{20, sent(15), 2, Trying}, {10019, sent(15), 2, Trying},
			{10020, sent(15), 2, Trying}, {10420, sent(15), 1, Nowhere}}},
		"in a queue": {[]int{2}, []look{{20, queued, 1, Doubted}, {89, queued, 1, Doubted},
			{90, queued, 2, Trying}}},
		"nowhere":               {[]int{2}, []look{{20, stuck, 2, Trying}, {120, stuck, 1, Nowhere}, {900, got, 1, Nowhere}}},
		"over, and got through": {[]int{2}, []look{{20, stuck, 2, Trying}, {30, over(25), 2, Proven}}},
		"over before it moved":  {[]int{2}, []look{{20, stuck, 2, Trying}, {30, over(15), 1, Unfounded}}},
		"over where it was":     {[]int{2}, []look{{10, stuck, 1, Doubted}, {15, over(12), 1, Unfounded}}},
		"there is no other":     {nil, []look{{20, stuck, 1, Nowhere}}},
		"closed meanwhile":      {[]int{2}, []look{{20, stuck, 2, Trying}, {30, gone, 1, Unfounded}}},
	} {
		params := Pairs()
		d := NewDetour(&params, 1, stuck, at(0))
		for _, l := range tt.looks {
			was := d.On
			if moved := d.Look(l.is, 1, tt.others, at(l.at)); moved != (d.On != was) || d.On != l.on || d.State() != l.end {
				t.Errorf("%s: after %v ms on %d, %v, moved %v; want on %d, %v", name, l.at, d.On, d.State(), moved, l.on, l.end)
			}
		}
	}
}

// TestDetourBlamesNothingWithoutProof: whatever the kernel says, and whatever paths there
// are, a path is blamed only if the connection was acknowledged on another one; without
// proof it ends where it began; it tries no path twice; and it does end.
func TestDetourBlamesNothingWithoutProof(t *testing.T) {
	law := func(acks []bool, others []uint8, closes uint8) error {
		params := Pairs()
		p := Progress{Open: true, Waiting: true}
		d := NewDetour(&params, 0, p, at(0))
		visited := []int{0}
		var paths []int
		for _, o := range others {
			paths = append(paths, int(o%4))
		}
		acked := false
		for i := range 200 {
			if i < len(acks) && acks[i] && !d.Over() {
				p.Acked++
				acked = d.On != 0
			}
			if i == int(closes)+20 {
				p.Open = false
			}
			if d.Look(p, 1, paths, at(float64(5*i))) && !d.Over() {
				if slices.Contains(visited, d.On) {
					return fmt.Errorf("tries %d again, after %v", d.On, visited)
				}
				visited = append(visited, d.On)
			}
		}
		switch {
		case !d.Over():
			return fmt.Errorf("has not ended")
		case d.State() == Proven && (!acked || d.On == 0):
			return fmt.Errorf("blames without proof")
		case d.State() != Proven && d.On != 0:
			return fmt.Errorf("ends on %d without proof", d.On)
		}
		return nil
	}
	if err := quick.Check(func(acks []bool, others []uint8, closes uint8) bool {
		err := law(acks, others, closes)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	}, nil); err != nil {
		t.Error(err)
	}
}

// TestAccidentOfOneThatIsOver: a connection that got through where its timer had fired is an accident of the path, also
// where it has ended since; one of which nothing is known is none.
func TestAccidentOfOneThatIsOver(t *testing.T) {
	params := Pairs()
	for _, delivered := range []time.Time{{}, at(12)} {
		p := Progress{Open: true, Waiting: true, Acked: 10}
		d := NewDetour(&params, 1, p, at(0))
		p.Open, p.Delivered = false, delivered
		d.Look(p, 1, []int{2}, at(15))
		if got := d.Accident(p); got == delivered.IsZero() {
			t.Errorf("delivered at %v: an accident is %v", delivered, got)
		}
	}
}
