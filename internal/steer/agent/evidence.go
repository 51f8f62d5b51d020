package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// weigh gathers evidence about every pair with traffic and asks the policy.
func (a *Agent) weigh(now time.Time) {
	a.handleConnections(now)
	a.summarise(now)
	a.leisure.asked, a.turns = 0, turns{}
	busy := 0
	for _, l := range a.members.pods {
		a.handleEchoes(l)
		for _, p := range l.pairs {
			a.probePair(p, now)
			a.look(p, now)
			a.account(p, now)
			if now.Sub(p.active) >= quiet {
				a.mover.rest(p, now)
				continue
			}
			busy++
			a.open(p, now)
			// With many busy pairs each has its turn, so that the work stays bounded.
			if !p.withdrawn && (now.Sub(p.own) < quiet || p.stranded()) &&
				now.Sub(p.weighed) >= time.Duration(a.busy/atOnce)*epoch {
				p.weighed = now
				if d := a.judge.decide(p, now); p.assigned.Apply(d) != p.assigned {
					a.mover.carryOut(p, d, "policy", 0)
				}
			}
			if p.detours.end(&a.pairParams, p.inquired, now) {
				a.mover.replace(p, now)
			}
			a.teller.settle(p, now)
			a.mover.doubt(p, now)
			a.stacks.routeDirectly(p, now)
			a.mover.judgeOutcome(p)
		}
	}
	a.busy = busy
	a.rewatch(now)
}

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

// summarise folds what probes told, where they told something. A summary sorts a
// few hundred figures: once a second is often enough, as failures are not found by it.
func (a *Agent) summarise(now time.Time) {
	for _, h := range a.members.remote {
		for _, hp := range h.paths {
			if hp.told && (now.Sub(hp.summed) >= time.Second || hp.summary.Answered == 0) {
				hp.summary, hp.summed, hp.told = hp.track.Summary(), now, false
			}
		}
	}
}

// handleConnections takes what was read of what the kernel counted about TCP connections.
func (a *Agent) handleConnections(now time.Time) {
	for p := range a.members.pairs() {
		for i := range p.lines {
			p.lines[i].retrans, p.lines[i].rtos, p.lines[i].unacked = 0, 0, 0
		}
	}
	r, ok := a.survey.reading(now)
	if !ok {
		return
	}
	by := map[telemetry.Pair]*pair{}
	for p := range a.members.pairs() {
		by[p.telemetryPair()] = p
	}
	for _, acc := range a.ledger.Fold(r) {
		p := by[acc.Pair]
		if p == nil {
			continue
		}
		for i, r := range p.routes {
			if uint8(r.Index) == acc.Path && acc.SegmentsOut+acc.RTT.Count > 0 {
				ln := &p.lines[i]
				ln.figures, ln.heard, ln.rtos = acc.Figures, now, int(acc.Timeouts)
				ln.unacked += int64(acc.BytesSent) - int64(acc.BytesAcked)
				if acc.SegmentsOut > 0 {
					ln.retrans = min(float64(acc.Retransmits)/float64(acc.SegmentsOut), 1)
				}
			}
		}
	}
}

// account folds the bytes since it last did: over the time that has passed, since
// an agent that has to wait for a CPU comes late, and a rate by the nominal epoch
// would be too high then and too low the next time.
func (a *Agent) account(p *pair, now time.Time) {
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
	if answers := p.answers(now); answers != p.fitted {
		p.fitted = answers
		a.stacks.refit(p)
	}
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
