package agent

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// A network may pass probes, datagrams and the connections that there are, and begin none: where TCP alone is dropped,
// or one port. No timer tells in time: the first one of a connection is a second (RFC 6298). So a SYN that is not
// answered is asked about as a connection is: it is sent again on the other paths. Not where it went, to make sure: to
// a SYN that comes again Linux answers twice a second at most (tcp_invalid_ratelimit). A server that answers nothing
// answers nowhere.

// handshakes are what is known of a pair's that were not answered.
type handshakes struct {
	// doubted is until when SYNs were looked at, of CLOCK_MONOTONIC.
	doubted time.Duration
	// since is when the first SYN was sent that was answered on another path alone, and last when that was found last.
	since    time.Duration
	last     time.Time
	unserved detect.Unserved
}

// sampled are as many SYNs of a pair, the latest, as are looked at each time.
const sampled = 16

// doubtHandshakes asks about a SYN of the pair that was not answered, one at a time.
func (iq *inquirer) doubtHandshakes(p *pair, now time.Time) {
	if now.Sub(p.active) >= quiet || !p.takesOpening || !iq.members.letsBegin(p, &iq.cfg) || p.begins() {
		return
	}
	h, until := &p.handshakes, iq.clock.kernel()-iq.params.AckWithin
	syns, err := p.local.plane.SYNs(p.remote.UID, max(h.doubted, until-time.Second), until)
	if err != nil {
		return // the peer was just removed
	}
	if len(syns) > 0 { // of nearly all pairs there are none
		until += iq.params.AckWithin - iq.answersWithin(p, now)
		syns = slices.DeleteFunc(syns, func(s dataplane.SYN) bool { return s.Sent > until })
	}
	h.doubted = max(h.doubted, until)
	slices.SortFunc(syns, func(a, b dataplane.SYN) int { return cmp.Compare(b.Sent, a.Sent) })
	for _, s := range syns[:min(len(syns), sampled)] {
		q := &inquiry{pair: p, ports: ports{s.Local, s.Remote}, bucket: s.Bucket(), about: aboutHandshake, syn: &s,
			since: iq.clock.at(s.Sent)}
		to := detect.Service{Protocol: unix.IPPROTO_TCP, Port: s.Remote}
		if p.answerTo(s) == dataplane.NoAnswer && !h.unserved.Bars(iq.params, to, now) && iq.inquiries.take(q) {
			return
		}
	}
}

// answerTo is what a SYN of the pair has brought; of a peer that was just removed it is over.
func (p *pair) answerTo(s dataplane.SYN) dataplane.Answer {
	answer, err := p.local.plane.Answer(p.remote.UID, s.Local, s.Remote)
	if err != nil {
		return dataplane.Ended
	}
	return answer
}

// answersWithin is how long the answer to a SYN may take.
func (iq *inquirer) answersWithin(p *pair, now time.Time) time.Duration {
	return max(iq.params.AckWithin, time.Duration(iq.params.AckTrips)*p.expected(0, now))
}

// begins reports whether a connection of the pair is asked about that begins.
func (p *pair) begins() bool {
	for _, q := range p.inquiries {
		if q.about == aboutHandshake && q.pending() {
			return true
		}
	}
	return false
}

// followHandshakes takes what has become of SYNs that are asked about.
func (iq *inquirer) followHandshakes() {
	now := iq.cfg.Now()
	for _, q := range iq.inquiries.open {
		if q.about != aboutHandshake || !q.pending() || !iq.members.knows(q.pair) {
			continue
		}
		p := q.pair
		answer, err := p.local.plane.Answer(p.remote.UID, q.ports[0], q.ports[1])
		iq.fault(p.name, err)
		trip := p.expected(0, now)
		is := detect.Progress{Open: answer != dataplane.Ended, Waiting: answer == dataplane.NoAnswer, Trip: trip,
			Timer: time.Duration(iq.params.AckTrips) * trip}
		if answer == dataplane.AnsweredElsewhere || answer == dataplane.AnsweredAtHome && q.From != 0 {
			is.Acked = 1
		}
		iq.answer(q, is, now)
	}
}

