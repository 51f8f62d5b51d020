package agent

import (
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/topo"
)

// TestRefusedByTheKernel: what the kernel refuses is not held for done, so that it is tried
// again and undone. The pod's namespace is not there, which every call to the kernel says.
func TestRefusedByTheKernel(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name  string
		begin func(*pair)
		do    func(*Agent, *pair) error
		want  func(*pair) bool
	}{
		{"the neighbour is not held", func(*pair) {}, func(a *Agent, p *pair) error { return a.prepare(p, 0, true) },
			func(p *pair) bool { return !p.held && !p.gateway }},
		{"the neighbour is held still", func(p *pair) { p.held = true },
			func(a *Agent, p *pair) error { return a.prepare(p, 0, false) }, func(p *pair) bool { return p.held }},
		{"the route is as wide as before", func(p *pair) { p.held = true },
			func(a *Agent, p *pair) error { return a.prepare(p, 1400, true) },
			func(p *pair) bool { return p.clamped == 0 && !p.shaped }},
		{"the route is as narrow as before", func(p *pair) { p.held, p.clamped, p.shaped = true, 1400, true },
			func(a *Agent, p *pair) error { return a.prepare(p, 0, true) }, func(p *pair) bool { return p.clamped == 1400 }},
		{"the route leads straight still", func(p *pair) { p.direct = 1 },
			func(a *Agent, p *pair) error { return a.undirect(p) }, func(p *pair) bool { return p.direct == 1 }},
	} {
		a, p, _ := askedPair(t)
		p.routes[0].Remote.MAC = "02:00:00:00:00:01"
		tc.begin(p)
		if err := tc.do(a, p); err == nil || !tc.want(p) {
			t.Errorf("%s: %v; held %v, gateway %v, clamped %d, shaped %v, direct %d", tc.name, err, p.held, p.gateway, p.clamped,
				p.shaped, p.direct)
		}
	}
	// Tried again after a while, not with every look at the pair.
	a, p, _ := askedPair(t)
	p.direct, p.bearing, p.borne = 1, 0, now.Add(-2*steady)
	a.straighten(p, now)
	if p.direct != 1 || !p.borne.Equal(now) {
		t.Errorf("leads to %d, to be tried again %v after the fault", p.direct, steady-now.Sub(p.borne))
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
		a, p, h2 := askedPair(t)
		a.elsewhere = newElsewhere([]topo.Pod{p.remote}, 1)
		a.cfg.DryRun, p.taken, p.asks = tc.dry, tc.taken, 3
		if tc.taken {
			p.opened = a.cfg.Now().Add(-renew)
		}
		n := notice{kind: noticeOpen, status: statusDone, from: idOf(p.local.Pod), to: idOf(p.remote), names: a.dialect()}
		a.acknowledged(h2, n.encode())
		open := tc.taken || tc.dry
		if got := p.opened.Equal(a.cfg.Now()); got != open || open != (p.asks == 0) {
			t.Errorf("%s: confirmed at %v, asked %d times", tc.name, p.opened, p.asks)
		}
		if e := a.journal.last(); !tc.dry && (e.Kind != EventWarning || !strings.Contains(e.Reason, p.local.Netns)) {
			t.Errorf("%s: told %+v", tc.name, e)
		}
	}
}
