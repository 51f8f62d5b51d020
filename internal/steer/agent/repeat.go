package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// A connection sends its last segment a second time after two round trips, and the time by which an acknowledgment may
// be delayed (tail loss probe, RFC 8985 section 7), and a third time when its timer fires. That one it is to send on a
// path that gets through: after it, nobody can have the connection send again before its timer fires once more.

// repeat is a segment that a connection has sent again, on the path with that line, where so many packets had come by
// then.
type repeat struct {
	telemetry.Event
	side dataplane.Side
	line int
	came uint64
}

const (
	// repeatsMost bounds how many are kept of a pair's tail loss probes: more connections tell the same.
	repeatsMost = 64
	// cameMost is how many packets may come over a path on which nothing passes but probes, meanwhile: those of
	// either end.
	cameMost = 8
	// repeatsAtOnce bounds how many tail loss probes of a pair are looked at of one batch of events: some tell enough.
	repeatsAtOnce = 8
)

// repeats are the tail loss probes of a pair's connections, by their ports: the latest of each.
type repeats map[ports]repeat

// add remembers one.
func (rs *repeats) add(r repeat) {
	conn := ports{r.LocalPort, r.RemotePort}
	if _, known := (*rs)[conn]; *rs == nil || !known && len(*rs) >= repeatsMost {
		*rs = repeats{}
	}
	(*rs)[conn] = r
}

// packetsFrom is how many packets have come over path i.
func (p *pair) packetsFrom(i int) uint64 {
	_, received, err := p.local.plane.Tallies(p.remote.UID, p.routes[i].Index)
	if err != nil {
		return 0 // the peer was just removed
	}
	return received.Packets
}

// echoesAlone reports whether nothing has come over the path since the segment was sent again but answers to echoes,
// which did.
func (p *pair) echoesAlone(r *repeat, since time.Time) bool {
	return p.lines[r.line].Passed(since) && p.packetsFrom(r.line)-r.came <= cameMost
}

// repairs notes that the path got through what a connection had sent again, as its timer fired or before.
func (ln *line) repairs(params *detect.Params, fired bool, now time.Time) {
	if fired {
		ln.accidents.Add(params, now)
		return
	}
	ln.repaired = now
}

// loses reports whether the path is known to lose packets: a tail loss probe has got through there of late. Where the
// first copy of a segment is lost, the acknowledgment of the second may be delayed by 40 ms, as that of any first one.
func (ln *line) loses(params *detect.Params, now time.Time) bool {
	return now.Sub(ln.repaired) < params.LosesFor
}

// repeatOf is the segment that a connection has sent again. The path is asked whether it passes anything: this end may
// not wait for an answer, so that nothing else asks.
func (ls *listener) repeatOf(p *pair, e telemetry.Event, now time.Time) (r repeat, ok bool) {
	q := &inquiry{pair: p, ports: ports{e.LocalPort, e.RemotePort}, bucket: e.Bucket}
	q.identify()
	path, ok := q.path()
	i := p.routes.at(path)
	if !ok || i < 0 {
		return r, false
	}
	if ln := &p.lines[i]; ln.Telling(now) && now.Sub(ln.echoedAt) >= ls.inquirer.params.Again {
		p.echo(i)
	}
	return repeat{e, q.side, i, p.packetsFrom(i)}, true
}

// probed takes up a tail loss probe.
func (ls *listener) probed(p *pair, e telemetry.Event, now time.Time) {
	if r, ok := ls.repeatOf(p, e, now); ok {
		p.repeats.add(r)
		ls.inquirer.agenda.add(p, ls.clock.at(e.At).Add(ls.inquirer.params.Deaf), now)
	}
}

// timedOut takes up that a connection's timer has fired. The segment may have been sent again before, with a tail loss
// probe, on the path where it is.
func (ls *listener) timedOut(p *pair, e telemetry.Event, now time.Time) {
	conn := ports{e.LocalPort, e.RemotePort}
	if !ls.inquirer.inquiries.room(p, conn) {
		return
	}
	r, since := (*repeat)(nil), now
	if before, ok := p.repeats[conn]; ok && before.Unacked == e.Unacked && ls.clock.at(before.At).After(p.left) {
		r, since = &before, ls.clock.at(before.At)
	} else if again, ok := ls.repeatOf(p, e, now); ok {
		r = &again
	}
	ls.inquirer.inquiries.ask(p, e, since, r)
}

// agenda is when to ask whether what pairs have sent gets through.
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

// doubtDue asks about connections that begin, and those that the pod has opened whose tail loss probe was not
// acknowledged though echoes pass, of pairs whose time has come. It returns when to look again.
//
// What such a connection sends is answered, as a rule. Of what is itself an answer an acknowledgment may be delayed by
// 40 ms, where the tail loss probe was the first copy to arrive: of that the timer tells, as the third copy is
// acknowledged at once (RFC 9293, section 3.10.7.4).
func (iq *inquirer) doubtDue(now time.Time) time.Duration {
	pairs, next := iq.agenda.take(now)
	for _, p := range pairs {
		if !iq.members.knows(p) {
			continue
		}
		iq.doubtHandshakes(p, now)
		for conn, r := range p.repeats {
			if iq.doubtRepeat(p, r, now) {
				delete(p.repeats, conn)
			}
		}
	}
	return next
}

// doubtRepeat asks about a connection if its tail loss probe is late, and reports whether that one tells nothing more.
func (iq *inquirer) doubtRepeat(p *pair, r repeat, now time.Time) (over bool) {
	at := iq.clock.at(r.At)
	age := now.Sub(at)
	if age < iq.params.Deaf-asOne || age > time.Second {
		return age > time.Second
	}
	if late := iq.agenda.pacer.late(at, now); age < iq.params.Deaf-asOne+late {
		iq.agenda.add(p, at.Add(iq.params.Deaf+late), now)
		return false
	}
	if !at.After(p.left) || r.side != dataplane.Ours || !p.echoesAlone(&r, at) {
		return false
	}
	iq.inquiries.ask(p, r.Event, at, &r)
	return true
}
