package agent

import (
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/route"
)

// watch looks at the counters of pairs with traffic, and follows up suspicions.
// It returns when to look again.
func (a *Agent) watch(now time.Time) time.Duration {
	next := a.waker.wakeDue(now)
	a.attendMoved(now)
	for n := range a.polled {
		next = min(next, a.poll(n, now))
	}
	if a.judgeAll(now) {
		next = min(next, suspectTick)
	}
	for hp, h := range a.suspects {
		if !hp.Suspected() {
			delete(a.suspects, hp)
			continue
		}
		next = min(next, suspectTick)
		a.followUp(h, hp, now)
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
	if hp == nil || hp.Down() {
		return
	}
	if ln.silence.Lasts(quiet, now) { // nothing was sent for long: no evidence
		ln.silence.Since = time.Time{}
		return
	}
	if ln.Telling(now) {
		if do := ln.Suspect(ln.silence.Since, now); do != 0 {
			if !slices.Contains(a.suspecting, p) {
				a.suspecting = append(a.suspecting, p)
			}
			a.stats.suspicions++
			a.pacer.soon(suspectTick)
			a.act(p, i, do, now)
		}
	}
	if !ln.Telling(now) {
		a.suspectHost(p, i, now)
	}
}

// suspectHost takes it up between the hosts.
func (a *Agent) suspectHost(p *pair, i int, now time.Time) {
	hp := p.host.paths[p.routes[i].Network]
	if hp == nil || hp.wire == nil {
		return
	}
	if do := hp.Suspect(p.lines[i].silence.Since, now); do != 0 {
		a.suspects[hp] = p.host
		a.stats.suspicions++
		a.pacer.soon(suspectTick)
		a.actOnHost(p.host, hp, do, now)
	}
}

// followUp follows up a suspicion between hosts.
func (a *Agent) followUp(h *remoteHost, hp *hostPath, now time.Time) {
	do := hp.Tick(now, a.hostEvidence(h, hp, now))
	if hp.State() == detect.Confirming {
		if more := hp.Confirm(now, a.opinion(h, hp, now)); hp.State() != detect.Confirming {
			do = more
		}
	}
	a.actOnHost(h, hp, do, now)
}

// hostEvidence is what is known of a suspected path to a host. Replies that lay in sockets
// were read after now: else a stall of this process would look like a loss.
func (a *Agent) hostEvidence(h *remoteHost, hp *hostPath, now time.Time) detect.Evidence {
	e := detect.Evidence{Until: now, Expected: hp.expected(now), Late: a.pacer.late(hp.Silent(), now)}
	for name, other := range h.paths {
		if other != hp && !other.Down() {
			e.Witnesses = append(e.Witnesses, other.Testimony(name, other.summary.P99, other.rtt()))
		}
	}
	e.Heard = hp.lastProbe()
	return e
}

// actOnHost does what an event on a path between hosts calls for.
func (a *Agent) actOnHost(h *remoteHost, hp *hostPath, do detect.Action, now time.Time) {
	if do.Has(detect.Ask) {
		a.wires.send(hp, false)
	}
	for _, other := range h.paths {
		if do.Has(detect.AskOthers) && other != hp && !other.Down() {
			a.wires.send(other, false)
		}
	}
	if do.Has(detect.Tell) {
		a.fail(h, hp, now)
	}
}

// fail moves every pair away from a path that has failed, and tells the other
// agent: it may have nothing to send, and so would not notice.
func (a *Agent) fail(h *remoteHost, hp *hostPath, now time.Time) {
	since := hp.Silent()
	a.stats.failovers++
	for p := range a.members.pairs() {
		if i := p.line(hp.network); p.host == h && i >= 0 {
			p.lines[i].Overrule(since, now)
		}
	}
	reason := fmt.Sprintf("%s to %s has failed%s: %v; silent for %v", hp.network, h.name, hp.Verdict().Direction,
		hp.Verdict(), now.Sub(since).Round(time.Millisecond))
	a.evacuate(h, hp, now, reason, now.Sub(since), "policy")
	a.wires.tell(h, notice{kind: noticeFailed, from: a.wires.self, to: h.pod,
		network: uint8(indexOf(a.members.names, hp.network)), names: a.members.dialect()}, hp.network)
}

// evacuate applies the policy to the pairs on the path, at once.
func (a *Agent) evacuate(h *remoteHost, hp *hostPath, now time.Time, reason string, detected time.Duration, by string) {
	// Told afterwards: every millisecond counts here.
	defer a.note(Event{Kind: EventPeer, To: hp.network, Reason: reason, Detected: detected, By: by})
	for p := range a.members.pairs() {
		if i := p.line(hp.network); p.host == h && i >= 0 {
			a.leavePath(p, i, now, detected)
		}
	}
}

// failOver asks the policy where to go and goes there.
func (a *Agent) failOver(p *pair, now time.Time, detected time.Duration) route.Route {
	if d := a.judge.flee(p, now); d.Moves() {
		a.mover.carryOut(p, d, "policy", detected)
	}
	return p.on() // a dry run moves nothing, and a data plane may refuse
}
