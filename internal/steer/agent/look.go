package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// polled is what a turn of the loop looks at first of a path that carries a pair's
// packets. Where nothing was sent nothing can fall silent, and most turns find that
// of most paths. So it is kept apart from what else is known of them: the memory of
// fifty pairs is not in the processor's caches when a turn begins, and fetching it
// would be most of what a turn costs.
type polled struct {
	pair  *pair
	line  int
	meter dataplane.Meter
	// sent is the packets of the latest look, and open that some of them were not
	// answered: time alone can then bring news.
	sent uint64
	open bool
}

// pairWatcher watches what becomes of pairs' packets.
type pairWatcher struct {
	*journal
	members *members
	hosts   *hostWatcher
	pacer   *pacer
	leisure *leisure
	clock   clock
	stats   *counters
	params  *detect.Params
	agenda  *agenda
	// polled are at the lines that are looked at all the time, as of these changes of the
	// members; suspecting are the pairs that suspect a path of theirs.
	polled     []polled
	changes    int
	suspecting []*pair
	// chased are the lines that failed of late, of pairs with traffic.
	chased []failedLine
}

// poll looks at the lines of which there may be something new. It returns when to look again.
func (pw *pairWatcher) poll(now time.Time) time.Duration {
	if pw.changes != pw.members.changes {
		pw.rewatch(now)
	}
	next := idleTick
	for n := range pw.polled {
		g := &pw.polled[n]
		if !g.open && g.meter.Sent() == g.sent {
			next = min(next, slowTick)
			continue
		}
		next = min(next, pw.lookAt(g.pair, g.line, now))
		pw.polled[n].note()
	}
	return next
}

// note keeps what the latest look at the line found.
func (g *polled) note() {
	ln := &g.pair.lines[g.line]
	g.sent, g.open = ln.sent.Packets, !ln.silence.Since.IsZero()
}

// attend makes watch look at the pair's lines that had packets lately. For the
// others each evidence is often enough.
func (pw *pairWatcher) attend(p *pair, now time.Time) {
	for i := range p.lines {
		ln := &p.lines[i]
		if ln.attended || now.Sub(ln.used) >= time.Second {
			continue
		}
		m, err := p.local.plane.Meter(p.remote.UID, p.routes[i].Index)
		if err != nil {
			return // the peer was just removed
		}
		ln.attended = true
		g := polled{pair: p, line: i, meter: m}
		g.note()
		pw.polled = append(pw.polled, g)
	}
}

// rewatch finds what watch is to look at: lines of pairs with traffic of late, and those that have failed. It
// forgets the suspicions of those that are gone.
func (pw *pairWatcher) rewatch(now time.Time) {
	pw.changes = pw.members.changes
	pw.suspecting = slices.DeleteFunc(pw.suspecting, func(p *pair) bool { return !pw.members.knows(p) })
	for _, g := range pw.polled {
		g.pair.lines[g.line].attended = false
	}
	clear(pw.polled)
	pw.polled, pw.chased = pw.polled[:0], pw.chased[:0]
	for p := range pw.members.pairs() {
		if now.Sub(p.active) < quiet {
			pw.attend(p, now)
		}
		for i := range p.lines {
			if p.chased(i, now) {
				pw.chased = append(pw.chased, failedLine{p, i})
			}
		}
	}
}

// catchUp looks at all paths of the pairs with hosts to which a path is suspected, also those without packets of
// late: what has just come there passes, and fills the queue that probes wait in.
func (pw *pairWatcher) catchUp(now time.Time) {
	if len(pw.hosts.suspects)+len(pw.suspecting) == 0 {
		return // as in nearly all turns
	}
	suspected := map[*remoteHost]bool{}
	for hp := range pw.hosts.suspects {
		suspected[hp.host] = true
	}
	for _, p := range pw.suspecting {
		suspected[p.host] = true
	}
	for p := range pw.members.pairs() {
		if suspected[p.host] {
			pw.look(p, now)
			pw.attend(p, now)
		}
	}
}

// look reads a pair's counters, on all paths.
func (pw *pairWatcher) look(p *pair, now time.Time) {
	for i := range p.lines {
		pw.lookAt(p, i, now)
	}
}

