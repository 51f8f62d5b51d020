package agent

import (
	"testing"
	"time"
)

func TestLag(t *testing.T) {
	const ms = time.Millisecond
	zero := time.Unix(1000, 0)
	type work struct{ due, ended int } // in ms after zero
	for _, tc := range []struct {
		name       string
		turns      []work
		since, due int
		now        int
		want       time.Duration
	}{
		{"no turn yet", nil, 0, 10, 10, 0},
		{"all in time", []work{{3, 3}, {6, 7}, {10, 10}}, 0, 13, 13, 0},
		{"one was late", []work{{3, 3}, {6, 18}, {21, 21}}, 0, 24, 24, 11 * ms},
		{"the longest counts", []work{{3, 10}, {13, 33}, {36, 40}}, 0, 43, 43, 19 * ms},
		{"it was late before", []work{{3, 23}, {26, 26}, {29, 29}}, 24, 32, 32, 0},
		{"it was late until then", []work{{3, 23}, {26, 26}}, 22, 29, 29, 19 * ms},
		{"this turn is late", []work{{3, 3}}, 0, 6, 26, 19 * ms},
		{"this turn is early", []work{{3, 3}}, 0, 6, 4, 0},
	} {
		var l lag
		at := func(n int) time.Time { return zero.Add(time.Duration(n) * ms) }
		for _, w := range tc.turns {
			l.add(at(w.due), at(w.ended))
		}
		if got := l.since(at(tc.since), at(tc.due), at(tc.now)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	// Older turns than it remembers are forgotten, not taken for others.
	var l lag
	l.add(zero, zero.Add(50*ms))
	for i := range len(l.turns) {
		at := zero.Add(time.Duration(60+3*i) * ms)
		l.add(at, at)
	}
	if got := l.since(zero, zero.Add(time.Second), zero.Add(time.Second)); got != 0 {
		t.Errorf("a turn that is forgotten: %v", got)
	}
}
