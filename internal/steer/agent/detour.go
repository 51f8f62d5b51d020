package agent

import (
	"context"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// Echoes and probes pass where one port, TCP alone or large packets do not, and so do the
// pair's other packets. What such a fault fails is known to the connection alone: its
// retransmission timer fires, again and again. So a connection is asked itself: it is moved
// to another path, with its bucket, and stays if it is acknowledged there.

// inquirer finds a path for connections that do not get through on theirs.
type inquirer struct {
	*journal
	members   *members
	pairs     *pairWatcher
	mover     *mover
	escape    *escape
	teller    *teller
	params    *detect.Params
	clock     clock
	inquiries inquiries
	agenda    *agenda
}

// inquireAll follows inquiries up until ctx ends: apart from the loop, as the kernel is asked.
func (iq *inquirer) inquireAll(ctx context.Context) error {
	for ctx.Err() == nil {
		iq.members.Lock()
		questions, open := iq.inquiries.questions()
		iq.members.Unlock()
		if !open {
			select {
			case <-iq.inquiries.bell:
			case <-ctx.Done():
			}
			continue
		}
		for name, ends := range questions {
			found, err := sockdiag.Find(name, ends)
			if err != nil {
				iq.cfg.Log.Debug("connections not looked up", "netns", name, "error", err)
			}
			iq.answers(name, found)
		}
		iq.members.Lock()
		iq.countReplies()
		iq.followHandshakes()
		iq.inquiries.settle(iq.members.knows, iq.cfg.Now())
		every := iq.inquiries.every()
		iq.members.Unlock()
		select {
		case <-time.After(every):
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
	iq.readEchoes(name)
	now := iq.cfg.Now()
	for _, q := range iq.inquiries.open {
		if q.about == aboutConnection && q.pair.local.Netns == name && iq.members.knows(q.pair) {
			s, ok := by[q.ends()]
			iq.answer(q, detect.Progress{Open: ok, Waiting: s.Unacked > 0, Acked: s.BytesAcked, Sent: int(s.DataOut),
				Busy: s.Busy, Trip: s.SRTT, Timer: s.RTO, Tries: int(s.Backoff)}, now)
		}
	}
}

// readEchoes takes the answers to the echoes of a namespace that is asked about: else they are read some times a
// second only, while no path is suspected.
func (iq *inquirer) readEchoes(name string) {
	for _, q := range iq.inquiries.open {
		if q.pair.local.Netns == name && iq.members.knows(q.pair) {
			iq.pairs.handleEchoes(q.pair.local)
			return
		}
	}
}

// answer takes what the kernel says of one connection.
func (iq *inquirer) answer(q *inquiry, is detect.Progress, now time.Time) {
	p, waited := q.pair, q.begun
	if !q.begun {
		q.identify(now)
		if q.waitsThere(iq.params, is, now) {
			return
		}
		if q.side == dataplane.Ours && p.reclaim(q.bucket, now) {
			iq.mover.replace(p, now)
		}
		q.begin(iq.params, is, now)
	}
	is, all := q.known(is)
	if q.Over() || !all {
		return
	}
	was := q.On
	if path, ok := q.path(); !ok || path != was || q.peerLeft() {
		q.Abandon(now)
		return
	}
	i := p.routes.at(q.From)
	if i < 0 { // it is gone
		q.Abandon(now)
		return
	}
	tries := 1
	if q.about == aboutConnection {
		is.Trip = max(is.Trip, iq.holds(q, i, now))
		tries = p.lines[i].accidents.TriesOf(iq.params, is, iq.around(q, is, now), now)
	}
	if q.Look(is, tries, p.otherPaths(q.From), now) {
		iq.redirect(p, q, was, now)
	}
	// What was acknowledged before it was first asked about may have been sent elsewhere.
	if q.about == aboutConnection && q.Accident(is) && (waited || q.repeat != nil && q.repeat.line == i) {
		p.lines[i].accidents.Add(iq.params, now)
	}
	switch q.State() {
	case detect.Nowhere:
		q.nowhere(iq.params, now)
	case detect.Proven:
		iq.proven(p, q, is, now)
	}
}

// holds is for how long the connection's path i holds up echoes since it waits, as a queue does that has just filled,
// which the connection's own round trips do not tell yet. As long as none was answered, more are sent.
func (iq *inquirer) holds(q *inquiry, i int, now time.Time) time.Duration {
	p, again := q.pair, iq.params.Again
	ln, since := &p.lines[i], q.since.Add(-again)
	if !ln.MayTell(now) {
		return 0
	}
	if q.State() == detect.Doubted && !ln.Passed(since) && now.Sub(ln.echoedAt) >= again {
		p.echo(i)
	}
	return ln.Holds(since, now)
}

// around is what is known of the path that the connection is asked about.
func (iq *inquirer) around(q *inquiry, is detect.Progress, now time.Time) (a detect.Around) {
	p := q.pair
	i, deaf := p.routes.at(q.From), iq.params.Deaf
	ln, hp := &p.lines[i], p.host.paths[p.routes[i].Network]
	if ln.MayTell(now) { // else it is not waited for an acknowledgment
		deaf = is.Deaf(iq.params)
	}
	// Else others may fill a queue in which it waits, or nothing comes as all have left.
	a.Silent = ln.silence.Lasts(deaf, now) && (hp == nil || !iq.members.passes(hp, p, deaf, now)) &&
		!p.hasLeft(i, iq.params.Silence)
	ahead := 0
	for _, other := range p.inquiries {
		if other != q && other.begun && other.From == q.From && other.State() == detect.Trying &&
			now.Sub(other.Since()) < iq.params.AckWithin {
			ahead++
		}
	}
	a.Ahead = ahead > p.detours.refused(q.From, now)
	a.Answers = q.repeat != nil && q.repeat.line == i && p.echoesAlone(q.repeat, q.since)
	return a
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
	if p.failed(index) {
		return false
	}
	hp := p.host.paths[p.routes[p.routes.at(index)].Network]
	return hp != nil && hp.unfit == ""
}

// redirect has the connection's bucket be on the path that its inquiry says. Of a flow that the peer has opened that is
// one direction: which of the two is lost is not known, and the peer's agent moves the other.
func (iq *inquirer) redirect(p *pair, q *inquiry, was int, now time.Time) {
	set := dataplane.Set(1) << q.bucket
	if q.side == dataplane.Theirs {
		// Where its agent has said since where the flow is, it says so again as it takes this back.
		if q.On != q.From || q.diverted() {
			iq.mover.divert(p, set, was, q.On, now)
		}
		iq.teller.tellDetour(p, q, noticeTried)
		return
	}
	d := p.detoured(q)
	d.opens = d.out && (d.opens || q.about == aboutHandshake)
	iq.mover.replace(p, now)
	if q.about == aboutHandshake {
		iq.rebegin(p, now)
	}
}

// detoured has the detour of an inquiry's bucket lead to where the inquiry has come. It leaves the path where the
// bucket is assigned, also where it was on a detour as it was asked about; a connection begins on the default
// network, wherever its bucket is.
func (p *pair) detoured(q *inquiry) *detour {
	d, from := p.detours.of(q.bucket), q.From
	if planned := p.planned(p.assignments())[q.bucket]; q.about != aboutHandshake && q.On != planned {
		from = planned
	}
	d.lead(from, q.On)
	return d
}

// proven acts on a connection that gets through on another path at once: it stays there.
// Where its path refuses most of the pair's connections, or nothing else passes there either, the
// pair leaves that path. After no path got it through for a while, it only happened to be
// elsewhere as that ended: it returns, and tells by itself if its path still fails: then it stays.
func (iq *inquirer) proven(p *pair, q *inquiry, is detect.Progress, now time.Time) {
	i, to := p.routes.at(q.From), p.routes.at(q.On)
	if i < 0 || to < 0 || !p.usable(q.From) { // it has failed for all
		return
	}
	if p.excuses(q.ports, time.Duration(iq.params.DetourTrust)*iq.params.DetourAgain, now) || iq.beginsAtHome(p, q) {
		was := q.On
		q.On = q.From
		iq.redirect(p, q, was, now)
		return
	}
	from := p.routes[i].Network
	iq.note(Event{Kind: EventSuspect, Pair: p.name, To: from, Reason: q.saidOf(from, p.routes[to].Network)})
	if q.side == dataplane.Theirs {
		iq.teller.tellDetour(p, q, noticeUnpassed)
	} else {
		p.detoured(q).bar.Raise(iq.params, now)
	}
	switch q.about {
	case aboutDatagrams: // a program that had paused answers wherever they are
		return
	case aboutHandshake:
		iq.handshakeProven(p, q, i, now)
		return
	}
	ln := &p.lines[i]
	refused, lasts := ln.refusals.Add(iq.params, q.bucket%flow.Width, q.side == dataplane.Theirs,
		p.detours.refused(q.From, now), now)
	if ln.accidents.Refuses(iq.params, refused, p.conns, lasts, is, iq.around(q, is, now), now) &&
		iq.escape.bar(p, i, iq.params, now.Sub(q.Since()), now) &&
		q.side == dataplane.Theirs { // whose agent has seen none of it
		iq.teller.tellAllOff(p, i, to)
	}
}
