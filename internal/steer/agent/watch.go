package agent

import (
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
)

// Constants of failure detection, which follows REAP's forced bidirectional
// detection (RFC 5534 section 4.1): who sends expects to hear; who does not hear
// asks. They add up to less than TCP's shortest retransmission timeout.
const (
	// silence is how long packets may go out with none coming in before the path
	// is suspected: longer than a loaded path's round trip, far shorter than a
	// delayed acknowledgment (40 ms), which probes are there to tell from a fault.
	silence = 6 * time.Millisecond
	// again is the least time between suspicions of a path that were unfounded.
	again = 10 * time.Millisecond
	// shotEvery is the distance of the first rounds of probes of a burst, burstRounds
	// of them, and slowShot that of the others: what these have not told, as when
	// nothing at all answers, is not worth as many.
	shotEvery, burstRounds, slowShot = 2 * time.Millisecond, 16, 20 * time.Millisecond
	// patience bounds what the worst of a path's round trips may add to the time in
	// which a probe of a burst is to be answered. What it usually takes now, as in
	// a queue that others fill, is not bounded.
	patience = 5 * time.Millisecond
	// refills is how long a path to which traffic has come back after a lull may
	// fill its queue anew, and queueMost bounds what that may take. A lull is long
	// enough for probes to have forgotten the queue.
	lull, refills, queueMost = 50 * time.Millisecond, 500 * time.Millisecond, 50 * time.Millisecond
	// wellAfter is how many answers in a row make a failed path usable again.
	wellAfter = 10
)

// rules of judgement: a verdict some 8 ms after suspicion.
func rules() probe.Rules {
	r := probe.DefaultRules()
	r.Floor, r.Times = 2*time.Millisecond, 2
	return r
}

// watch looks at the counters of pairs with traffic, and follows up suspicions.
// It returns when to look again.
func (a *Agent) watch(now time.Time) time.Duration {
	next := a.wakeDue(now)
	for n := range a.glances {
		next = min(next, a.glance(n, now))
	}
	if a.judgeAll(now) {
		next = min(next, suspectTick)
	}
	for hp, h := range a.suspects {
		if hp.suspected.IsZero() {
			delete(a.suspects, hp)
			continue
		}
		next = min(next, suspectTick)
		a.pursue(h, hp, now)
	}
	a.conclude(now)
	return next
}

// suspect takes up that packets go out over path i of the pair and none come in.
// Where echoes can tell, one comes first: an application that is slow to answer
// looks no different, and is far more common. The hosts are asked if that is not
// answered either.
func (a *Agent) suspect(p *pair, i int, now time.Time) {
	ln, hp := &p.lines[i], p.host.paths[p.routes[i].Network]
	if hp == nil || !hp.failed.IsZero() {
		return
	}
	if now.Sub(ln.silent) > quiet { // nothing was sent for long: no evidence
		ln.silent = time.Time{}
		return
	}
	if ln.inquire(now) {
		if !slices.Contains(a.inquiring, p) {
			a.inquiring = append(a.inquiring, p)
		}
		a.stats.suspicions++
		a.judge(p, i, now)
	}
	if !ln.telling(now) {
		a.suspectHost(p, i, now)
	}
}

// suspectHost takes it up between the hosts.
func (a *Agent) suspectHost(p *pair, i int, now time.Time) {
	hp := p.host.paths[p.routes[i].Network]
	if hp != nil && hp.failed.IsZero() && hp.suspected.IsZero() && now.Sub(hp.alive) >= again {
		hp.suspected, hp.since, hp.burst, hp.rounds = now, p.lines[i].silent, time.Time{}, 0
		a.suspects[hp] = p.host
		a.stats.suspicions++
		a.pursue(p.host, hp, now)
	}
}

// pursue sends the probes of a suspicion and judges.
func (a *Agent) pursue(h *remoteHost, hp *hostPath, now time.Time) {
	w := a.links[hp.network]
	if w == nil {
		hp.suspected = time.Time{}
		return
	}
	if now.Sub(hp.burst) >= hp.spacing() {
		hp.burst = now
		hp.rounds++
		a.send(w, hp, false)
		for name, other := range h.paths {
			if other != hp && a.links[name] != nil && other.failed.IsZero() {
				a.send(a.links[name], other, false)
			}
		}
	}
	v := rules().Judge(a.suspicion(h, hp, now))
	switch v.State {
	case probe.Alive:
		hp.suspected, hp.alive = time.Time{}, now
	case probe.Failed:
		switch no, wait := a.contradicted(h, hp, now); {
		case no:
			hp.suspected, hp.alive = time.Time{}, now
		case !wait:
			a.fail(h, hp, v, now)
		}
	case probe.PeerGone:
		// Its agent may only wait for a processor: while packets pass, the lease of
		// the other data plane is soon enough.
		if no, _ := a.contradicted(h, hp, now); no {
			hp.suspected, hp.alive = time.Time{}, now
		} else {
			a.gone(h, hp, v, now)
		}
	}
	if !hp.suspected.IsZero() && now.Sub(hp.suspected) > 5*time.Second {
		hp.suspected, hp.alive = time.Time{}, now // no verdict: begin anew
	}
}

