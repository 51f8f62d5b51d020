package agent

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// Echoes and probes pass where one port, TCP alone or large packets do not, and so do the
// pair's other packets. What such a fault fails is known to the connection alone: its
// retransmission timer fires, again and again. So a connection is asked itself: it is moved
// to another path, with its bucket, and stays if it is acknowledged there.

// inquireAll follows inquiries up until ctx ends: apart from the loop, as the kernel is asked.
func (a *Agent) inquireAll(ctx context.Context) error {
	for ctx.Err() == nil {
		a.members.Lock()
		asked, open := a.inquiries.questions()
		a.members.Unlock()
		if !open {
			select {
			case <-a.inquiries.bell:
			case <-ctx.Done():
			}
			continue
		}
		for name, ends := range asked {
			found, err := sockdiag.Find(name, ends)
			if err != nil {
				a.cfg.Log.Debug("connections not looked up", "netns", name, "error", err)
			}
			a.answers(name, found)
		}
		a.members.Lock()
		a.inquiries.settle(a.members.knows, a.cfg.Now())
		a.members.Unlock()
		select {
		case <-time.After(inquireEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// answers takes what the kernel says of the connections of a namespace.
func (a *Agent) answers(name string, found []sockdiag.Socket) {
	by := map[[2]netip.AddrPort]sockdiag.Socket{}
	for _, s := range found {
		by[[2]netip.AddrPort{s.Local, s.Remote}] = s
	}
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	for _, q := range a.inquiries.open {
		if q.pair.local.Netns == name && a.members.knows(q.pair) {
			s, ok := by[q.ends()]
			a.answer(q, detect.Progress{Open: ok, Waiting: s.Unacked > 0, Acked: s.BytesAcked, Trip: s.SRTT, Timer: s.RTO}, now)
		}
	}
}

// answer takes what the kernel says of one connection.
func (a *Agent) answer(q *inquiry, is detect.Progress, now time.Time) {
	p := q.pair
	if !q.begun {
		q.begin(&a.pairParams, is, now)
	}
	if q.Over() {
		return
	}
	was := q.On
	if path, ok := q.path(); !ok || path != was {
		q.Abandon(now)
		return
	}
	if q.Look(is, p.otherPaths(q.From), now) {
		a.redirect(p, q, was, now)
	}
	switch q.State() {
	case detect.Nowhere:
		p.nowhere = now
	case detect.Proven:
		a.proven(p, q, now)
	}
}

// otherPaths are the paths that a connection on one of them may try, the best known first.
func (p *pair) otherPaths(from int) (out []int) {
	if at := p.on().Index; at != from && p.usable(at) {
		out = append(out, at)
	}
	for _, r := range p.routes {
		if r.Index != from && r.Index != p.on().Index && p.usable(r.Index) {
			out = append(out, r.Index)
		}
	}
	return out
}

// usable reports whether nothing bad is known of the path with that index.
func (p *pair) usable(index int) bool {
	i := p.lineOf(index)
	if i < 0 {
		return false
	}
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && !hp.Down() && hp.unfit == "" && !p.lines[i].Down()
}

// redirect has the connection's bucket be on the path that its inquiry says.
func (a *Agent) redirect(p *pair, q *inquiry, was int, now time.Time) {
	set := dataplane.Set(1) << q.bucket
	if q.side == dataplane.Theirs {
		if _, err := p.local.plane.DivertSome(p.remote.UID, set, was, q.On); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		a.mover.answersMoved(p)
		a.waker.wake(p, set, now)
		return
	}
	d := p.detours.of(q.bucket)
	d.from, d.to, d.out = q.From, q.On, q.On != q.From
	a.mover.replace(p, now)
}

// proven acts on a connection that gets through on another path at once: it stays there.
// Where it is not the only one that its path refuses, or nothing else passes there either,
// the pair leaves that path. After no path got it through for a while, it only happened to be
// elsewhere as that ended: it returns, and tells by itself if its path still fails.
func (a *Agent) proven(p *pair, q *inquiry, now time.Time) {
	i, to := p.lineOf(q.From), p.lineOf(q.On)
	if i < 0 || to < 0 || !p.usable(q.From) { // it has failed for all
		return
	}
	if now.Sub(p.nowhere) < time.Duration(a.pairParams.DetourTrust)*a.pairParams.DetourAgain {
		was := q.On
		q.On = q.From
		a.redirect(p, q, was, now)
		return
	}
	from := p.routes[i].Network
	a.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: fmt.Sprintf(
		"the connection from port %d to %d does not get through on %s, and does on %s, though probes pass on both",
		q.ports[0], q.ports[1], from, p.routes[to].Network)})
	if q.side == dataplane.Theirs {
		a.teller.tellUnpassed(p, q)
	} else {
		d := p.detours.of(q.bucket)
		d.from, d.to, d.out = q.From, q.On, true
		d.bar.Raise(&a.pairParams, now)
	}
	ln := &p.lines[i]
	refused := p.detours.refused(q.From, now)
	if refused < a.pairParams.RefusesAt && refused < p.conns && !ln.silence.Lasts(a.pairParams.Deaf, now) {
		return
	}
	if ln.bar.Left(now) == 0 {
		ln.bar.Raise(&a.pairParams, now)
		a.leavePath(p, i, now, now.Sub(q.Since()))
	}
}

// lineOf is the place among the pair's paths of the one with that index; -1 if it is gone.
func (p *pair) lineOf(index int) int {
	for i, r := range p.routes {
		if r.Index == index {
			return i
		}
	}
	return -1
}
