package agent

import (
	"testing"
	"time"
)

// TestDoubt: flows of the peer go home when its agent has said nothing of them for long, but not to a default network
// that has failed.
func TestDoubt(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(*Agent, *pair, time.Time)
		want bool
	}{
		{"nothing was said for long", func(*Agent, *pair, time.Time) {}, true},
		{"something was said", func(_ *Agent, p *pair, now time.Time) { p.heardOf = now.Add(-believes / 2) }, false},
		{"traffic is just back", func(_ *Agent, p *pair, now time.Time) { p.resumed = now.Add(-believes / 2) }, false},
		{"the default one has failed", func(_ *Agent, p *pair, now time.Time) { p.host.paths["m"].Signaled(now) }, false},
		{"it has failed for the pair", func(_ *Agent, p *pair, now time.Time) { p.lines[0].Signaled(now) }, false},
		{"data do not pass", func(a *Agent, p *pair, now time.Time) { p.lines[0].bar.Raise(a.pairs.params, now) }, false},
		{"the other network has failed", func(_ *Agent, p *pair, now time.Time) { p.lines[1].Signaled(now) }, true},
		{"the other host has no agent there", func(_ *Agent, p *pair, _ time.Time) { delete(p.host.paths, "m") }, true},
	} {
		a, p, _ := askedPair(t)
		now := a.cfg.Now()
		tc.is(a, p, now)
		if got := p.doubtful(now); got != tc.want {
			t.Errorf("%s: doubtful %v", tc.name, got)
		}
	}
}
