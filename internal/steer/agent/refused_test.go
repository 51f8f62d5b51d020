package agent

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
)

// TestRefusedByTheKernel: what the kernel refuses is not held for done, so that it is tried
// again, after a while, and keeps no pair from being left. The pod's namespace is not there,
// which every call to the kernel says.
func TestRefusedByTheKernel(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	p.local.plane, p.opened, p.carrying, p.carryingSince = &dataplane.Plane{}, now, 1, now.Add(-2*steady)
	p.lines[1].tx, p.local.mayDirect = 1, true
	if a.stacks.routeDirectly(p, now); p.direct != 1 || p.carryingSince.Equal(now) {
		t.Fatalf("leads to %d", p.direct)
	}
	a.stacks.fitter.Do(p)
	if e := a.journal.last(); p.direct != 0 || !p.carryingSince.Equal(now) || e.Kind != EventWarning {
		t.Errorf("leads to %d, to be tried again %v after the fault; told %+v", p.direct, steady-now.Sub(p.carryingSince), e)
	}
	a.stacks.fitter.Do(p)
	if a.stacks.preparing(p, p.assignments()) {
		t.Error("it is under way again at once")
	}
	if parted, _ := a.entries.part(p); !parted || len(p.local.pairs) > 0 {
		t.Error("the pair is not left")
	}
}

// TestMovesWait: a move to a path of smaller packets waits until the pod's kernel is fit for
// it, or cannot be made so; one that a failure or the user wants does not.
func TestMovesWait(t *testing.T) {
	for _, tc := range []struct {
		kind  decide.Kind
		by    string
		waits bool
	}{{decide.Switch, "policy", true}, {decide.Failover, "policy", false}, {decide.Switch, "user", false}} {
		a, p, _ := onePair(t)
		p.local.plane, p.opened = &dataplane.Plane{}, a.cfg.Now()
		p.assigned = decide.Assignment{Active: "m"}
		noted := func() bool { return a.journal.last().Reason != "" }
		a.mover.carryOut(p, decide.Decision{Kind: tc.kind, From: "m", To: "z", Buckets: decide.Buckets}, tc.by, 0)
		if waits := p.coming != nil; waits != tc.waits || noted() == tc.waits {
			t.Errorf("%s by %s: waits %v, carried out %v", tc.kind, tc.by, waits, noted())
		}
		a.stacks.fitter.Do(p)
		if p.coming != nil || !noted() {
			t.Errorf("%s by %s: it is not carried out", tc.kind, tc.by)
		}
	}
}

// TestPortionsLeaveFailed: flows that share networks leave one that has failed at once, as all do that
// leave their only one; they wait where it is only not worth it.
func TestPortionsLeaveFailed(t *testing.T) {
	for _, failed := range []bool{true, false} {
		a, p, h2 := onePair(t)
		now := a.cfg.Now()
		p.local.plane, p.opened = &dataplane.Plane{}, now
		p.assigned = decide.Assignment{Active: "m", With: decide.Portions{{Network: "z", Buckets: 24}}}
		if failed {
			h2.paths["z"].Signaled(now)
		}
		a.mover.carryOut(p, decide.Decision{Kind: decide.Stay, From: "m", To: "m", Buckets: decide.Buckets}, byPolicy, 0)
		if waits := p.coming != nil; waits == failed {
			t.Errorf("failed %v: waits %v", failed, waits)
		}
	}
}

// TestConfirmedButNotEntered: the other agent takes the pair's packets on every path, and
// the data plane here cannot be told of them: nothing may be moved there.
func TestConfirmedButNotEntered(t *testing.T) {
	for _, tc := range []struct {
		name  string
		taken bool // it was told before
		dry   bool
	}{{name: "never entered"}, {name: "entered before", taken: true}, {name: "a dry run", dry: true}} {
		a, p, h2 := onePair(t)
		a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
		a.cfg.DryRun, p.taken, p.openTries = tc.dry, tc.taken, 3
		p.local.plane = &dataplane.Plane{} // which has no interfaces
		p.marks = a.turnover.ring.marks(&h2.keys, nil, a.cfg.Now())
		if tc.taken {
			p.opened = a.cfg.Now().Add(-renew)
		}
		n := notice{kind: noticeOpen, status: statusDone, from: idOf(p.local.Pod), to: idOf(p.remote),
			names: a.members.dialect()}
		a.agreement.acknowledged(h2, n.encode())
		open := tc.taken || tc.dry
		if got := p.opened.Equal(a.cfg.Now()); got != open || open != (p.openTries == 0) {
			t.Errorf("%s: confirmed at %v, asked %d times", tc.name, p.opened, p.openTries)
		}
		if e := a.journal.last(); !tc.dry && (e.Kind != EventWarning || !strings.Contains(e.Reason, "no path's interface")) {
			t.Errorf("%s: told %+v", tc.name, e)
		}
	}
}
