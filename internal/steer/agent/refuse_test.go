package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// TestOneGoesAhead: of connections that wait on the same path one leaves it to find out, and the
// others after it, unless nothing comes over the path.
func TestOneGoesAhead(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	is := detect.Progress{Open: true, Waiting: true, Sent: 1000}
	p.inquiries = map[ports]*inquiry{}
	for port := range uint16(3) {
		q := &inquiry{pair: p, ports: ports{port, 80}, side: dataplane.Ours, begun: true,
			Detour: detect.NewDetour(a.pairs.params, p.routes[0].Index, is, now.Add(-ms))}
		p.inquiries[q.ports] = q
	}
	first, second, other := p.inquiries[ports{0, 80}], p.inquiries[ports{1, 80}], p.inquiries[ports{2, 80}]
	other.From = p.routes[1].Index
	check := func(what string, q *inquiry, want detect.Around) {
		t.Helper()
		if got := a.inquirer.around(q, is, now); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("all wait", second, detect.Around{})
	first.Look(is, 1, []int{p.routes[1].Index}, now.Add(a.pairs.params.AckWithin))
	check("the first itself", first, detect.Around{})
	check("the first has left", second, detect.Around{Ahead: true})
	check("it was on another path", other, detect.Around{})
	p.lines[0].silence.Since = now.Add(-is.Deaf(a.pairs.params))
	p.lines[0].Refused() // echoes do not pass
	check("nothing comes", second, detect.Around{Ahead: true, Silent: true})
	now = now.Add(10 * a.pairs.params.AckWithin)
	check("it went long ago", second, detect.Around{Silent: true})
}

// TestExcusedOnce: a connection that no path got through returns once it gets through elsewhere, as
// its path may do so too by then. One that returned and still does not is believed.
func TestExcusedOnce(t *testing.T) {
	a, p, _ := onePair(t)
	now, trust := a.cfg.Now(), 3*a.pairs.params.DetourAgain
	one, other := ports{1, 80}, ports{2, 80}
	if p.excuses(one, trust, now) {
		t.Error("excused, though nothing ever failed on all paths")
	}
	p.nowhere = now
	for _, conn := range []ports{one, other} {
		if !p.excuses(conn, trust, now) || p.excuses(conn, trust, now) {
			t.Errorf("%v is not excused once", conn)
		}
	}
	p.nowhere, p.excused = now.Add(ms), nil // nothing gets through again
	if !p.excuses(one, trust, now.Add(ms)) || p.excuses(other, trust, now.Add(ms+trust)) {
		t.Error("not excused again, or for ever")
	}
}

// TestRefuge: the peer's flows leave a path that fails even where the pair's own, of which there
// may be none, stay there.
func TestRefuge(t *testing.T) {
	a, p, h2 := onePair(t)
	now := a.cfg.Now()
	m, z := p.routes[0].Index, p.routes[1].Index
	p.opened = now
	check := func(what string, want int) {
		t.Helper()
		if to, ok := p.refuge(m); ok != (want >= 0) || ok && to != want {
			t.Errorf("%s: to %d, %v, want %d", what, to, ok, want)
		}
	}
	check("its own stay", z)
	p.assigned = decide.Assignment{Active: p.routes[1].Network}
	check("its own have left", z)
	p.assigned = decide.Assignment{}
	p.opened = time.Time{}
	check("the peer may not take them", -1)
	p.followedAt = now
	check("the peer moves flows", z)
	h2.paths[p.routes[1].Network].Signaled(now)
	check("no other is well", -1)
}

// TestMuteUnasked: what the other agent says of a path is believed for a while where this end does
// not know whether its own echoes pass.
func TestMuteUnasked(t *testing.T) {
	a, p, _ := onePair(t)
	p.local.plane, p.opened = &dataplane.Plane{}, a.cfg.Now()
	n := notice{kind: noticeMute, network: 0}
	for range 2 {
		if got := a.respondent.handleMute(p, n); got != statusDone {
			t.Errorf("answered %d", got)
		}
	}
	ln, other := &p.lines[0], &p.lines[1]
	if left := ln.bar.Left(a.cfg.Now()); left != a.pairs.params.BarFirst || ln.Down() || other.bar.Left(a.cfg.Now()) > 0 {
		t.Errorf("barred for %v, failed %v", left, ln.Down())
	}
	if n.network = 7; a.respondent.handleMute(p, n) != statusUnknown {
		t.Error("an unknown network")
	}
}
