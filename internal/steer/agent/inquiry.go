package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/probe"
)

// Probes go between hosts: they pass where one pod's own attachment swallows its
// packets. So a pair whose path goes silent is asked itself, by ICMP echo between
// the two pods' addresses on that path, and on its others for a witness. The
// peer's kernel answers, so that a busy processor is not taken for a fault.

// inquiry is one pair's about one of its paths.
type inquiry struct {
	// begun is when it began, zero if none is under way; since when packets first
	// went unanswered.
	begun, since time.Time
	// asks counts the inquiry's own echoes.
	asks    int
	verdict probe.Verdict
	// ripe is when the verdict became that the path has failed.
	ripe time.Time
	// cleared is when the latest was found to be unfounded.
	cleared time.Time
	// shots are the latest echoes on the path, whoever asked.
	shots []probe.Shot
	seqs  []uint16
	// asked is when the latest echo went, and answered when one was last
	// answered: on a path where none ever is, silence means nothing.
	asked, answered time.Time
	// calm is how many packets had come over the path when it was last asked in calm.
	calm uint64
}

const (
	// calmly is how often the paths of pairs with traffic are asked while all is
	// well: whether echoes pass must be known before their silence can tell.
	calmly = 5 * time.Second
	// knownFor is how long it is known then.
	knownFor = 3 * calmly
	// deference is how long a pair's verdict waits for the hosts': if their whole
	// path has failed, all pairs leave it.
	deference = 4 * time.Millisecond
	// inconclusive ends an inquiry without verdict.
	inconclusive = time.Second
)

// openEchoer opens the pod's own socket for echoes.
func openEchoer(l *pod, now func() time.Time) (e *probe.Echoer, err error) {
	var fd int
	if err := netns.Do(l.Netns, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	}); err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	if e, err = probe.NewEchoer(fd, rand.Reader, now); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return e, nil
}

// telling reports whether silence of echoes on the path would mean something.
func (q *inquiry) telling(now time.Time) bool {
	return !q.answered.IsZero() && now.Sub(q.answered) < knownFor
}

func (l *pod) closeEchoer() error {
	if l.echoer == nil {
		return nil
	}
	e := l.echoer
	l.echoer = nil
	return e.Close()
}

// echo asks the other end of path i.
func (p *pair) echo(i int) {
	l, r, q := p.local, p.routes[i], &p.lines[i].inquiry
	if l.echoer == nil || !r.Local.Addr.Is4() || !r.Remote.Addr.Is4() {
		return
	}
	seq, at, err := l.echoer.Send(r.Local.Addr, r.Remote.Addr, l.plane.Index(r.Local.Dev))
	q.asked = at
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		q.answered = time.Time{} // refused here: nothing to be learnt by it
		return
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return // this machine's own trouble, such as a full table of neighbours
	}
	// Any other fault says what an echo without answer says.
	if len(q.shots) >= shotsKept {
		q.shots, q.seqs = q.shots[1:], q.seqs[1:]
	}
	q.shots, q.seqs = append(q.shots, probe.Shot{Sent: at}), append(q.seqs, seq)
	l.echoes[int(seq)%len(l.echoes)] = q
}

// hearEchoes takes the answers that have come to the pod, and tells up to when
// that is known.
func (l *pod) hearEchoes(now time.Time) time.Time {
	if l.echoer == nil {
		return now
	}
	at, err := l.echoer.Drain(func(e probe.Echo) {
		if q := l.echoes[int(e.Seq)%len(l.echoes)]; q != nil {
			q.hear(e)
		}
	})
	if err != nil || at.After(now) {
		return now
	}
	return at
}

func (q *inquiry) hear(e probe.Echo) {
	for i, seq := range q.seqs {
		if seq == e.Seq && q.shots[i].Answered.IsZero() {
			q.shots[i].Answered, q.answered = e.At, e.At
		}
	}
}

// usual is the round trip that a judgement may expect: the worst that is
// remembered, within patience, or else what half of them took.
func (q *inquiry) usual() time.Duration {
	var rtts []time.Duration
	for _, s := range q.shots {
		if !s.Answered.IsZero() {
			rtts = append(rtts, s.Answered.Sub(s.Sent))
		}
	}
	if len(rtts) == 0 {
		return 0
	}
	slices.Sort(rtts)
	return max(min(rtts[len(rtts)-1], patience), rtts[len(rtts)/2])
}

