package kube

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// TestFailures: a pod's users are told of a path that fails, and once all are up again; each when
// the pod may be told of.
func TestFailures(t *testing.T) {
	f := newFailures()
	move := func(kind decide.Kind, pair, from string, state decide.Condition) {
		f.event(agent.Event{Kind: string(kind), Pair: pair, From: from, Reason: "silent",
			Evidence: &decide.PairEvidence{Paths: []decide.PathEvidence{{Network: from, State: state}}}})
	}
	paths := func(states ...string) {
		var all []agent.PathStatus
		for i, state := range states {
			all = append(all, agent.PathStatus{Pair: "shop/a>shop/b", Network: []string{"x", "y"}[i], State: state})
		}
		f.paths(all)
	}
	may := true
	check := func(step string, want ...string) {
		t.Helper()
		var got []string
		f.tell(func(string) bool { return may }, func(pod string, n notice) {
			got = append(got, pod+" "+n.reason+": "+n.text)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	const first = "shop/a PathFailed: the path to shop/b on network x: silent"
	move(decide.Switch, "shop/a>shop/b", "x", decide.Up)
	move(decide.Failover, "shop/a>shop/b", "x", decide.Ineligible)
	check("no failure")
	move(decide.Failover, "shop/a>shop/b", "x", decide.Failed)
	check("a failure", first)
	check("it is told once")
	move(decide.Failover, "shop/a>shop/b", "y", decide.Failed)
	may = false
	check("too soon")
	may = true
	check("another one", first+"; and 1 more")
	paths("up", "failed")
	check("one is left")
	paths("up", "up")
	check("well", "shop/a PathRecovered: all paths that had failed are up again")
	if f.waits() {
		t.Errorf("%+v", f)
	}
	may = false
	move(decide.Fallback, "shop/a>shop/b", "x", decide.Failed)
	paths("up", "up")
	may = true
	check("over before it was told")
	move(decide.Failover, "shop/a>shop/b", "x", decide.Failed)
	check("again", first)
	paths()
	check("the pair is gone, and nobody knows")
	if f.waits() || len(f.announced) > 0 {
		t.Errorf("%+v", f)
	}
}
