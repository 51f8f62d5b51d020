package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// failure is a path that does not carry packets: those of all pairs with a host, or one pair's.
type failure struct {
	path *hostPath
	pair *pair // nil: all pairs on the path
	line int   // of the pair
	// since is when it fell silent, and by whom that was found: "policy" here, or "peer".
	since  time.Time
	reason string
	by     string
}

// escape has pairs leave paths that have failed.
type escape struct {
	*journal
	members *members
	judge   *judge
	mover   *mover
	opener  *opener
	teller  *teller
	stats   *counters
}

// leave has the pairs leave that are on the path, at once. Then it tells the other agent what
// was found here: that one may have nothing to send, and so would not notice.
func (e *escape) leave(f failure, now time.Time) {
	event := Event{Kind: EventPeer, Reason: f.reason, Detected: now.Sub(f.since), By: f.by}
	if f.pair != nil {
		e.stats.mutes++
		event.Kind, event.Pair, event.To = EventSuspect, f.pair.name, f.pair.routes[f.line].Network
		e.leavePath(f.pair, f.line, now, event.Detected)
	} else {
		event.To = f.path.network
		for p, i := range e.members.along(f.path) {
			e.leavePath(p, i, now, event.Detected)
		}
	}
	e.note(event)
	switch {
	case f.by == byPeer:
	case f.pair != nil:
		e.teller.mute(f.pair, f.line)
	default:
		e.stats.failovers++
		e.teller.failed(f.path)
	}
}

// leavePath moves the pair's flows off path i. Those of its own go where the policy says; those
// that the peer has opened go where ours are, until it says otherwise.
func (e *escape) leavePath(p *pair, i int, now time.Time, detected time.Duration) {
	from := p.routes[i].Index
	p.stale = now // it may be the next hop that has changed
	if p.uses(from) {
		for _, d := range e.judge.failOver(p, now) {
			if p.leaves(d) {
				e.mover.carryOut(p, d, byPolicy, detected)
			}
		}
	}
	if p.failed(from) {
		e.mover.vacate(p, from, now)
	}
	// A dry run moves nothing, and a data plane may refuse.
	if to, ok := p.refuge(from); ok && !e.cfg.DryRun {
		e.mover.divert(p, dataplane.All, from, to, now)
	}
	e.opener.judge(p, now)
}

// bar keeps the pair off path i, which does not get its connections or requests through, unless it is kept off already.
// It reports whether the pair leaves for that.
func (e *escape) bar(p *pair, i int, params *detect.Params, detected time.Duration, now time.Time) (leaves bool) {
	b := &p.lines[i].bar
	if b.Left(now) > 0 {
		return false
	}
	b.Raise(params, now)
	e.leavePath(p, i, now, detected)
	return true
}

// refuge is the path that flows of the peer take which leave one that has failed: where the pair's
// own are, or, where those have not left as there are none or they may not, the best known.
func (p *pair) refuge(from int) (to int, ok bool) {
	if to = p.on().Index; to != from {
		return to, true
	}
	// The peer takes packets on every path: it has said so, or moves flows itself.
	others := p.otherPaths(from)
	if len(others) == 0 || p.opened.IsZero() && p.followedAt.IsZero() {
		return 0, false
	}
	return others[0], true
}

// leaves reports whether a decision takes flows off a path that they are on, but for a canary.
func (p *pair) leaves(d decide.Decision) bool {
	was, is := p.assignments(), p.apply(d)
	for row := range was {
		for _, one := range was[row].With {
			if one.Network != "" && is[row].With.On(one.Network) == 0 {
				return true
			}
		}
	}
	return d.Moves()
}
