package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// A connection sends its last segment a second time after two round trips and the least timeout (tail loss probe, RFC
// 8985 section 7), and a third time when its timer fires, about as long after that one. The second tells of the path as
// the third does, and earlier.

// repeat is a segment that a connection has sent again, on the path with that line, where so many packets had come by
// then.
type repeat struct {
	telemetry.Event
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

// waits reports whether a tail loss probe is not acknowledged, of a connection that waits from there on. The probe was
// the last segment; a smaller one before it may have got through, but not much else.
func (p *pair) waits(r *repeat, unacked uint32) bool {
	return r.Unacked == unacked || r.within(unacked) && p.packetsFrom(r.line)-r.came <= cameMost
}

// within reports whether the sequence number is of what the connection had on its way.
func (r *repeat) within(seq uint32) bool {
	return int32(seq-r.Unacked) >= 0 && int32(seq-r.Next) < 0 // RFC 9293, section 3.4
}

// repeatOf is the segment that a connection has sent again. The path is asked whether it passes anything: this end may
// not wait for an answer, so that nothing else asks.
func (ls *listener) repeatOf(p *pair, e telemetry.Event, now time.Time) (r repeat, ok bool) {
	q := &inquiry{pair: p, ports: ports{e.LocalPort, e.RemotePort}, bucket: e.Bucket}
	q.identify(now)
	path, ok := q.path()
	i := p.routes.at(path)
	if !ok || i < 0 {
		return r, false
	}
	if ln := &p.lines[i]; ln.Telling(now) && now.Sub(ln.echoedAt) >= ls.inquirer.params.Again {
		p.echo(i)
	}
	return repeat{e, i, p.packetsFrom(i)}, true
}

// probed takes up a tail loss probe.
func (ls *listener) probed(p *pair, e telemetry.Event, now time.Time) {
	if r, ok := ls.repeatOf(p, e, now); ok {
		p.repeats.add(r)
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
	if before, ok := p.repeats[conn]; ok && p.waits(&before, e.Unacked) && ls.clock.at(before.At).After(p.left) {
		r, since = &before, ls.clock.at(before.At)
	} else if again, ok := ls.repeatOf(p, e, now); ok {
		r = &again
	}
	ls.inquirer.inquiries.ask(p, e, since, r)
}