// spacing is the least time between two rounds of a suspicion's probes.
func (hp *hostPath) spacing() time.Duration {
	if hp.rounds < burstRounds {
		return shotEvery
	}
	return slowShot
}

// suspicion gathers what is known. Replies that lie in sockets are read first:
// else a stall of this process would look like a loss.
func (a *Agent) suspicion(h *remoteHost, hp *hostPath, now time.Time) probe.Suspicion {
	s := probe.Suspicion{Start: hp.suspected, Now: now}
	for name := range h.paths {
		if w := a.links[name]; w != nil {
			if at, err := w.sender.Drain(); err == nil && at.Before(s.Now) {
				s.Now = at
			}
		}
	}
	a.receive()
	s.P99, s.Shots, s.Late = hp.expected(now), hp.shots, a.late(hp.since, now)
	for name, other := range h.paths {
		if other != hp && other.failed.IsZero() {
			s.Witnesses = append(s.Witnesses, probe.Witness{Name: name, P99: other.usual(), Shots: other.shots})
		}
	}
	if w := a.links[hp.network]; w != nil {
		s.Heard = w.reflector.LastProbe(hp.to.Addr())
	}
	return s
}

// fail moves every pair away from a path that has failed, and tells the other
// agent: it may have nothing to send, and so would not notice.
func (a *Agent) fail(h *remoteHost, hp *hostPath, v probe.Verdict, now time.Time) {
	since := hp.since
	hp.failed, hp.direction, hp.suspected, hp.well = now, v.Direction, time.Time{}, 0
	a.stats.failovers++
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if i := p.line(hp.network); p.host == h && i >= 0 {
				p.lines[i].supersede(since, now)
			}
		}
	}
	reason := fmt.Sprintf("%s to %s has failed (%s): %s; silent for %v", hp.network, h.name, v.Direction, v.Why,
		now.Sub(since).Round(time.Millisecond))
	a.evacuate(h, hp, now, reason, now.Sub(since), "policy")
	a.tell(h, notice{kind: noticeFailed, from: a.self, to: h.pod, network: uint8(indexOf(a.names, hp.network)),
		names: a.dialect()}, hp.network)
}

// evacuate applies the policy to the pairs on the path, at once.
func (a *Agent) evacuate(h *remoteHost, hp *hostPath, now time.Time, reason string, detected time.Duration, by string) {
	// Told afterwards: every millisecond counts here.
	defer a.note(Event{Kind: EventPeer, To: hp.network, Reason: reason, Detected: detected, By: by})
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if i := p.line(hp.network); p.host == h && i >= 0 {
				a.leave(p, i, now, detected)
			}
		}
	}
}

// flee asks the policy where to go and goes there.
func (a *Agent) flee(p *pair, now time.Time, detected time.Duration) route.Route {
	ev := a.evidence(p, now)
	var d decide.Decision
	p.state, d = a.cfg.Policy.Step(p.state, ev)
	if !d.Moves() && p.forgive(now) {
		p.state, d = a.cfg.Policy.Step(p.state, a.evidence(p, now))
	}
	if !d.Moves() {
		return p.on()
	}
	a.carryOut(p, d, "policy", detected)
	return p.on() // a dry run moves nothing, and a data plane may refuse
}

// forgive makes paths usable at once that are barred because a connection timed
// out on them, though probes pass: where the active path has failed, one that may
// not carry data is better than one that does not.
func (p *pair) forgive(now time.Time) bool {
	found := false
	for i, r := range p.routes {
		hp := p.host.paths[r.Network]
		if ln := &p.lines[i]; r.Index != p.on().Index && now.Before(ln.until) && hp != nil && hp.failed.IsZero() {
			ln.until, found = now, true
		}
	}
	return found
}

// gone: no path answers, so that the other agent is dead and not the paths. The
// default network needs no agent.
func (a *Agent) gone(h *remoteHost, hp *hostPath, v probe.Verdict, now time.Time) {
	hp.suspected, hp.alive = time.Time{}, now
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if p.host == h && !a.cfg.DryRun {
				_, _ = p.local.plane.Unfollow(p.remote.UID) // the peer may have gone
			}
			if p.host != h || p.on().Index == 0 {
				continue
			}
			d := decide.Decision{Kind: decide.Fallback, From: p.on().Network, To: p.routes[0].Network, Buckets: decide.Buckets,
				Confidence: 1, Reason: fmt.Sprintf("no agent answers on %s: %s", h.name, v.Why)}
			a.carryOut(p, d, "policy", 0)
			p.opened = time.Time{}
		}
	}
}

// recovered counts a failed path's answers until it may be used again.
func (a *Agent) recovered(h *remoteHost, hp *hostPath) {
	if hp.failed.IsZero() {
		return
	}
	if hp.well++; hp.well < wellAfter {
		return
	}
	a.note(Event{Kind: EventCleared, To: hp.network, Reason: fmt.Sprintf("%s to %s answers again, after %v", hp.network,
		h.name, a.cfg.Now().Sub(hp.failed).Round(time.Millisecond))})
	hp.failed, hp.suspected, hp.well = time.Time{}, time.Time{}, 0
}
