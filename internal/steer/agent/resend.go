package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/kick"
)

// resending is when SYNs of a pair are to be sent again that are not answered until then.
type resending struct {
	pair *pair
	// after is when the earliest was sent, of CLOCK_MONOTONIC, and at are the times that remain.
	after time.Duration
	at    []time.Time
}

// resendAfter is for how long a SYN waits for an answer once flows may begin elsewhere: until the other agent knows,
// and again, as the first may be lost as well. Its own timer is a second (RFC 6298).
func resendAfter() []time.Duration {
	return []time.Duration{confirmSoon, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}
}

// heldBack is how long they wait for the other agent to confirm where flows are: what it does not know yet it has
// answered on the default network, and again twice a second at most (tcp_invalid_ratelimit of Linux).
const heldBack = 20 * time.Millisecond

// resendSoon has the pair's SYNs sent again that the default network has lost: those of the last second, as older ones
// have been sent again by themselves.
func (w *waker) resendSoon(p *pair, now time.Time) {
	r := &resending{pair: p, after: w.clock.kernel() - time.Second}
	for _, after := range resendAfter() {
		r.at = append(r.at, now.Add(after))
	}
	w.lost = append(w.lost, r)
	w.pacer.soon(confirmSoon / 4)
}

// resendDue sends those whose time has come, and returns when to look again.
func (w *waker) resendDue(now time.Time) time.Duration {
	next := idleTick
	w.lost = slices.DeleteFunc(w.lost, func(r *resending) bool {
		if !r.pair.opening.elsewhere() {
			return true
		}
		if due := now.Sub(r.at[0]); due >= heldBack || due >= 0 && !r.pair.unsettled {
			r.at = r.at[1:]
			w.resend(r)
		}
		if len(r.at) > 0 {
			next = min(next, max(r.at[0].Sub(now), confirmSoon/4))
		}
		return len(r.at) == 0
	})
	return next
}

func (w *waker) resend(r *resending) {
	p := r.pair
	syns, err := p.local.plane.SYNs(p.remote.UID, r.after, w.clock.kernel())
	own, ownErr := p.local.plane.Choices(p.remote.UID)
	if err != nil || ownErr != nil {
		return // the peer was just removed
	}
	home := p.routes[0]
	call := kick.Call{Netns: p.local.Netns, Local: home.Local.Addr, Remote: home.Remote.Addr}
	for _, s := range syns {
		if own[s.Bucket()].Path == 0 {
			continue // where it was lost it would take from the server the one answer that it sends in half a second
		}
		if p.answerTo(s) == dataplane.NoAnswer {
			call.SYNs = append(call.SYNs, s.Packet)
		}
	}
	w.kicks.Wake(call)
}
