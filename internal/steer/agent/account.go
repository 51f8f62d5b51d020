package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// account folds the bytes since it last did: over the time that has passed, since
// an agent that has to wait for a CPU comes late, and a rate by the nominal epoch
// would be too high then and too low the next time. It reports whether the pod's stack is to be
// fit for other flows than before.
func (p *pair) account(params *detect.Params, now time.Time) (refit bool) {
	span := epoch
	if !p.accounted.IsZero() {
		span = min(max(now.Sub(p.accounted), epoch/2), 10*epoch)
	}
	p.accounted = now
	sent := uint64(0)
	for i := range p.lines {
		sent += p.lines[i].sent.Packets
	}
	p.bytes[p.nBytes%ringLength] = decide.Interval{For: span, Bytes: p.accountLines(params, span, now)}
	p.nBytes++
	if own, err := p.local.plane.Opened(p.remote.UID); err == nil && own != p.ownBefore {
		p.ownBefore, p.own, p.host.owned = own, now, now
	}
	if others := sent - min(p.ownBefore, sent); others != p.answeredBefore {
		p.answeredBefore, p.answered = others, now
	}
	refit = p.answers(now) != p.fitted
	p.fitted = p.answers(now)
	return refit
}

// accountLines folds the bytes of that time on each path, and returns how many arrived.
func (p *pair) accountLines(params *detect.Params, span time.Duration, now time.Time) (bytes float64) {
	size, worst, refills := p.size(), time.Duration(0), false
	for i := range p.lines {
		ln := &p.lines[i]
		arrived, trip := ln.account(span), ln.trip(now)
		bytes += arrived
		worst, refills = max(worst, trip), refills || arrived > 0 && ln.Refills(now)
		if !ln.Fresh(now) {
			ln.gaps.account(params, arrived, size, params.GapLimit(trip, ln.Refills(now)), span, now)
		}
	}
	if bytes >= bulk {
		p.full = detect.Full(size)
	}
	p.gaps.account(params, bytes, size, params.GapLimit(worst, refills), span, now)
	return bytes
}

// bulk is how many bytes of an interval are: fewer fill no queue.
const bulk = 64 << 10

// gap is for how long nothing may come of bulk over a path that passes, as found at that time.
type gap struct {
	most time.Duration
	at   time.Time
}

// gaps are that where hosts are in the same queue, and where it may be the pair's own.
type gaps struct{ shared, own gap }

// account takes what arrived in an interval, in packets of that size: not what was sent, most of which a full device
// may drop at once. Limit is how long it may have to wait in a queue of its own. The longest of a moment counts, as
// bulk comes in bursts, and begins slowly.
func (g *gaps) account(params *detect.Params, arrived, size float64, limit, span time.Duration, now time.Time) {
	rate := arrived / span.Seconds()
	shared := time.Duration(0)
	if arrived >= bulk {
		shared = params.GapOf(size, rate)
	}
	g.shared.take(shared, now)
	g.own.take(max(shared, params.GapQueued(size, rate, limit)), now)
}

// take takes what was found of an interval.
func (g *gap) take(most time.Duration, now time.Time) {
	if most >= g.most || now.Sub(g.at) >= quiet {
		*g = gap{most, now}
	}
}

// gapOn is for how long nothing may come of the pair's traffic over path i, if it passes. The path may be slower than
// what the pair had before, and bulk that has just come to it has not shown yet by how much. Its queue may be the
// pair's own.
func (p *pair) gapOn(i int, own bool, now time.Time) time.Duration {
	ln := &p.lines[i]
	known := max(p.gaps.shared.most, ln.gaps.shared.most)
	if own {
		known = max(p.gaps.own.most, ln.gaps.own.most)
	}
	if known > 0 || ln.uncounted() >= bulk {
		return ln.Gap(known, own && (p.full || detect.Full(p.size())), now)
	}
	return 0
}

// uncounted are the bytes that went and came over the path since the last evidence.
func (ln *line) uncounted() uint64 {
	return ln.sent.Bytes - ln.counted.sent.Bytes + ln.received.Bytes - ln.counted.received.Bytes
}

// size is the mean size in bytes of the pair's packets since the last evidence, of the direction where they are larger.
func (p *pair) size() float64 {
	var bytes, packets [2]float64
	for i := range p.lines {
		ln := &p.lines[i]
		for d, t := range [...][2]dataplane.Tally{{ln.sent, ln.counted.sent}, {ln.received, ln.counted.received}} {
			bytes[d] += float64(t[0].Bytes - t[1].Bytes)
			packets[d] += float64(t[0].Packets - t[1].Packets)
		}
	}
	return max(bytes[0]/max(packets[0], 1), bytes[1]/max(packets[1], 1))
}

// answers reports whether the pod sends packets of flows that the peer has opened.
func (p *pair) answers(now time.Time) bool { return now.Sub(p.answered) < quiet }

// account folds the bytes on the path and returns how many arrived, both ways. What
// leaves the pod says little of that where a device drops before TCP's eyes: it tries
// again at once, so that gigabits a second leave for a path that carries a tenth of
// one (seen on macvlan, Linux 6.18). What TCP sent and had no acknowledgment of is therefore
// taken away.
func (ln *line) account(span time.Duration) float64 {
	tx, rx := float64(ln.sent.Bytes-ln.counted.sent.Bytes), float64(ln.received.Bytes-ln.counted.received.Bytes)
	ln.counted = counted{ln.sent, ln.received}
	ln.tx, ln.rx = tx/span.Seconds(), rx/span.Seconds()
	arrived := max(tx-float64(ln.unacked), 0) + rx
	ln.goodput = arrived / span.Seconds()
	return arrived
}

// reportHolds is how long what telemetry told of connections holds: not every period brings news of each.
const reportHolds = time.Second

// reported reports whether telemetry has told of the path's connections lately.
func (ln *line) reported(now time.Time) bool { return now.Sub(ln.reportedAt) < reportHolds }

// trip is what the path's connections take for a round trip, as telemetry told last; 0 where it has not told lately.
func (ln *line) trip(now time.Time) time.Duration {
	if !ln.reported(now) {
		return 0
	}
	return ln.figures.SRTT
}

// carries reports whether anything went over the path in the last epoch.
func (ln *line) carries() bool { return ln.tx+ln.rx > 0 }