// expected is what a judgement may expect of echoes on path i: where its queue fills
// anew, as long as between the hosts.
func (p *pair) expected(i int, now time.Time) time.Duration {
	if hp := p.host.paths[p.routes[i].Network]; hp != nil && now.Sub(hp.back) < refills {
		return max(p.lines[i].usual(), hp.expected(now))
	}
	return p.lines[i].usual()
}

// passed reports whether an echo was answered that was sent at t or later.
func (q *inquiry) passed(t time.Time) bool {
	for _, s := range q.shots {
		if !s.Answered.IsZero() && !s.Sent.Before(t) {
			return true
		}
	}
	return false
}

// inquire begins to ask about a path that has gone silent, if that can tell
// something.
func (ln *line) inquire(now time.Time) bool {
	if !ln.begun.IsZero() || !ln.mute.IsZero() || now.Sub(ln.cleared) < again || !ln.telling(now) {
		return false
	}
	ln.begun, ln.since, ln.ripe, ln.verdict, ln.asks = now, ln.silent, time.Time{}, probe.Verdict{}, 0
	return true
}

// cameSince reports whether a packet of the pair came over the path after t.
func (ln *line) cameSince(t time.Time) bool { return ln.came.After(t) }

// end ends an inquiry; one that found nothing may not be taken up at once.
func (q *inquiry) end(now time.Time) { q.begun, q.ripe, q.cleared = time.Time{}, time.Time{}, now }

// supersede leaves the path to the hosts' verdict about it, which has come to what
// was suspected since then.
func (ln *line) supersede(since, now time.Time) {
	ln.end(now)
	if !ln.mute.Before(since) {
		ln.mute = time.Time{}
	}
}

// judgeAll follows up the inquiries. It reports whether any is under way.
func (a *Agent) judgeAll(now time.Time) (asking bool) {
	for _, p := range a.inquiring {
		for i := range p.lines {
			if !p.lines[i].begun.IsZero() {
				a.judge(p, i, now)
			}
		}
	}
	a.inquiring = slices.DeleteFunc(a.inquiring, func(p *pair) bool { return !p.asking() })
	return len(a.inquiring) > 0
}

// asking reports whether an inquiry about one of the pair's paths is under way.
// The agent lists the pairs with an inquiry.
func (p *pair) asking() bool {
	return slices.ContainsFunc(p.lines, func(ln line) bool { return !ln.begun.IsZero() })
}

// judge sends the echoes of an inquiry and judges. Only a verdict that the path
// is well ends it here.
func (a *Agent) judge(p *pair, i int, now time.Time) {
	ln := &p.lines[i]
	at := p.local.hearEchoes(now)
	if now.Sub(ln.asked) >= shotEvery && !ln.passed(ln.begun) {
		p.echo(i)
		ln.asks++
		// The witness need not know before the last of those that it takes.
		for n := range p.lines {
			if n != i && p.lines[n].mute.IsZero() && ln.asks >= rules().K {
				p.echo(n)
			}
		}
		if ln.asks > 1 {
			a.suspectHost(p, i, now)
		}
		at = p.local.hearEchoes(now)
	}
	s := probe.Suspicion{Start: ln.begun, Now: at, P99: p.expected(i, now), Late: a.late(ln.since, now), Shots: ln.shots}
	for n := range p.lines {
		if n != i && p.lines[n].mute.IsZero() {
			s.Witnesses = append(s.Witnesses,
				probe.Witness{Name: p.routes[n].Network, P99: p.lines[n].usual(), Shots: p.lines[n].shots})
		}
	}
	ln.verdict = rules().Judge(s)
	switch {
	case ln.verdict.State == probe.Alive, ln.cameSince(ln.begun), now.Sub(ln.begun) > inconclusive:
		ln.end(now)
	case ln.verdict.State != probe.Failed:
		ln.ripe = time.Time{}
	case ln.ripe.IsZero():
		ln.ripe = now
	}
}

