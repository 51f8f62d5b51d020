package agent

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// TestMembersComeAndGo: what has come is found by each of its names, what has gone by none,
// and each change is counted.
func TestMembersComeAndGo(t *testing.T) {
	m := newMembers()
	q := testPod("q", 2, 1, "m", "z")
	m.description = &description{names: []string{"m", "z"}, elsewhere: newElsewhere([]topo.Pod{q}, 1)}
	l := &pod{Pod: testPod("p", 1, 1, "m", "z"), pairs: map[string]*pair{}, cookie: 7}
	p := &pair{local: l, remote: q, routes: route.Between(l.Pod, q)}
	known := func() []bool {
		return []bool{m.knows(p), slices.Contains(slices.Collect(m.pairs()), p), m.pairOf(idOf(l.Pod), idOf(q)) == p,
			slices.Contains(m.pairsOf(telemetry.Pair{Netns: 7, Remote: p.routes[0].Remote.Addr}), p)}
	}
	for i, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"nobody", func() { m.changes++ }, false}, {"a pod", func() { m.add(l) }, false},
		{"a pair", func() { m.enter(p) }, true}, {"it is gone", func() { m.leave(p) }, false},
		{"it is back", func() { m.enter(p) }, true}, {"the pod is gone", func() { m.remove(l) }, false},
	} {
		step.do()
		if got := known(); slices.Contains(got, !step.want) || m.changes != i+1 {
			t.Errorf("%s: found %v, want %v; %d changes", step.name, got, step.want, m.changes)
		}
	}
	if m.remove(l); m.changes != 6 {
		t.Error("one that has gone counts when it goes again")
	}
	if got := []string{m.network(0), m.network(1), m.network(2), m.network(noChoice)}; !slices.Equal(got,
		[]string{"m", "z", "", ""}) {
		t.Errorf("networks %q", got)
	}
}
