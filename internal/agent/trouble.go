package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/path/telemetry"
)

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
		if !p.left.IsZero() && a.clock.at(e.At).Before(p.left) {
			// Its timer fired before the flows moved, and was heard of only now.
			a.wake(p, steer.All, now)
			return
		}
		a.timedOut(p, e, now)
		return
	}
	for i := range p.routes {
		if !p.lines[i].silent.IsZero() {
			a.suspect(p, i, now)
		}
	}
}

// timedOut judges by data: a timeout of a connection, on a path of its own over
// which nothing has come in since packets went out, says that data does not pass,
// whatever probes say. The reverse is no proof either way.
func (a *Agent) timedOut(p *pair, e telemetry.Event, now time.Time) {
	const deaf = 15 * time.Millisecond
	own, err := p.local.plane.Choices(p.remote.UID)
	followed, err2 := p.local.plane.Followed(p.remote.UID)
	if err != nil || err2 != nil {
		return // the peer has just gone
	}
	for i, r := range p.routes {
		if !bears(r.Index, own[e.Bucket%steer.Buckets], followed[e.Bucket%steer.Buckets]) {
			continue
		}
		ln := &p.lines[i]
		hp := p.host.paths[r.Network]
		if ln.silent.IsZero() || now.Sub(ln.silent) < deaf+a.late(ln.silent, now) || hp == nil || !hp.failed.IsZero() || !ln.mute.IsZero() || now.Before(ln.until) {
			continue
		}
		if !ln.outweigh(e.Count, now) {
			a.suspect(p, i, now)
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
		a.leave(p, i, now, since)
	}
}

// bears is whether a connection can be on a path, whose bucket is there by what was
// chosen here or by the peer, whichever has opened it. A path that flows have left is
// silent for that.
func bears(index int, own, followed steer.Choice) bool {
	return own.Path == index || followed.Told && followed.Path == index || !followed.Told && index == 0
}

// outweigh reports whether so many timeouts in a row say by themselves that data
// does not pass. Where echoes are answered, they are asked at the first ones: a
// receiver that is slow to acknowledge causes a timeout too (rto_min).
func (ln *line) outweigh(inARow uint32, now time.Time) bool {
	const enough = 3
	return inARow >= enough || !ln.telling(now)
}

// leave moves the pair's flows off path i. Those of its own flee; those that the
// peer has opened go where ours are, until it says otherwise.
func (a *Agent) leave(p *pair, i int, now time.Time, detected time.Duration) {
	r, to := p.routes[i], p.on()
	p.stale = now // it may be the next hop that has changed
	if to.Index == r.Index {
		to = a.flee(p, now, detected)
	}
	if to.Index == r.Index || a.cfg.DryRun {
		return
	}
	if err := p.local.plane.Divert(p.remote.UID, r.Index, to.Index); err != nil {
		a.warn("%s: %v", p.name, err)
	}
	a.wake(p, steer.All, now)
}

// heardMute: a path that is mute at one end is so at both, and this end may have
// nothing to send. Echoes will tell when it is well again, so they must be known
// to pass at times.
func (a *Agent) heardMute(p *pair, n notice) status {
	if int(n.network) >= len(a.names) {
		return statusUnknown
	}
	network, now := a.names[n.network], a.cfg.Now()
	i := p.line(network)
	if i < 0 || !p.lines[i].telling(now) {
		return statusUnknown
	}
	if ln := &p.lines[i]; ln.mute.IsZero() {
		ln.end(now)
		a.mute(p, i, fmt.Sprintf("this pair's packets do not pass over %s: the agent of %s says so", network, p.host.name), now, now, "peer")
	}
	return statusDone
}

// heardFailure: what the other end does not hear, this end need not send. Its
// sender is known by what it says, which is authentic, not by its address, which
// is not. Probes will tell when the path is well again.
func (a *Agent) heardFailure(n notice) status {
	if n.to != a.self || int(n.network) >= len(a.names) {
		return statusUnknown
	}
	now, network := a.cfg.Now(), a.names[n.network]
	for _, h := range a.remote {
		bad := h.paths[network]
		if h.pod != n.from || bad == nil || len(h.paths) < 2 {
			continue
		}
		if bad.failed.IsZero() {
			bad.failed, bad.suspected, bad.well = now, time.Time{}, 0
			a.evacuate(h, bad, now, fmt.Sprintf("%s to %s has failed: its agent says so", bad.network, h.name), 0, "peer")
		}
		return statusDone
	}
	return statusUnknown
}
