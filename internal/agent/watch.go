package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/path/decide"
	"pathwise.dev/pathwise/internal/path/probe"
	"pathwise.dev/pathwise/internal/path/route"
	"pathwise.dev/pathwise/internal/path/telemetry"
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
	// shotEvery is the distance of the probes of a burst.
	shotEvery = 2 * time.Millisecond
	// patience bounds what a path's usual round trip may add to the time in which
	// a probe of a burst is to be answered. A path that has queues, and carries
	// data, is not silent, so it is not judged here.
	patience = 5 * time.Millisecond
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
	next := idleTick
	for _, l := range a.pods {
		for _, p := range l.pairs {
			recent := now.Sub(p.active) < quiet
			// A pair without traffic is looked at with each evidence only.
			if recent {
				a.look(p, now)
			}
			if recent {
				next = min(next, fastTick)
			}
		}
	}
	for _, h := range a.remote {
		for _, hp := range h.paths {
			if !hp.suspected.IsZero() {
				next = min(next, suspectTick)
				a.pursue(h, hp, now)
			}
		}
	}
	return next
}

// look reads a pair's counters and suspects the path that went silent.
func (a *Agent) look(p *pair, now time.Time) {
	all := now.Sub(p.looked) >= epoch
	if all {
		p.looked = now
	}
	for i, r := range p.routes {
		ln := &p.lines[i]
		if !all && now.Sub(ln.used) >= time.Second {
			continue // nothing there lately: with each evidence is often enough
		}
		sent, received, err := p.local.plane.Tallies(p.remote.UID, r.Index)
		if err != nil {
			return // the peer was just removed
		}
		tx, rx := sent.Packets != ln.sent.Packets, received.Packets != ln.received.Packets
		ln.sent, ln.received = sent, received
		hp := p.host.paths[r.Network]
		if tx || rx {
			p.active, p.host.used, ln.used = now, now, now
			if hp != nil {
				hp.busy = now
			}
		}
		switch {
		case rx:
			ln.silent = time.Time{}
		case tx && ln.silent.IsZero():
			ln.silent = now
		}
		if ln.silent.IsZero() || now.Sub(ln.silent) < silence || hp == nil || !hp.failed.IsZero() || !hp.suspected.IsZero() {
			continue
		}
		if now.Sub(ln.silent) > quiet { // nothing was sent for long: no evidence
			ln.silent = time.Time{}
			continue
		}
		if now.Sub(hp.alive) >= again {
			hp.suspected, hp.since, hp.burst = now, ln.silent, time.Time{}
			a.stats.suspicions++
			a.pursue(p.host, hp, now)
		}
	}
}

// pursue sends the probes of a suspicion and judges.
func (a *Agent) pursue(h *remoteHost, hp *hostPath, now time.Time) {
	w := a.links[hp.network]
	if w == nil {
		hp.suspected = time.Time{}
		return
	}
	if now.Sub(hp.burst) >= shotEvery {
		hp.burst = now
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
		a.fail(h, hp, v, now)
	case probe.PeerGone:
		a.gone(h, hp, v, now)
	}
	if !hp.suspected.IsZero() && now.Sub(hp.suspected) > 5*time.Second {
		hp.suspected, hp.alive = time.Time{}, now // no verdict: begin anew
	}
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
	s.P99, s.Shots = min(hp.summary.P99, patience), hp.shots
	for name, other := range h.paths {
		if other != hp && other.failed.IsZero() {
			s.Witnesses = append(s.Witnesses, probe.Witness{Name: name, P99: min(other.summary.P99, patience), Shots: other.shots})
		}
	}
	if w := a.links[hp.network]; w != nil {
		s.Heard = w.reflector.Heard(hp.to.Addr())
	}
	return s
}

// fail moves every pair away from a path that has failed, and tells the other
// agent: it may have nothing to send, and so would not notice.
func (a *Agent) fail(h *remoteHost, hp *hostPath, v probe.Verdict, now time.Time) {
	since := hp.since
	hp.failed, hp.direction, hp.suspected, hp.well = now, v.Direction, time.Time{}, 0
	a.stats.failovers++
	reason := fmt.Sprintf("%s to %s has failed (%s): %s; silent for %v", hp.network, h.name, v.Direction, v.Why, now.Sub(since).Round(time.Millisecond))
	a.evacuate(h, hp, now, reason, now.Sub(since), "policy")
	a.tell(h, notice{kind: noticeFailed, from: a.self, to: h.pod, network: uint8(indexOf(a.names, hp.network)), names: namesHash(a.names)}, hp.network)
}

