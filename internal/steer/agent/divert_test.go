package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// tryingDetour is a detour that is on another path.
func tryingDetour(path int) detect.Detour {
	params, at := detect.Pairs(), time.Unix(1, 0)
	is := detect.Progress{Open: true, Waiting: true}
	d := detect.NewDetour(&params, 0, is, at)
	d.Look(is, 1, []int{path}, at.Add(params.AckWithin))
	return d
}

// TestDoubt: flows of the peer go home when its agent has said nothing of them for long, but not to a default network
// that has failed.
func TestDoubt(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(*Agent, *pair, time.Time)
		want bool
	}{
		{"nothing was said for long", func(*Agent, *pair, time.Time) {}, true},
		{"something was said", func(_ *Agent, p *pair, now time.Time) { p.followedAt = now.Add(-believes / 2) }, false},
		{"traffic is just back", func(_ *Agent, p *pair, now time.Time) { p.resumed = now.Add(-believes / 2) }, false},
		{"the default one has failed", func(_ *Agent, p *pair, now time.Time) { p.host.paths["m"].Signaled(now) }, false},
		{"it has failed for the pair", func(_ *Agent, p *pair, now time.Time) { p.lines[0].Signaled(now) }, false},
		{"data do not pass", func(a *Agent, p *pair, now time.Time) { p.lines[0].bar.Raise(a.pairs.params, now) }, false},
		{"one of them is tried elsewhere", func(_ *Agent, p *pair, _ time.Time) {
			q := &inquiry{pair: p, begun: true, side: dataplane.Theirs, Detour: tryingDetour(1)}
			p.inquiries = map[ports]*inquiry{{1, 2}: q}
		}, false},
		{"the other network has failed", func(_ *Agent, p *pair, now time.Time) { p.lines[1].Signaled(now) }, true},
		{"the other host has no agent there", func(_ *Agent, p *pair, _ time.Time) { delete(p.host.paths, "m") }, true},
	} {
		a, p, _ := onePair(t)
		now := a.cfg.Now()
		tc.is(a, p, now)
		if got := p.doubtful(now); got != tc.want {
			t.Errorf("%s: doubtful %v", tc.name, got)
		}
	}
}
