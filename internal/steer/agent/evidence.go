package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// stranded reports whether the path that the pair is on has failed. That of a pair
// that has opened no flow must be left too, if not at once, for want of one that was
// known to be well, then later: its pod is made fit for where the peer's flows are.
func (p *pair) stranded() bool {
	i := p.line(p.on().Network)
	hp := p.host.paths[p.on().Network]
	return hp != nil && hp.Down() || i >= 0 && p.lines[i].Down()
}

// atOnce is how many pairs are decided about in every epoch.
const atOnce = 8

// account folds the bytes since it last did: over the time that has passed, since
// an agent that has to wait for a CPU comes late, and a rate by the nominal epoch
// would be too high then and too low the next time. It reports whether the pod's stack is to be
// fit for others flows than before.
func (p *pair) account(now time.Time) (refit bool) {
	span := epoch
	if !p.accounted.IsZero() {
		span = min(max(now.Sub(p.accounted), epoch/2), 10*epoch)
	}
	p.accounted = now
	bytes, sent := 0.0, uint64(0)
	for i := range p.lines {
		sent += p.lines[i].sent.Packets
		bytes += p.lines[i].account(span)
	}
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

// answers reports whether the pod sends packets of flows that the peer has opened.
func (p *pair) answers(now time.Time) bool { return now.Sub(p.answered) < quiet }

// account folds the bytes on the path and returns how many arrived, both ways. What
// leaves the pod says little of that where a device drops before TCP's eyes: it tries
// again at once, so that gigabits a second leave for a path that carries a tenth of
// one (seen on macvlan, Linux 6.18). What TCP sent and heard nothing of is therefore
// taken away.
func (ln *line) account(span time.Duration) float64 {
	tx, rx := float64(ln.sent.Bytes-ln.epochTx), float64(ln.received.Bytes-ln.epochRx)
	ln.epochTx, ln.epochRx = ln.sent.Bytes, ln.received.Bytes
	ln.tx, ln.rx = tx/span.Seconds(), rx/span.Seconds()
	arrived := max(tx-float64(ln.unacked), 0) + rx
	ln.goodput = arrived / span.Seconds()
	return arrived
}

// usesTCP reports whether the kernel told of a connection of the pair lately.
func (p *pair) usesTCP(now time.Time) bool {
	for i := range p.lines {
		if now.Sub(p.lines[i].heard) < quiet {
			return true
		}
	}
	return false
}
