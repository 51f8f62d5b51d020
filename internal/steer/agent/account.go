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
	bytes, sent, size := 0.0, uint64(0), p.size()
	for i := range p.lines {
		sent += p.lines[i].sent.Packets
		bytes += p.lines[i].account(span)
	}
	p.accountGap(params, bytes, size, span, now)
	p.bytes[p.nBytes%ringLength] = decide.Interval{For: span, Bytes: bytes}
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

// accountGap says for how long nothing may come of the pair's traffic, by what arrived of it in this interval, in
// packets of that size: not what was sent, most of which a full device may drop at once. The longest of a moment
// counts, as bulk comes in bursts, and begins slowly.
func (p *pair) accountGap(params *detect.Params, arrived, size float64, span time.Duration, now time.Time) {
	const bulk = 64 << 10 // bytes of an interval: less fills no queue
	gap := time.Duration(0)
	if arrived >= bulk {
		gap = params.GapOf(size, arrived/span.Seconds())
	}
	if gap >= p.gap || now.Sub(p.gapAt) >= quiet {
		p.gap, p.gapAt = gap, now
	}
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

// carries reports whether anything went over the path in the last epoch.
func (ln *line) carries() bool { return ln.tx+ln.rx > 0 }