// rebegin has the pair's flows begin where its buckets are by now: the other end is told at once, and SYNs that wait
// are sent again as soon as it knows.
func (iq *inquirer) rebegin(p *pair, now time.Time) {
	if p.opening.elsewhere() {
		iq.mover.waker.resendSoon(p, now)
	}
	iq.escape.opener.judge(p, now)
	iq.teller.wires.tell(p.host, iq.mover.opens(p), "")
}

// beginsAtHome reports whether a connection to the same port has begun on the default network, where an inquiry's was
// not answered, though its SYN went later: a server that is full drops some (tcp_conn_request in
// net/ipv4/tcp_input.c), and takes them when they come again, wherever that is.
func (iq *inquirer) beginsAtHome(p *pair, q *inquiry) bool {
	if q.about != aboutHandshake || q.From != 0 {
		return false
	}
	syns, err := p.local.plane.SYNs(p.remote.UID, q.syn.Sent, iq.clock.kernel())
	return err == nil && slices.ContainsFunc(syns, func(s dataplane.SYN) bool {
		return s.Remote == q.syn.Remote && p.answerTo(s) == dataplane.AnsweredAtHome
	})
}

// handshakeProven has the pair leave path i, where the SYN of an inquiry was answered on another one alone, if others
// were not answered there either, and none was since the first of them: one that is lost by chance is not the only one.
func (iq *inquirer) handshakeProven(p *pair, q *inquiry, i int, now time.Time) {
	h := &p.handshakes
	if now.Sub(h.last) > iq.params.BarFirst {
		h.since = q.syn.Sent
	}
	h.last = now
	syns, err := p.local.plane.SYNs(p.remote.UID, h.since-1, iq.clock.kernel()-iq.answersWithin(p, now))
	if err != nil {
		return // the peer was just removed
	}
	refused := p.detours.refused(q.From, now)
	for _, s := range syns {
		switch answer := p.answerTo(s); {
		case answer == dataplane.NoAnswer:
			refused++
		case answer == dataplane.AnsweredAtHome && q.From == 0:
			return
		}
	}
	if refused >= min(iq.params.RefusesAt, max(p.conns, 2)) {
		iq.escape.bar(p, i, iq.params, now.Sub(q.Since()), now)
	}
	iq.doubtAgain(p, now)
}

// agenda is when to ask whether pairs' connections begin.
type agenda struct {
	pacer *pacer
	due   []appointment
}

// appointment is when to ask about a pair.
type appointment struct {
	pair *pair
	at   time.Time
}

// asOne is within how long of each other a pair is asked once.
const asOne = 2 * time.Millisecond

// add has the pair be asked at a time.
func (d *agenda) add(p *pair, at, now time.Time) {
	if gap := at.Sub(p.doubted); gap >= 0 && gap < asOne {
		return
	}
	p.doubted = at
	d.due = append(d.due, appointment{p, at})
	d.pacer.soon(at.Sub(now))
}

// take are the pairs whose time has come, and next is when it has for another.
func (d *agenda) take(now time.Time) (pairs []*pair, next time.Duration) {
	next = idleTick
	d.due = slices.DeleteFunc(d.due, func(x appointment) bool {
		if now.Before(x.at) {
			next = min(next, x.at.Sub(now))
			return false
		}
		pairs = append(pairs, x.pair)
		return true
	})
	return pairs, next
}

// doubtDue asks about connections that begin, of pairs whose time has come. It returns when to look again.
func (iq *inquirer) doubtDue(now time.Time) time.Duration {
	pairs, next := iq.agenda.take(now)
	for _, p := range pairs {
		if iq.members.knows(p) {
			iq.doubtHandshakes(p, now)
			iq.doubtAgain(p, now)
		}
	}
	return next
}

// refusesSome reports whether a connection was found lately not to begin on the default network, where others begin.
func (p *pair) refusesSome(params *detect.Params, now time.Time) bool {
	return now.Sub(p.handshakes.last) < params.BarFirst && p.lines[0].bar.Left(now) == 0
}

// doubtAgain has SYNs of such a pair be looked at again as soon as they may be late: the path's silence has told of the
// first alone.
func (iq *inquirer) doubtAgain(p *pair, now time.Time) {
	// What is in the agenda already has another one follow.
	if p.refusesSome(iq.params, now) && !p.doubted.After(now) {
		iq.agenda.add(p, now.Add(iq.params.AckWithin/2), now)
	}
}
