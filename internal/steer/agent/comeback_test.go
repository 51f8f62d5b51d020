package agent

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// TestMovesWaitForTheOtherHost: flows that were away lately move once the other host has forgotten what they have left
// behind, or its agent does not know what is asked, or does not answer. A failure does not wait.
func TestMovesWaitForTheOtherHost(t *testing.T) {
	answer := func(is status) func(*Agent, *pair, *remoteHost) {
		return func(a *Agent, p *pair, h2 *remoteHost) {
			n := a.mover.teller.about(p, noticeReturn)
			n.status = is
			a.agreement.acknowledged(h2, n.encode())
		}
	}
	for _, tc := range []struct {
		name  string
		kind  decide.Kind
		away  bool
		then  func(*Agent, *pair, *remoteHost)
		waits bool // after that
	}{
		{"at home for long", decide.Switch, false, nil, false},
		{"a failure", decide.Failover, true, nil, false},
		{"away lately", decide.Switch, true, nil, true},
		{"it looks", decide.Switch, true, answer(statusLooking), true},
		{"it has", decide.Switch, true, answer(statusDone), false},
		{"it does not know the pair", decide.Switch, true, answer(statusUnknown), false},
		{"an earlier version", decide.Switch, true, answer(statusNone), false},
		{"asked again", decide.Switch, true, func(a *Agent, p *pair, _ *remoteHost) {
			a.entries.askAgain(p, a.cfg.Now().Add(epoch))
		}, true},
		{"without an answer", decide.Switch, true, func(a *Agent, p *pair, _ *remoteHost) {
			a.entries.askAgain(p, a.cfg.Now().Add(untrackAgain))
		}, false},
	} {
		a, p, h2 := onePair(t)
		a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
		p.local.plane, p.opened = &dataplane.Plane{}, a.cfg.Now()
		p.assigned = decide.Assignment{Active: "m"}
		if tc.away {
			p.away = a.cfg.Now()
		}
		a.mover.carryOut(p, decide.Decision{Kind: tc.kind, From: "m", To: "z", Buckets: decide.Buckets}, byPolicy, 0)
		a.stacks.fitter.Do(p)
		if tc.then != nil {
			tc.then(a, p, h2)
		}
		if waits := p.coming != nil; waits != tc.waits {
			t.Errorf("%s: waits %v", tc.name, waits)
		}
	}
}

// TestAnswersOnceForgotten: the other agent is told that nothing is left once this host has looked.
func TestAnswersOnceForgotten(t *testing.T) {
	a, p, _ := onePair(t)
	a.members.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
	ask := func(want status) {
		t.Helper()
		n := notice{kind: noticeReturn, from: idOf(p.remote), to: idBy(p.localUID()), names: a.members.dialect()}
		is, err := decodeNotice(a.respondent.handleNotice(stamp.TLV{Type: noticeType, Value: n.encode()}))
		if err != nil || is.status != want {
			t.Errorf("answered %d, %v, expected %d", is.status, err, want)
		}
	}
	ask(statusDone) // nothing has moved
	a.untracked.add(p)
	ask(statusLooking)
	ask(statusLooking)
	looks := a.untracked.take(a.cfg.Now(), true)
	ask(statusLooking) // it looks
	a.untracked.tell(looks)
	ask(statusDone)
	ask(statusDone)
	a.untracked.add(p) // they have moved again
	ask(statusLooking)
}
