package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/kick"
)

// waker has connections try at once that wait for a doubled timeout, as their path has changed.
type waker struct {
	*journal
	pacer *pacer
	clock clock
	kicks *kick.Waker
	// waking are the pairs whose connections are to be woken once the other agent knows.
	waking []*pair
	// lost are those whose SYNs are to be sent again.
	lost []*resending
}

// wake makes connections that wait for a doubled timeout try at once: the path has changed.
func (w *waker) wake(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	w.wakeMoved(p, moved, now)
}

// wakeSoon is wake for flows of the pair's own that have moved, once the other agent
// has confirmed that it knows, or after a while: what is woken sooner is answered on the
// path that was left.
func (w *waker) wakeSoon(p *pair, moved dataplane.Set, now time.Time) {
	p.left = now
	if p.waking == 0 {
		p.wakeAt = now.Add(confirmSoon)
		w.waking = append(w.waking, p)
		w.pacer.soon(confirmSoon / 4)
	}
	p.waking |= moved
}

// confirmSoon is how long that may take: some round trips of probes, and what an agent
// may wait for a processor.
const confirmSoon = 2 * time.Millisecond

// wakeNow wakes what wakeSoon has left.
func (w *waker) wakeNow(p *pair) {
	if p.waking != 0 {
		w.wakeMoved(p, p.waking, w.cfg.Now())
		p.waking = 0
	}
}

// wakeDue wakes those whose time has come, and returns when to look again.
func (w *waker) wakeDue(now time.Time) time.Duration {
	next := idleTick
	w.waking = slices.DeleteFunc(w.waking, func(p *pair) bool {
		if !now.Before(p.wakeAt) {
			w.wakeNow(p)
		}
		if p.waking != 0 {
			next = min(next, confirmSoon/4)
		}
		return p.waking == 0
	})
	return next
}

// wakeMoved is wake where flows have moved before.
func (w *waker) wakeMoved(p *pair, moved dataplane.Set, now time.Time) {
	r := p.routes[0]
	w.kicks.Wake(kick.Call{Netns: p.local.Netns, Local: r.Local.Addr, Remote: r.Remote.Addr, Shelves: p.stuck.Take(moved),
		At: now})
}
