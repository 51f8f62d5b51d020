package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/topo"
)

// Probes go between hosts: they pass where one pod's own attachment swallows its
// packets. So a pair whose path goes silent is asked itself, by ICMP echo between
// the two pods' addresses on that path, and on its others for a witness. The
// peer's kernel answers, so that a busy processor is not taken for a fault.

// calmly is how often the paths of pairs with traffic are asked while all is
// well: whether echoes pass must be known before their silence can tell.
const calmly = 5 * time.Second

// asker asks peers from the pod's own addresses of a family; its Echoer is nil where there
// can be none. echoes are by sequence number whose they are.
type asker struct {
	*probe.Echoer
	echoes [probe.EchoesKept]echoTarget
}

// openEchoers opens the pod's own sockets for echoes, of each family that it has.
func (l *pod) openEchoers(now func() time.Time) error {
	var errs []error
	for v6 := range l.askers {
		if !l.speaks(v6 == 1) {
			continue
		}
		e, err := openEchoer(l.Netns, v6 == 1, now)
		l.askers[v6].Echoer = e
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// speaks reports whether the pod has an address of the family on a network.
func (l *pod) speaks(v6 bool) bool {
	return slices.ContainsFunc(l.Attachments, func(at topo.Attachment) bool {
		return at.Addr.Is6() == v6 && at.Addr.IsValid() || v6 && at.Addr6.IsValid()
	})
}

func openEchoer(ns string, v6 bool, now func() time.Time) (e *probe.Echoer, err error) {
	var fd int
	if err := netns.Do(ns, func() (err error) {
		fd, err = probe.Socket(v6)
		return err
	}); err != nil {
		return nil, err
	}
	if e, err = probe.NewEchoer(fd, v6, rand.Reader, now); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return e, nil
}

// asker is that of a family.
func (l *pod) asker(v6 bool) *asker {
	if v6 {
		return &l.askers[1]
	}
	return &l.askers[0]
}

func (l *pod) closeEchoers() error {
	var errs []error
	for i := range l.askers {
		if e := l.askers[i].Echoer; e != nil {
			l.askers[i].Echoer = nil
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// echoTarget is the pair to whose other end an echo went, and on which of its paths.
type echoTarget struct {
	pair *pair
	line int
}

// echo asks the other end of path i.
func (p *pair) echo(i int) {
	l, r, ln := p.local, p.routes[i], &p.lines[i]
	from := l.asker(r.Local.Addr.Is6())
	if from.Echoer == nil {
		return
	}
	seq, at, err := from.Send(r.Local.Addr, r.Remote.Addr, l.plane.Index(r.Local.Dev))
	ln.echoedAt = at
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		ln.Refused() // here: nothing to be learnt by it
		return
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return // this machine's own trouble, such as a full table of neighbours
	}
	// Any other fault says what an echo without answer says.
	ln.Sent(uint32(seq), at)
	from.echoes[int(seq)%len(from.echoes)] = echoTarget{p, i}
}

// handleEchoes takes the answers that have come to the pod.
func (pw *pairWatcher) handleEchoes(l *pod) {
	for i := range l.askers {
		if l.askers[i].Echoer != nil {
			pw.drainEchoes(&l.askers[i])
		}
	}
}

func (pw *pairWatcher) drainEchoes(from *asker) {
	// A socket that cannot be read says what echoes without answer say.
	_, _ = from.Drain(func(e probe.Echo) {
		if q := from.echoes[int(e.Seq)%len(from.echoes)]; q.pair != nil {
			ln := &q.pair.lines[q.line]
			since := ln.Since()
			do := ln.Answer(detect.Shot{Seq: uint32(e.Seq), Sent: e.SentAt, Answered: e.At}, false)
			if network := q.pair.routes[q.line].Network; do.Has(detect.Recover) {
				pw.note(Event{Kind: EventCleared, Pair: q.pair.name, To: network, Reason: fmt.Sprintf(
					"%s carries %s again, after %v", network, q.pair.name, e.At.Sub(since).Round(time.Millisecond))})
			}
		}
	})
}

// expected is the round trip that a judgement may expect of echoes on path i: as long as between the hosts, in
// whose queue they are, or as that of the pair's own bulk, which has a queue to itself where the rate of pods is
// limited (as by the CNI plugin bandwidth).
func (p *pair) expected(i int, now time.Time) time.Duration {
	ln := &p.lines[i]
	usual := ln.Usual(ln.Trips())
	if p.gapOn(i, true, now) > 0 {
		usual = max(usual, ln.Queued(ln.trip(now)))
	}
	if hp := p.host.paths[p.routes[i].Network]; hp != nil {
		return max(usual, hp.expected(now))
	}
	return usual
}

// judge follows up what pairs suspect. It reports whether any does.
func (pw *pairWatcher) judge(now time.Time) (asking bool) {
	for _, p := range pw.suspecting {
		pw.handleEchoes(p.local)
		for i := range p.lines {
			if p.lines[i].Suspected() {
				e := pw.evidence(p, i, now)
				pw.ask(p, i, p.lines[i].Tick(now, e), now)
				if p.lines[i].Compares(e.Expected, now) {
					pw.hosts.compare(p.host.paths[p.routes[i].Network], now)
				}
			}
		}
	}
	pw.suspecting = slices.DeleteFunc(pw.suspecting, func(p *pair) bool { return !p.lines.suspected() })
	return len(pw.suspecting) > 0
}

// evidence is what is known of a path that the pair suspects. Answers were read after now.
func (pw *pairWatcher) evidence(p *pair, i int, now time.Time) detect.Evidence {
	ln := &p.lines[i]
	e := detect.Evidence{Until: now, Expected: p.expected(i, now), Late: pw.pacer.late(ln.Silent(), now),
		Came: ln.silence.Came, Next: ln.silence.Came.Add(p.gapOn(i, true, now))}
	for n := range p.lines {
		if other := &p.lines[n]; n != i && !other.Down() {
			worst, median := other.Trips()
			if hp := p.host.paths[p.routes[n].Network]; hp != nil {
				median = max(median, hp.rtt()) // queues fill between two echoes in calm
			}
			e.Witnesses = append(e.Witnesses, other.Testimony(p.routes[n].Network, worst, median))
		}
	}
	return e
}

// ask asks as an event on the pair's path i calls for.
func (pw *pairWatcher) ask(p *pair, i int, do detect.Action, now time.Time) {
	if do.Has(detect.Ask) {
		p.echo(i)
	}
	for n := range p.lines {
		if do.Has(detect.AskOthers) && n != i && !p.lines[n].Down() {
			p.echo(n)
		}
	}
	if do.Has(detect.AskHosts) {
		pw.hosts.suspect(p.host.paths[p.routes[i].Network], p.lines[i].silence.Since, now)
	}
}

// conclude returns the paths that have failed for a pair, once it is clear that it is not the
// whole path between the hosts that has: that one all pairs leave.
func (pw *pairWatcher) conclude(now time.Time) (failed []failure) {
	for _, p := range pw.suspecting {
		for i := range p.lines {
			ln, network := &p.lines[i], p.routes[i].Network
			if ln.State() != detect.Confirming {
				continue // nobody is asked about it
			}
			o, why := pw.opinion(p, i, now)
			if !ln.Confirm(now, o).Has(detect.Fail) {
				continue
			}
			failed = append(failed, failure{pair: p, line: i, since: ln.Silent(), by: byPolicy, reason: fmt.Sprintf(
				"this pair's packets do not pass over %s, %s: %v; silent for %v", network, why, ln.Verdict(),
				now.Sub(ln.Silent()).Round(time.Millisecond))})
		}
	}
	return failed
}

// opinion is what the hosts know of a path that fails for a pair, in words too unless they deny it. Where some of
// their probes pass, and not so many that the pair's echoes would have, it waits.
func (pw *pairWatcher) opinion(p *pair, i int, now time.Time) (o detect.Opinion, why string) {
	hp, ln := p.host.paths[p.routes[i].Network], &p.lines[i]
	if hp == nil {
		return detect.Agrees, "where its host is not probed"
	}
	switch {
	case hp.Down():
		return detect.Denies, ""
	case ln.Alone(&hp.Path, p.expected(i, now), now):
		return detect.Agrees, "though the hosts' probes do"
	}
	a := pw.members.arrivals(hp, now)
	switch came, next := a.but(p); {
	case hp.Passed(ln.Verdict().Since):
		return detect.Passing, "though some of the hosts' probes do"
	case came.After(ln.Arose()):
		return detect.Passing, "though packets of others do"
	case now.Before(next):
		return detect.Passing, "and whether packets of others do is not clear yet"
	case hp.Suspected():
		return detect.Undecided, "and whether the hosts' probes do is not clear yet"
	}
	return detect.Agrees, "and the hosts' probes tell nothing of it"
}

// probePair asks a pair's paths while all is well, and those that have failed for it
// until they answer again.
func (pw *pairWatcher) probePair(p *pair, now time.Time) {
	for i := range p.lines {
		ln := &p.lines[i]
		if ln.Down() {
			p.followUp(i, now)
			continue
		}
		if ln.Suspected() || now.Sub(ln.echoedAt) < calmly || now.Sub(p.active) >= quiet || !pw.leisure.take() {
			continue
		}
		if ln.Unanswered() && ln.received.Packets != ln.calm {
			ln.Refused() // packets pass and echoes do not
		}
		ln.calm = ln.received.Packets
		p.echo(i)
	}
}

// followUp asks a path that has failed for the pair, unless chase has just now.
func (p *pair) followUp(i int, now time.Time) {
	ln := &p.lines[i]
	every := epoch
	if now.Sub(ln.Since()) > chasedFor {
		every = time.Second
	}
	if now.Sub(ln.echoedAt) < every-tolerated {
		return
	}
	p.echo(i)
}
