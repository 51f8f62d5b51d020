package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// Flows that the peer has opened are where its agent says, but where a path has failed.

// divert has flows that the peer has opened be answered on another path than the peer says,
// until it says so again, and wakes them.
func (m *mover) divert(p *pair, set dataplane.Set, from, to int, now time.Time) {
	_, err := p.local.plane.DivertSome(p.remote.UID, set, from, to)
	m.fault(p.name, err)
	m.answersMoved(p)
	m.waker.wake(p, set, now)
}

// believes is for how long the other agent's word of where its flows are is good.
const believes = dataplane.DefaultLease

// doubt has followed flows go home when the agent that decides about them has said
// nothing of them for long, though there is traffic: it may be dead, and nobody would
// see their path fail.
func (m *mover) doubt(p *pair, now time.Time) {
	if m.cfg.DryRun || !p.doubtful(now) {
		return
	}
	if n, err := p.local.plane.Unfollow(p.remote.UID); err == nil && n > 0 {
		m.answersMoved(p)
		m.note(Event{Kind: EventPeer, Pair: p.name, To: p.routes[0].Network,
			Reason: fmt.Sprintf("the agent of %s has said nothing of its flows for %v: they are answered on the default network", p.host.name, believes)})
	}
}

// doubtful reports whether that is so. Flows stay where they are as long as the default network is known to fail: there
// they get nothing through; or one of them is asked about on another path.
func (p *pair) doubtful(now time.Time) bool {
	for _, q := range p.inquiries {
		if q.begun && q.side == dataplane.Theirs && q.State() == detect.Trying {
			return false
		}
	}
	return now.Sub(p.followedAt) >= believes && now.Sub(p.resumed) >= believes && !p.homeFails(now)
}

// down reports whether path i has failed, for the host or for the pair.
func (p *pair) down(i int) bool {
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && hp.Down() || p.lines[i].Down()
}

// homeFails reports whether the default network is known to fail now, also if for connections alone.
func (p *pair) homeFails(now time.Time) bool { return p.down(0) || p.lines[0].bar.Left(now) > 0 }