// conclude acts on the verdicts, once it is clear that it is not the whole path
// between the hosts that has failed.
func (a *Agent) conclude(now time.Time) {
	for _, p := range a.inquiring {
		for i := range p.lines {
			ln := &p.lines[i]
			if ln.begun.IsZero() || ln.ripe.IsZero() {
				continue
			}
			hp := p.host.paths[p.routes[i].Network]
			switch {
			case hp != nil && !hp.failed.IsZero():
				ln.end(now) // every pair has left it
			case hp == nil || hp.suspected.IsZero() || now.Sub(ln.ripe) >= deference:
				reason := fmt.Sprintf("this pair's packets do not pass over %s, though the hosts' probes do: %d echoes in a row overdue, while %s answered a later one; silent for %v",
					p.routes[i].Network, ln.verdict.Overdue, ln.verdict.Witness, now.Sub(ln.since).Round(time.Millisecond))
				ln.end(now)
				a.mute(p, i, reason, ln.since, now, "policy")
				a.tell(p.host, notice{kind: noticeMute, from: idOf(p.local.Pod), to: idOf(p.remote),
					network: uint8(indexOf(a.names, p.routes[i].Network)), names: a.dialect()}, "")
			}
		}
	}
}

// mute makes a pair leave a path that does not carry its packets.
func (a *Agent) mute(p *pair, i int, reason string, since, now time.Time, by string) {
	p.lines[i].mute, p.lines[i].well = now, 0
	defer a.note(Event{Kind: EventSuspect, Pair: p.name, To: p.routes[i].Network, Detected: now.Sub(since), Reason: reason,
		By: by})
	a.stats.mutes++
	a.leave(p, i, now, now.Sub(since))
}

// contradicted compares the probes' verdict that a path has failed with what pairs
// know of it: their echoes pass, or who was silent has been heard. While an
// inquiry is undecided it waits.
func (a *Agent) contradicted(h *remoteHost, hp *hostPath, now time.Time) (no, wait bool) {
	const longest = 50 * time.Millisecond
	silent, passed := false, false
	for _, l := range a.pods {
		for _, p := range l.pairs {
			i := p.line(hp.network)
			if p.host != h || i < 0 {
				continue
			}
			ln := &p.lines[i]
			passed = passed || ln.passed(hp.suspected)
			silent = silent || !ln.silent.IsZero() && (now.Sub(ln.silent) >= silence || ln.silent.Equal(hp.since))
			wait = wait || !ln.begun.IsZero() && ln.ripe.IsZero() && now.Sub(hp.suspected) < longest
		}
	}
	return passed || !silent, wait
}

// line is the number of the pair's path on the network, -1 if it has none.
func (p *pair) line(network string) int {
	for i, r := range p.routes {
		if r.Network == network {
			return i
		}
	}
	return -1
}

// probePair asks a pair's paths while all is well, and those that are mute until
// they answer again.
func (a *Agent) probePair(p *pair, now time.Time) {
	for i := range p.lines {
		ln := &p.lines[i]
		last := len(ln.shots) - 1
		if !ln.mute.IsZero() {
			a.followMute(p, i, now)
			continue
		}
		if !ln.begun.IsZero() || now.Sub(ln.asked) < calmly || now.Sub(p.active) >= quiet || !a.leisure() {
			continue
		}
		if last >= 0 && ln.shots[last].Answered.IsZero() && ln.received.Packets != ln.calm {
			// Packets pass and echoes do not: somebody refuses them.
			ln.answered = time.Time{}
		}
		ln.calm = ln.received.Packets
		p.echo(i)
	}
}

// followMute asks a mute path until it has answered often enough in a row.
func (a *Agent) followMute(p *pair, i int, now time.Time) {
	ln := &p.lines[i]
	every := epoch
	if now.Sub(ln.mute) > time.Minute {
		every = time.Second
	}
	if now.Sub(ln.asked) < every-tolerated {
		return
	}
	if last := len(ln.shots) - 1; last >= 0 && ln.shots[last].Sent.After(ln.mute) {
		ln.well++
		if ln.shots[last].Answered.IsZero() {
			ln.well = 0
		}
	}
	if ln.well < wellAfter {
		p.echo(i)
		return
	}
	a.note(Event{Kind: EventCleared, Pair: p.name, To: p.routes[i].Network,
		Reason: fmt.Sprintf("%s carries %s again, after %v", p.routes[i].Network, p.name,
			now.Sub(ln.mute).Round(time.Millisecond))})
	ln.mute, ln.well = time.Time{}, 0
}
