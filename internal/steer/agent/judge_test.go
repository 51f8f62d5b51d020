package agent

import (
	"fmt"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// manyPairs is an agent with that many pairs of two hosts, which have traffic on their default network.
func manyPairs(t testing.TB, pairs int) (*Agent, []*pair) {
	a, p, h2 := onePair(t)
	p.local.plane = &dataplane.Plane{}
	all := []*pair{p}
	for n := 1; n < pairs; n++ {
		q := testPod(fmt.Sprint("q", n), 2, 1, "m", "z")
		all = append(all, &pair{name: "p>" + q.Name, local: p.local, remote: q, host: h2, routes: p.routes,
			lines: newLines(2, a.pairs.params)})
		p.local.pairs[q.UID] = all[n]
	}
	for _, p := range all {
		p.active, p.assigned = a.cfg.Now(), decide.Assignment{Active: "m"}
	}
	return a, all
}

// TestOtherPairs: evidence tells how many other pairs of the hosts have traffic on each network.
func TestOtherPairs(t *testing.T) {
	a, all := manyPairs(t, 4)
	now := a.cfg.Now()
	all[1].assigned = decide.Assignment{Active: "z"}
	all[2].assigned.With = decide.Portions{{Network: "z", Buckets: 8}}
	all[3].active = now.Add(-2 * quiet)
	for i, want := range [][2]int{{1, 2}, {2, 1}, {1, 1}, {2, 2}} {
		ev := a.judge.evidence(all[i], now)
		if got := [2]int{ev.Paths[0].OtherPairs, ev.Paths[1].OtherPairs}; got != want {
			t.Errorf("pair %d: others on m and z %v, want %v", i, got, want)
		}
	}
	all[3].active = now
	if n := a.judge.evidence(all[0], now.Add(time.Millisecond)).Paths[0].OtherPairs; n != 2 {
		t.Errorf("a moment later: %d, want 2", n)
	}
}

// BenchmarkEvidence gathers that of a thousand pairs at once, as one does who asks for all paths.
func BenchmarkEvidence(b *testing.B) {
	a, all := manyPairs(b, 1000)
	now := a.cfg.Now()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		for _, p := range all {
			a.judge.evidence(p, now)
		}
	}
}
