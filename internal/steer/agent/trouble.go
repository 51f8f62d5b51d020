package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
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

// listener takes what the kernel tells of connections as it happens.
type listener struct {
	*journal
	members  *members
	pairs    *pairWatcher
	inquirer *inquirer
	waker    *waker
	survey   *survey
	clock    clock
	stats    *counters
}

// listen takes timeouts as they happen.
func (ls *listener) listen(ctx context.Context) error {
	events, err := ls.survey.passive.Events(ctx)
	if err != nil {
		return fmt.Errorf("listen to connections: %w", err)
	}
	batch := make([]telemetry.Event, 0, batchMost)
	for e := range events {
		batch = take(append(batch[:0], e), events)
		ls.handleTCPEvents(batch)
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
	// flows moved, and is reported only now.
	probes, late bool
	// repeats is how many of those probes there were.
	repeats int
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
func (ls *listener) handleTCPEvents(batch []telemetry.Event) {
	batch = slices.DeleteFunc(batch, func(e telemetry.Event) bool { return e.Kind == telemetry.Retransmit })
	if len(batch) == 0 {
		return
	}
	ls.members.Lock()
	defer ls.members.Unlock()
	now := ls.cfg.Now()
	known, troubles, asked := map[telemetry.Pair][]*pair{}, map[*pair]*trouble{}, 0
	for _, e := range batch {
		pairs, ok := known[e.Pair()]
		if !ok {
			pairs = ls.members.pairsOf(e.Pair())
			known[e.Pair()] = pairs
		}
		for _, p := range pairs {
			if troubles[p] == nil {
				troubles[p] = &trouble{}
			}
			p.translate(&e, &asked, now)
			ls.noteTCPEvent(p, e, troubles[p], now)
		}
	}
	for p, t := range troubles {
		ls.pairs.look(p, now)
		if t.late {
			ls.waker.wakeMoved(p, dataplane.All, now)
		}
		ls.pairs.judgeTCP(p, t, now)
	}
}

// noteTCPEvent notes an event of one of the pair's connections.
func (ls *listener) noteTCPEvent(p *pair, e telemetry.Event, t *trouble, now time.Time) {
	if e.Kind == telemetry.Delivered {
		if q := p.inquiries[ports{e.LocalPort, e.RemotePort}]; q != nil {
			q.delivered = ls.clock.at(e.At)
		}
		return
	}
	if e.Kind != telemetry.Timeout {
		if t.repeats++; t.repeats <= repeatsAtOnce && !ls.cfg.DryRun {
			ls.probed(p, e, now)
		}
		t.add(e)
		return
	}
	if p.stuck == nil {
		p.stuck = &kick.Stalled{}
	}
	ls.stats.unremembered += uint64(p.stuck.Remember(e, now))
	if !p.left.IsZero() && ls.clock.at(e.At).Before(p.left) {
		t.late = true
		return
	}
	t.add(e)
	if !ls.cfg.DryRun {
		ls.timedOut(p, e, now)
	}
}

// judgeTCP acts on what was told of the pair. A tail loss probe (RFC 8985 section 7)
// says that no acknowledgment came for two round trips: the earliest sign of silence
// there is.
func (pw *pairWatcher) judgeTCP(p *pair, t *trouble, now time.Time) {
	if t.timedOut {
		pw.timedOut(p, t, now)
	}
	for i := range p.routes {
		if t.probes && !p.lines[i].silence.Since.IsZero() {
			pw.suspect(p, i, now)
		}
	}
}

// timedOut suspects paths by data: a timeout of a connection, on a path of its own over
// which nothing has come in since packets went out, may say that the path has failed. The
// connection itself is asked whether data passes: see inquire.
func (pw *pairWatcher) timedOut(p *pair, t *trouble, now time.Time) {
	own, followed, err := p.flows()
	if err != nil {
		return // the peer has just gone
	}
	for i, r := range p.routes {
		ln := &p.lines[i]
		if t.on(r.Index, own, followed) && !ln.Down() &&
			ln.silence.Lasts(pw.params.Deaf+pw.pacer.late(ln.silence.Since, now), now) {
			pw.suspect(p, i, now)
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
