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

// inquirer asks connections that may not get through on their path, and moves those that do on
// another.
type inquirer struct {
	*journal
	members   *members
	mover     *mover
	escape    *escape
	teller    *teller
	params    *detect.Params
	inquiries inquiries
}

// inquireAll follows inquiries up until ctx ends: apart from the loop, as the kernel is asked.
func (iq *inquirer) inquireAll(ctx context.Context) error {
	for ctx.Err() == nil {
		iq.members.Lock()
		asked, open := iq.inquiries.questions()
		iq.members.Unlock()
		if !open {
			select {
			case <-iq.inquiries.bell:
			case <-ctx.Done():
			}
			continue
		}
		for name, ends := range asked {
			found, err := sockdiag.Find(name, ends)
			if err != nil {
				iq.cfg.Log.Debug("connections not looked up", "netns", name, "error", err)
			}
			iq.answers(name, found)
		}
		iq.members.Lock()
		iq.inquiries.settle(iq.members.knows, iq.cfg.Now())
		iq.members.Unlock()
		select {
		case <-time.After(inquireEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// answers takes what the kernel says of the connections of a namespace.
func (iq *inquirer) answers(name string, found []sockdiag.Socket) {
	by := map[[2]netip.AddrPort]sockdiag.Socket{}
	for _, s := range found {
		by[[2]netip.AddrPort{s.Local, s.Remote}] = s
	}
	iq.members.Lock()
	defer iq.members.Unlock()
	now := iq.cfg.Now()
	for _, q := range iq.inquiries.open {
		if q.pair.local.Netns == name && iq.members.knows(q.pair) {
			s, ok := by[q.ends()]
			iq.answer(q, detect.Progress{Open: ok, Waiting: s.Unacked > 0, Acked: s.BytesAcked, Trip: s.SRTT, Timer: s.RTO}, now)
		}
	}
}

// answer takes what the kernel says of one connection.
func (iq *inquirer) answer(q *inquiry, is detect.Progress, now time.Time) {
	p := q.pair
	if !q.begun {
		q.begin(iq.params, is, now)
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
		iq.redirect(p, q, was, now)
	}
	switch q.State() {
	case detect.Nowhere:
		p.nowhere = now
	case detect.Proven:
		iq.proven(p, q, now)
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
func (iq *inquirer) redirect(p *pair, q *inquiry, was int, now time.Time) {
	set := dataplane.Set(1) << q.bucket
	if q.side == dataplane.Theirs {
		iq.mover.divert(p, set, was, q.On, now)
		return
	}
	d := p.detours.of(q.bucket)
	d.from, d.to, d.out = q.From, q.On, q.On != q.From
	iq.mover.replace(p, now)
}

// proven acts on a connection that gets through on another path at once: it stays there.
// Where it is not the only one that its path refuses, or nothing else passes there either,
// the pair leaves that path. After no path got it through for a while, it only happened to be
// elsewhere as that ended: it returns, and tells by itself if its path still fails.
func (iq *inquirer) proven(p *pair, q *inquiry, now time.Time) {
	i, to := p.lineOf(q.From), p.lineOf(q.On)
	if i < 0 || to < 0 || !p.usable(q.From) { // it has failed for all
		return
	}
	if now.Sub(p.nowhere) < time.Duration(iq.params.DetourTrust)*iq.params.DetourAgain {
		was := q.On
		q.On = q.From
		iq.redirect(p, q, was, now)
		return
	}
	from := p.routes[i].Network
	iq.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: fmt.Sprintf(
		"the connection from port %d to %d does not get through on %s, and does on %s, though probes pass on both",
		q.ports[0], q.ports[1], from, p.routes[to].Network)})
	if q.side == dataplane.Theirs {
		iq.teller.tellUnpassed(p, q)
	} else {
		d := p.detours.of(q.bucket)
		d.from, d.to, d.out = q.From, q.On, true
		d.bar.Raise(iq.params, now)
	}
	ln := &p.lines[i]
	refused := p.detours.refused(q.From, now)
	if refused < iq.params.RefusesAt && refused < p.conns && !ln.silence.Lasts(iq.params.Deaf, now) {
		return
	}
	if ln.bar.Left(now) == 0 {
		ln.bar.Raise(iq.params, now)
		iq.escape.leavePath(p, i, now, now.Sub(q.Since()))
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