// lookAt reads the pair's counters on path i, and suspects it if it went silent. It
// returns when to look again.
func (pw *pairWatcher) lookAt(p *pair, i int, now time.Time) time.Duration {
	ln, r := &p.lines[i], &p.routes[i]
	sent, received, err := p.local.plane.Tallies(p.remote.UID, r.Index)
	if err != nil {
		return slowTick // the peer was just removed
	}
	tx, rx := sent.Packets != ln.sent.Packets, received.Packets != ln.received.Packets
	stream := sent.Packets-ln.sent.Packets >= streaming
	ln.sent, ln.received = sent, received
	if tx || rx {
		if now.Sub(p.active) > time.Second {
			p.resumed = now
		}
		pw.members.woken = pw.members.woken || p.host.cold(now)
		p.active, p.host.used = now, now
		if hp := p.host.paths[r.Network]; hp != nil {
			hp.busy = now
		}
		p.use(i, now)
	}
	ln.silence.Counted(detect.Count{Sent: tx, Received: rx, LastSent: pw.clock.at(sent.Last),
		LastReceived: pw.clock.at(received.Last)}, now)
	// While this loop was late it did not listen.
	if least := pw.params.Silence; ln.silence.Lasts(least, now) &&
		ln.silence.Lasts(least+pw.pacer.late(ln.silence.Since, now), now) {
		pw.suspect(p, i, now)
	}
	return ln.lookAgain(pw.params.Silence, now, stream)
}

// use notes that packets go over path i.
func (p *pair) use(i int, now time.Time) {
	ln := &p.lines[i]
	idle := now.Sub(ln.used)
	if hp := p.host.paths[p.routes[i].Network]; hp != nil {
		hp.Used(idle, now)
	}
	ln.Used(idle, now)
	ln.used = now
}

// streaming is how many packets between two looks make a stream.
const streaming = 4

// lookAgain is when to look at the line again. A packet that goes alone is dated by
// the data plane, so its silence is found when it is due if the line is looked at
// before, and at the latest with the next look. Of a stream only the latest packet is dated: its silence is
// counted from a look on, so looks are closer. Silence that was found to mean
// nothing goes on.
func (ln *line) lookAgain(suspicious time.Duration, now time.Time, stream bool) time.Duration {
	switch since := ln.silence.Since; {
	case stream, ln.silence.Lasts(suspicious, now):
		return fastTick
	case !since.IsZero():
		return max(suspicious-now.Sub(since), suspectTick)
	}
	return slowTick
}

// hasLeft reports whether all the pair's flows have left path i since its silence began, or so long before that:
// the answers come where they are now. What cannot be moved and still goes there begins another silence.
func (p *pair) hasLeft(i int, before time.Duration) bool {
	if p.lines[i].silence.Since.After(p.left.Add(before)) {
		return false
	}
	own, followed, err := p.flows()
	there := func(c dataplane.Choice) bool { return c.Path == p.routes[i].Index }
	return err == nil && !slices.ContainsFunc(own[:], there) && !slices.ContainsFunc(followed[:], there)
}

// suspect takes up that packets go out over path i of the pair and none come in.
// Where echoes can tell, one comes first: an application that is slow to answer
// looks no different, and is far more common. The hosts are asked if that is not
// answered either.
func (pw *pairWatcher) suspect(p *pair, i int, now time.Time) {
	ln, hp := &p.lines[i], p.host.paths[p.routes[i].Network]
	if hp == nil || hp.Down() {
		return
	}
	if ln.silence.Lasts(quiet, now) || p.hasLeft(i, pw.params.Silence) { // no evidence: nothing goes there any more
		ln.silence.Since = time.Time{}
		return
	}
	if ln.Telling(now) {
		if do := ln.Suspect(ln.silence.Since, now); do != 0 {
			if !slices.Contains(pw.suspecting, p) {
				pw.suspecting = append(pw.suspecting, p)
			}
			pw.stats.suspicions++
			pw.agenda.add(p, ln.silence.Since.Add(pw.params.AckWithin+asOne), now)
			pw.pacer.soon(suspectTick)
			pw.ask(p, i, do, now)
		}
	}
	if !ln.Telling(now) {
		pw.hosts.suspect(hp, ln.silence.Since, now)
	}
}
