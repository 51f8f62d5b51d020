package detect

import (
	"testing"
	"time"
)

// TestRequests: requests that are usually answered are missed where two are late, and those to a server that is slow,
// or was never known to answer, are not.
func TestRequests(t *testing.T) {
	params := Pairs()
	const look = 50 * time.Millisecond
	// Each step is a look: so many requests begin, and those that wait so many looks are answered.
	type step struct{ begin, after int } // after < 0: none is answered
	repeat := func(n int, s step) (out []step) {
		for range n {
			out = append(out, s)
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		steps   []step
		missing bool
	}{
		{"answered at once", repeat(20, step{2, 0}), false},
		{"never answered", repeat(20, step{1, -1}), false},
		{"no more answered", append(repeat(10, step{1, 0}), repeat(4, step{1, -1})...), true},
		{"one alone", append(append(repeat(10, step{1, 0}), step{1, -1}), repeat(20, step{0, -1})...), false},
		{"slow", repeat(60, step{1, 5}), false},
		{"slow, and no more answered", append(repeat(60, step{1, 5}), repeat(30, step{1, -1})...), true},
		{"slow, and not yet late", append(repeat(60, step{1, 5}), repeat(15, step{1, -1})...), false},
		{"unknown yet", append(repeat(3, step{1, 0}), repeat(20, step{1, -1})...), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Requests
			now, port := time.Unix(1e9, 0), uint16(1000)
			age := map[uint16]int{}
			for _, s := range tt.steps {
				now = now.Add(look)
				for range s.begin {
					age[port] = 0
					port++
				}
				var waiting, answered []uint16
				for p := range age {
					if s.after >= 0 && age[p] >= s.after {
						answered = append(answered, p)
						delete(age, p)
					} else {
						waiting = append(waiting, p)
						age[p]++
					}
				}
				r.Looked(&params, waiting, answered, now)
			}
			if got := r.Missing(&params, now); got != tt.missing {
				t.Errorf("missing %t: %+v", got, r)
			}
		})
	}
}