// evacuate applies the policy to the pairs on the path, at once.
func (a *Agent) evacuate(h *remoteHost, hp *hostPath, now time.Time, reason string, detected time.Duration, by string) {
	// Told afterwards: every millisecond counts here.
	defer a.note(Event{Kind: EventPeer, To: hp.network, Reason: reason, Detected: detected, By: by})
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if p.host != h {
				continue
			}
			r, ok := p.byNetwork(hp.network)
			if !ok {
				continue
			}
			to := p.routes[0]
			if p.on().Index == r.Index {
				to = a.flee(p, now, detected)
			} else {
				to = p.on()
			}
			if a.cfg.DryRun || to.Index == r.Index {
				continue
			}
			// Flows that the peer has opened: until it says where they go.
			if err := l.plane.Divert(p.remote.UID, r.Index, to.Index); err != nil {
				a.warn("%s: %v", p.name, err)
			}
			a.wake(p, now)
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
	to, _ := p.byNetwork(d.To)
	return to
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
			if p.host != h || p.on().Index == 0 {
				continue
			}
			d := decide.Decision{Kind: decide.Fallback, From: p.on().Network, To: p.routes[0].Network, Buckets: decide.Buckets, Confidence: 1,
				Reason: fmt.Sprintf("no agent answers on %s: %s", h.name, v.Why)}
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
	a.note(Event{Kind: EventCleared, To: hp.network, Reason: fmt.Sprintf("%s to %s answers again, after %v", hp.network, h.name, a.cfg.Now().Sub(hp.failed).Round(time.Millisecond))})
	hp.failed, hp.suspected, hp.well = time.Time{}, time.Time{}, 0
}

// hearTrouble takes what the kernel tells of connections as it happens.
func (a *Agent) hearTrouble(e telemetry.Event) {
	if e.Kind == telemetry.Retransmit {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	for _, l := range a.pods {
		if l.cookie != e.Netns {
			continue
		}
		for _, p := range l.pairs {
			if p.routes[0].Remote.Addr == e.Remote {
				a.look(p, now)
				a.heard(p, e, now)
			}
		}
	}
}

// heard takes an event of one of the pair's connections. A tail loss probe (RFC
// 8985 section 7) says that no acknowledgment came for two round trips: the
// earliest sign of silence there is.
func (a *Agent) heard(p *pair, e telemetry.Event, now time.Time) {
	if e.Kind == telemetry.Timeout {
		p.remember(e, now)
		a.timedOut(p, e, now)
		return
	}
	for i, r := range p.routes {
		ln, hp := &p.lines[i], p.host.paths[r.Network]
		if ln.silent.IsZero() || now.Sub(ln.silent) > quiet || hp == nil || !hp.failed.IsZero() || !hp.suspected.IsZero() || now.Sub(hp.alive) < again {
			continue
		}
		hp.suspected, hp.since, hp.burst = now, ln.silent, time.Time{}
		a.stats.suspicions++
		a.pursue(p.host, hp, now)
	}
}

// timedOut judges by data: a timeout of a connection, on a path over which
// nothing has come in since packets went out, says that data does not pass,
// whatever probes say. The reverse is no proof either way.
func (a *Agent) timedOut(p *pair, e telemetry.Event, now time.Time) {
	const deaf = 15 * time.Millisecond
	for i, r := range p.routes {
		ln := &p.lines[i]
		hp := p.host.paths[r.Network]
		if ln.silent.IsZero() || now.Sub(ln.silent) < deaf || hp == nil || !hp.failed.IsZero() || now.Before(ln.until) {
			continue
		}
		if now.Sub(ln.failed) > time.Minute {
			ln.backoff = 0
		}
		ln.backoff = min(max(2*ln.backoff, 5*time.Second), 2*time.Minute)
		ln.failed, ln.until = now, now.Add(ln.backoff)
		since := now.Sub(ln.silent)
		defer a.note(Event{Kind: EventSuspect, Pair: p.name, To: r.Network, Detected: since,
			Reason: fmt.Sprintf("a connection timed out (%d in a row) and nothing came over %s for %v, though probes pass", e.Count, r.Network, since.Round(time.Millisecond))})
		// Flows of our own flee; those that the peer has opened go where ours are,
		// until it says otherwise.
		to := p.on()
		if to.Index == r.Index {
			to = a.flee(p, now, since)
		}
		if to.Index == r.Index || a.cfg.DryRun {
			continue
		}
		if err := p.local.plane.Divert(p.remote.UID, r.Index, to.Index); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		a.wake(p, now)
	}
}
