package agent

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
)

// TestPinByTheCluster: what the cluster says of a pod pins its pairs where they have such a path;
// a user's pin comes before it.
func TestPinByTheCluster(t *testing.T) {
	for name, tc := range map[string]struct{ policy, pinned, want, by string }{
		"nothing":         {"", "", "", ""},
		"policy":          {"z", "", "z", "P"},
		"home":            {"m", "", "m", "P"},
		"no such path":    {"y", "", "", ""},
		"by hand":         {"", "z", "z", ""},
		"hand and policy": {"m", "z", "z", ""},
	} {
		a, p, _ := onePair(t)
		p.local.Pin, p.local.Policy, p.pinned = tc.policy, "P", tc.pinned
		p.local.plane = &dataplane.Plane{}
		if p.pin() != tc.want || p.pinner() != tc.by {
			t.Errorf("%s: pinned to %q by %q", name, p.pin(), p.pinner())
		}
		ev := decide.PairEvidence{Active: "m", Paths: []decide.PathEvidence{{Network: "m", State: decide.Up},
			{Network: "z", State: decide.Up}}}
		if tc.want == "" {
			continue
		}
		if d := p.keepPinned(ev, decide.Decision{Kind: decide.Switch, To: "q"}); (d.To == "m") != (tc.want == "m") {
			t.Errorf("%s: %+v", name, d)
		}
		a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
		e, err := a.Order(Order{Local: "p", Remote: "q"})
		if err != nil || strings.Contains(e.Reason, "P keeps it on "+tc.want) != (tc.by != "") {
			t.Errorf("%s, unpinned: %+v, %v", name, e, err)
		}
		if _, err := a.Order(Order{Local: "p", Remote: "q", Network: "z", Force: true}); (err != nil &&
			strings.Contains(err.Error(), "P pins it to "+tc.policy)) != (tc.policy != "") {
			t.Errorf("%s, switched: %v", name, err)
		}
	}
}

// TestDryRunOfAPod: what would be done for its flows is told once, orders are refused, flows that
// are elsewhere come home, and those of other pods go on.
func TestDryRunOfAPod(t *testing.T) {
	a, p, _ := onePair(t)
	a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
	p.local.plane, p.opened = &dataplane.Plane{}, a.cfg.Now()
	p.assigned, p.local.DryRun, p.local.Policy = decide.Assignment{Active: "m"}, true, "P"
	d := decide.Decision{Kind: decide.Switch, From: "m", To: "z", Buckets: decide.Buckets, Reason: "better"}
	before := a.journal.last().ID
	for range 3 {
		a.mover.carryOut(p, d, byPolicy, 0)
	}
	if e := a.journal.last(); e.ID != before+1 || !e.DryRun || e.To != "z" || p.on().Network != "m" {
		t.Errorf("told %d times: %+v; on %s", e.ID-before, e, p.on().Network)
	}
	p.decision[0] = d
	s := a.judge.status(p, decide.PairEvidence{Active: "m"}, decide.PathEvidence{Network: "m"})
	if s.Why != "a dry run by P: switch to z would follow: better" || s.Policy != "P" {
		t.Errorf("%+v", s)
	}
	if _, err := a.Order(Order{Local: "p", Remote: "q", Network: "z", Pin: true}); err == nil ||
		!strings.Contains(err.Error(), "P says dry run of pod p") {
		t.Errorf("an order: %v", err)
	}
	p.local.DryRun = false
	a.mover.keepHome(p)
	a.mover.carryOut(p, d, byUser, 0)
	if e := a.journal.last(); e.DryRun {
		t.Errorf("not a dry run: %+v", e)
	}
}
