package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// weigh gathers evidence about every pair with traffic and asks the policy.
func (a *Agent) weigh(now time.Time) {
	a.handleConnections(now)
	a.summarise(now)
	a.asked, a.turns = 0, turns{}
	busy := 0
	for _, l := range a.pods {
		a.handleEchoes(l)
		for _, p := range l.pairs {
			a.probePair(p, now)
			a.look(p, now)
			a.account(p, now)
			if now.Sub(p.active) >= quiet {
				a.rest(p, now)
				continue
			}
			busy++
			a.open(p, now)
			// With many busy pairs each has its turn, so that the work stays bounded.
			if !p.withdrawn && (now.Sub(p.own) < quiet || p.stranded()) &&
				now.Sub(p.weighed) >= time.Duration(a.busy/atOnce)*epoch {
				p.weighed = now
				a.ask(p, now)
			}
			if p.detours.end(&a.pairParams, p.inquired, now) {
				a.replace(p, now)
			}
			a.settle(p, now)
			a.doubt(p, now)
			a.routeDirectly(p, now)
			a.judgeOutcome(p)
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
	for _, h := range a.remote {
		for _, hp := range h.paths {
			if hp.told && (now.Sub(hp.summed) >= time.Second || hp.summary.Answered == 0) {
				hp.summary, hp.summed, hp.told = hp.track.Summary(), now, false
			}
		}
	}
}

// ask lets the policy decide about a pair.
func (a *Agent) ask(p *pair, now time.Time) {
	ev := a.evidence(p, now)
	a.recorder.add(decide.Record{For: epoch, Evidence: ev})
	var d decide.Decision
	p.state, d = a.cfg.Policy.Step(p.state, ev)
	p.decision = d
	if p.pinned != "" {
		d = p.keepPinned(ev, d)
	}
	if p.assigned.Apply(d) != p.assigned {
		a.carryOut(p, d, "policy", 0)
	}
}

// keepPinned lets only failure move a pinned pair, and brings it back.
func (p *pair) keepPinned(ev decide.PairEvidence, d decide.Decision) decide.Decision {
	if d.Kind == decide.Failover || d.Kind == decide.Fallback {
		return d
	}
	back := decide.Decision{Kind: decide.Switch, From: ev.Active, To: p.pinned, Buckets: decide.Buckets, Confidence: 1,
		Reason: "pinned here, and well again", Evidence: ev}
	for _, e := range ev.Paths {
		if e.Network == p.pinned && e.State == decide.Up && ev.Active != p.pinned {
			return back
		}
	}
	return decide.Decision{Kind: decide.Stay, From: ev.Active, To: ev.Active, Buckets: decide.Buckets, Reason: "pinned"}
}

// handleConnections takes what was read of what the kernel counted about TCP connections.
func (a *Agent) handleConnections(now time.Time) {
	for _, l := range a.pods {
		for _, p := range l.pairs {
			for i := range p.lines {
				p.lines[i].retrans, p.lines[i].rtos, p.lines[i].unacked = 0, 0, 0
			}
		}
	}
	r, ok := a.survey.reading(now)
	if !ok {
		return
	}
	by := map[telemetry.Pair]*pair{}
	for _, l := range a.pods {
		for _, p := range l.pairs {
			by[p.telemetryPair()] = p
		}
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
		a.refit(p)
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

// evidence is all that is known of a pair.
func (a *Agent) evidence(p *pair, now time.Time) decide.PairEvidence {
	ev := decide.PairEvidence{At: now.Sub(a.start), Pair: p.name, Need: a.cfg.Need, Default: p.routes[0].Network,
		Active: p.on().Network, SwitchLoss: p.loss.Estimate()}
	var buckets [8]int
	if choices, err := p.local.plane.Choices(p.remote.UID); err == nil {
		for _, c := range choices {
			buckets[c.Path%len(buckets)]++
		}
	}
	total := 0.0
	for i, r := range p.routes {
		ln := &p.lines[i]
		total += ln.tx + ln.rx
		e := decide.PathEvidence{Network: r.Network, State: decide.Up, Buckets: buckets[r.Index],
			Prior: a.cfg.Prior[r.Network], CPU: a.cfg.CPU[r.Network], OtherPairs: a.others(p, r.Network, now)}
		e.Data = p.data(i, now)
		if hp := p.host.paths[r.Network]; hp != nil {
			hp.fill(&e, a.wires.lastProbe(hp), now)
		} else {
			e.State, e.Reason = decide.Ineligible, "the other host has no agent on it"
		}
		if left := ln.bar.Left(now); left > 0 {
			e.State, e.Reason = decide.Failed,
				fmt.Sprintf("this pair's packets do not pass: tried again in %v", left.Round(time.Second))
		}
		if ln.Down() {
			e.State, e.Reason = decide.Failed,
				fmt.Sprintf("this pair's packets do not pass, since %v", now.Sub(ln.Since()).Round(10*time.Millisecond))
		}
		if r.Index != 0 && p.opened.IsZero() {
			e.State, e.Reason = decide.Ineligible, "the other agent has not confirmed the pair"
		}
		ev.Paths = append(ev.Paths, e)
	}
	ev.Pause = total == 0
	ev.Load.Connections = p.conns
	return ev
}

// data is what the pair's own traffic tells of path i.
func (p *pair) data(i int, now time.Time) decide.Data {
	ln := &p.lines[i]
	d := decide.Data{Goodput: 8 * ln.goodput, Tx: ln.tx, Rx: ln.rx, RTOs: ln.rtos, Retrans: ln.retrans}
	if o := p.outcome; o != nil {
		d.Blank = now.Sub(o.at) < max(2*ln.figures.SRTT, 10*time.Millisecond)
	}
	const lately = time.Second
	switch {
	case now.Sub(ln.heard) < lately: // not every period brings news of each connection
		d.SRTT, d.AppLimited = ln.figures.SRTT.Seconds(), !p.limited.known || p.limited.part > 0.5
	case p.conns == 0:
		// Not TCP: what is sent is what the application wants to send.
		d.AppLimited = true
	}
	return d
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

// others counts the pairs of the same hosts that are on the network.
func (a *Agent) others(p *pair, network string, now time.Time) int {
	n := 0
	for _, l := range a.pods {
		for _, q := range l.pairs {
			if q != p && q.host == p.host && q.assigned.Active == network && now.Sub(q.active) < quiet {
				n++
			}
		}
	}
	return n
}

// direction is where a failed path loses packets, as far as is known: probes of the other
// agent that come after it failed, and were not on their way by then, have come all the
// way from there.
func (hp *hostPath) direction(heard time.Time) detect.Direction {
	const onTheirWay = 100 * time.Millisecond // in the longest queues
	if heard.After(hp.Since().Add(onTheirWay)) {
		return detect.Forward
	}
	return hp.Verdict().Direction
}

// fill adds what probes tell.
func (hp *hostPath) fill(e *decide.PathEvidence, heard, now time.Time) {
	s := hp.summary
	e.Probe = decide.Probe{RTT: hp.rtt().Seconds(), Jitter: s.Jitter.Seconds(), Loss: s.Loss.Value(),
		Samples: min(s.Answered, 256)}
	if last := s.Last; !last.IsZero() {
		if hp.last.After(last) {
			last = hp.last
		}
		e.Probe.Age = max(now.Sub(last).Seconds(), 0)
	}
	switch {
	case hp.Down():
		e.State, e.Reason = decide.Failed, fmt.Sprintf("failed %v ago%s", now.Sub(hp.Since()).Round(10*time.Millisecond),
			hp.direction(heard))
	case hp.unfit != "":
		e.State, e.Reason = decide.Ineligible, hp.unfit
	case s.MTUBlackHole:
		e.State, e.Reason = decide.Ineligible, "full-size packets do not pass"
	case s.Answered == 0:
		e.State, e.Reason = decide.Ineligible, "no probe has been answered yet"
	case hp.Suspected():
		e.State, e.Reason = decide.Suspect, fmt.Sprintf("silent for %v", now.Sub(hp.Arose()).Round(time.Millisecond))
	}
}
