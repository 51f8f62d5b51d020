package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/kick"
)

// wake makes connections that wait for a doubled timeout try at once: the path has changed.
func (a *Agent) wake(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	a.wakeMoved(p, moved, now)
}

// wakeSoon is wake for flows of the pair's own that have moved, once the other agent
// has confirmed that it knows, or after a while: what is woken sooner is answered on the
// path that was left.
func (a *Agent) wakeSoon(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	if p.waking == 0 {
		p.wakeAt = now.Add(confirmSoon)
		a.waking = append(a.waking, p)
		a.soon(confirmSoon / 4)
	}
	p.waking |= moved
}

// confirmSoon is how long that may take: some round trips of probes, and what an agent
// may wait for a processor.
const confirmSoon = 2 * time.Millisecond

// wakeNow wakes what wakeSoon has left.
func (a *Agent) wakeNow(p *pair) {
	if p.waking != 0 {
		a.wakeMoved(p, p.waking, a.cfg.Now())
		p.waking = 0
	}
}

// wakeDue wakes those whose time has come, and returns when to look again.
func (a *Agent) wakeDue(now time.Time) time.Duration {
	next := idleTick
	a.waking = slices.DeleteFunc(a.waking, func(p *pair) bool {
		if !now.Before(p.wakeAt) {
			a.wakeNow(p)
		}
		if p.waking != 0 {
			next = min(next, confirmSoon/4)
		}
		return p.waking == 0
	})
	return next
}

// wakeMoved is wake where flows have moved before.
func (a *Agent) wakeMoved(p *pair, moved dataplane.Set, now time.Time) {
	r := p.routes[0]
	a.waker.Wake(kick.Call{Netns: p.local.Netns, Local: r.Local.Addr, Remote: r.Remote.Addr, Shelves: p.stuck.Take(moved),
		At: now})
}
