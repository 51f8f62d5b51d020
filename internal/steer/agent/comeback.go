package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// Flows that come back to a network meet what they had left behind there in what both hosts track. This agent has its
// own host forget it before they move (untracked.before). The other one is asked to: its host may be busier, or track
// more, and drops what does not fit, be it from here or from there, for as long as the connections live.

// comeback is that the other host is to have forgotten what the pair's flows have left behind.
type comeback struct {
	// first is when its agent was asked first, and last when it last was.
	first, last time.Time
	// waits is closed once it has; nil where nobody waits. forgot is when it had.
	waits  chan struct{}
	forgot time.Time
}

// waits reports whether a move of the pair's flows is to wait until this host and the other one are ready for it.
func (m *mover) waits(p *pair, to [flow.Rows]decide.Assignment, now time.Time) bool {
	preparing, here, there := m.stacks.preparing(p, to), m.untracked.before(p), m.beforeThere(p, now, epoch)
	return preparing || here != nil || there != nil
}

// beforeThere asks the other agent to have its host forget what the pair's flows have left behind, before they move
// again, once in every. It returns what is closed when that is done, nil where nothing is left, or the other agent does
// not say so in time. Flows that were on the default network for long have left nothing.
func (m *mover) beforeThere(p *pair, now time.Time, every time.Duration) <-chan struct{} {
	c := &p.comeback
	switch {
	case p.takesReturns:
		p.forgotThere(now)
		return nil
	case p.opened.IsZero(), now.Sub(p.away) >= lately, now.Sub(c.forgot) < untrackAgain:
		return nil
	case c.waits == nil:
		c.waits, c.first, c.last = make(chan struct{}), now, time.Time{}
	case now.Sub(c.first) >= untrackAgain:
		p.forgotThere(now)
		return nil
	}
	if now.Sub(c.last) >= every {
		c.last = now
		m.teller.wires.tell(p.host, m.teller.about(p, noticeReturn), "")
	}
	return c.waits
}

// forgotThere is told that the other host has forgotten what the pair's flows had left behind.
func (p *pair) forgotThere(now time.Time) {
	if c := &p.comeback; c.waits != nil {
		close(c.waits)
		c.waits, c.forgot = nil, now
	}
}

// handleReturn answers whether this host has forgotten what the pair's flows have left behind, and has it do so.
func (re *respondent) handleReturn(p *pair) status {
	if re.mover.untracked.before(p) != nil {
		return statusLooking
	}
	return statusDone
}

// returns takes the answer. An earlier version gives none: then nothing is waited for.
func (ag *agreement) returns(p *pair, is status) {
	if is != statusLooking {
		p.forgotThere(ag.cfg.Now())
		ag.entries.move(p)
	}
}

// askAgain asks again for what a move waits, where the other agent has not said yet that it is done.
func (en *entries) askAgain(p *pair, now time.Time) {
	if p.coming != nil && p.comeback.waits != nil && en.mover.beforeThere(p, now, epoch) == nil {
		en.move(p)
	}
}
