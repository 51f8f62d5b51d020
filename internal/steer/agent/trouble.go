package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/kick"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

const (
	// batchMost bounds how many events are taken at a time, under the agent's lock.
	batchMost = 1024
	// gather is the least time between two batches, but for those that are full: a black
	// hole makes all connections of a pair tell the same.
	gather = time.Millisecond
)

// listen hears of timeouts as they happen.
func (a *Agent) listen(ctx context.Context) error {
	events, err := a.survey.passive.Events(ctx)
	if err != nil {
		return fmt.Errorf("listen to connections: %w", err)
	}
	batch := make([]telemetry.Event, 0, batchMost)
	for e := range events {
		batch = take(append(batch[:0], e), events)
		a.handleTCPEvents(batch)
		if len(batch) < batchMost {
			time.Sleep(gather)
		}
	}
	return nil
}

// take adds the events that wait, as many as the batch has room for.
func take(batch []telemetry.Event, events <-chan telemetry.Event) []telemetry.Event {
	for len(batch) < cap(batch) {
		select {
		case e, ok := <-events:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// trouble is what a batch of events tells of a pair.
type trouble struct {
	// timeouts are the buckets of connections that had one.
	timeouts [dataplane.Buckets]bool
	timedOut bool
	// probes: a connection has sent a tail loss probe. late: a timer fired before the
	// flows moved, and was heard of only now.
	probes, late bool
}

// add adds an event that is not late.
func (t *trouble) add(e telemetry.Event) {
	if e.Kind == telemetry.TailProbe {
		t.probes = true
		return
	}
	t.timeouts[e.Bucket%dataplane.Buckets], t.timedOut = true, true
}

// handleTCPEvents takes what the kernel tells of connections as it happens. Connections
// are remembered one by one; their pair is judged once, however many they are.
func (a *Agent) handleTCPEvents(batch []telemetry.Event) {
	batch = slices.DeleteFunc(batch, func(e telemetry.Event) bool { return e.Kind == telemetry.Retransmit })
	if len(batch) == 0 {
		return
	}
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now()
	known, told := map[telemetry.Pair][]*pair{}, map[*pair]*trouble{}
	for _, e := range batch {
		pairs, ok := known[e.Pair()]
		if !ok {
			pairs = a.members.pairsOf(e.Pair())
			known[e.Pair()] = pairs
		}
		for _, p := range pairs {
			if told[p] == nil {
				told[p] = &trouble{}
			}
			a.noteTCPEvent(p, e, told[p], now)
		}
	}
	for p, t := range told {
		a.look(p, now)
		a.judgeTCP(p, t, now)
	}
}

// noteTCPEvent notes an event of one of the pair's connections.
func (a *Agent) noteTCPEvent(p *pair, e telemetry.Event, t *trouble, now time.Time) {
	if e.Kind != telemetry.Timeout {
		t.add(e)
		return
	}
	if p.stuck == nil {
		p.stuck = &kick.Stalled{}
	}
	a.stats.unremembered += uint64(p.stuck.Remember(e, now))
	if !p.left.IsZero() && a.clock.at(e.At).Before(p.left) {
		t.late = true
		return
	}
	t.add(e)
	if !a.cfg.DryRun {
		a.inquiries.add(p, e)
	}
}

// judgeTCP acts on what was told of the pair. A tail loss probe (RFC 8985 section 7)
// says that no acknowledgment came for two round trips: the earliest sign of silence
// there is.
func (a *Agent) judgeTCP(p *pair, t *trouble, now time.Time) {
	if t.late {
		a.waker.wakeMoved(p, dataplane.All, now)
	}
	if t.timedOut {
		a.timedOut(p, t, now)
	}
	for i := range p.routes {
		if t.probes && !p.lines[i].silence.Since.IsZero() {
			a.suspect(p, i, now)
		}
	}
}

// timedOut suspects paths by data: a timeout of a connection, on a path of its own over
// which nothing has come in since packets went out, may say that the path has failed. The
// connection itself is asked whether data passes: see inquire.
func (a *Agent) timedOut(p *pair, t *trouble, now time.Time) {
	own, err := p.local.plane.Choices(p.remote.UID)
	followed, followErr := p.local.plane.Followed(p.remote.UID)
	if err != nil || followErr != nil {
		return // the peer has just gone
	}
	for i, r := range p.routes {
		ln := &p.lines[i]
		if t.on(r.Index, own, followed) && !ln.Down() &&
			ln.silence.Lasts(a.pairParams.Deaf+a.pacer.late(ln.silence.Since, now), now) {
			a.suspect(p, i, now)
		}
	}
}

// on reports whether a connection that has timed out can be on a path.
func (t *trouble) on(index int, own, followed [dataplane.Buckets]dataplane.Choice) bool {
	for b, out := range t.timeouts {
		if out && bears(index, own[b], followed[b]) {
			return true
		}
	}
	return false
}

// bears is whether a connection can be on a path, whose bucket is there by what was
// chosen here or by the peer, whichever has opened it. A path that flows have left is
// silent for that.
func bears(index int, own, followed dataplane.Choice) bool {
	return own.Path == index || followed.Path == index
}

// leavePath moves the pair's flows off path i. Those of its own fail over; those that the
// peer has opened go where ours are, until it says otherwise.
func (a *Agent) leavePath(p *pair, i int, now time.Time, detected time.Duration) {
	r, to := p.routes[i], p.on()
	p.stale = now // it may be the next hop that has changed
	if to.Index == r.Index {
		to = a.failOver(p, now, detected)
	}
	if to.Index == r.Index || a.cfg.DryRun {
		return
	}
	if _, err := p.local.plane.Divert(p.remote.UID, r.Index, to.Index); err != nil {
		a.warn("%s: %v", p.name, err)
	}
	a.mover.answersMoved(p)
	a.waker.wake(p, dataplane.All, now)
}

// handleMute: a path that is mute at one end is so at both, and this end may have
// nothing to send. Echoes will tell when it is well again, so they must be known
// to pass at times.
func (a *Agent) handleMute(p *pair, n notice) status {
	if int(n.network) >= len(a.members.names) {
		return statusUnknown
	}
	network, now := a.members.names[n.network], a.cfg.Now()
	i := p.line(network)
	if i < 0 || !p.lines[i].Telling(now) {
		return statusUnknown
	}
	if p.lines[i].Signaled(now).Has(detect.Fail) {
		a.failPath(p, i, fmt.Sprintf("this pair's packets do not pass over %s: the agent of %s says so", network, p.host.name),
			now, now, "peer")
	}
	return statusDone
}

// handleFailure: what the other end does not hear, this end need not send. Its
// sender is known by what it says, which is authentic, not by its address, which
// is not. Probes will tell when the path is well again.
func (a *Agent) handleFailure(n notice) status {
	if n.to != a.wires.self || int(n.network) >= len(a.members.names) {
		return statusUnknown
	}
	now, network := a.cfg.Now(), a.members.names[n.network]
	for _, h := range a.members.remote {
		bad := h.paths[network]
		if h.pod != n.from || bad == nil || len(h.paths) < 2 {
			continue
		}
		if bad.Signaled(now).Has(detect.Fail) {
			a.evacuate(h, bad, now, fmt.Sprintf("%s to %s has failed: its agent says so", bad.network, h.name), 0, "peer")
		}
		return statusDone
	}
	return statusUnknown
}
