package agent

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/stamp"
)

// agreement has the other agents confirm what this one says of pairs.
type agreement struct {
	*journal
	members   *members
	wires     *wires
	teller    *teller
	entries   *entries
	mover     *mover
	datagrams *datagrams
	turns     turns
}

// acknowledged takes the answer to a notice of ours.
func (ag *agreement) acknowledged(h *remoteHost, value []byte) {
	n, err := decodeNotice(value)
	if err != nil || n.status == statusNone && n.kind != noticeReturn {
		return
	}
	p := ag.members.pairOf(n.from, n.to)
	if p == nil || p.host != h {
		return
	}
	switch {
	case n.status == statusUnknown && n.kind == noticeOpen && !p.opened.IsZero():
		// The pod is another now, or its agent has lost it: native at once.
		p.opened = time.Time{}
		ag.mover.carryOut(p, decide.Decision{Kind: decide.Fallback, From: p.on().Network, To: p.routes[0].Network,
			Buckets: decide.Buckets, Confidence: 1, Reason: "the other agent does not know the pair any more"}, byPeer, 0)
	case n.status == statusDone && n.kind == noticeOpen:
		if takes := n.number&takesDSCP != 0; takes != p.takesDSCP {
			p.takesDSCP, p.stale = takes, time.Time{}
		}
		p.takesRows = n.number&takesRows != 0
		p.consented(n.number, ag.cfg.Now())
		p.peerLimited = decodeShare(n.number)
		ag.openPair(p)
	case n.kind == noticeMoved:
		ag.confirmed(p, n)
	case n.kind == noticeReturn:
		ag.returns(p, n.status)
	case n.kind == noticeOneWay && n.status == statusDone:
		ag.datagrams.answered(p, n)
	}
}

// persists is for how long the other agent may have flows elsewhere than was said: it
// tells of the failure that it has seen at once.
const persists = 300 * time.Millisecond

// confirmed takes the answer to what was said of the pair's choices.
func (ag *agreement) confirmed(p *pair, n notice) {
	number, err := p.local.plane.Number(p.remote.UID)
	if err != nil {
		return
	}
	again := func() {
		ag.fault(p.name, p.local.plane.Renumber(p.remote.UID, max(number, n.number)))
		p.unsettled, p.noticed, p.diverted = true, time.Time{}, time.Time{}
	}
	switch {
	case n.status == statusStale && n.number > number:
		again() // it knows of a choice that this host has forgotten
	case n.number != number:
		return // of an earlier choice
	case n.status == statusDone:
		p.unsettled, p.diverted = false, time.Time{}
		ag.mover.waker.wakeNow(p)
	case n.status == statusDiverted:
		// It has seen a path fail that is well here, or is to be left in a moment.
		p.unsettled = true
		if now := ag.cfg.Now(); p.diverted.IsZero() {
			p.diverted = now
		} else if now.Sub(p.diverted) >= persists && !p.stranded() {
			again()
		}
	}
}

// renew is how often the other agent is to confirm a pair with traffic.
const renew = 5 * time.Second

// renewSoon is the same while it may tell what is not known yet: whether the senders of bulk that
// has just begun to come in have more, or where flows begin there.
const renewSoon = time.Second

// renewal is how long the other agent's latest confirmation does.
func (p *pair) renewal(now time.Time) time.Duration {
	switch {
	case p.opening.elsewhere() && p.opening.since.After(p.openSentAt):
		return 0 // it is to know that at once
	case !p.fresh.IsZero() && now.Sub(p.fresh) < renew, p.opening.where != dataplane.AtHome:
		return renewSoon
	}
	return renew
}

// open asks the other agent to take the pair's packets on every path. What it has
// confirmed before it is asked on one path first.
func (ag *agreement) open(p *pair, now time.Time) {
	if now.Sub(p.opened) < p.renewal(now) || now.Sub(p.openSentAt) < p.patience() {
		return
	}
	unanswered := p.openSentAt.After(p.opened)
	if !p.opened.IsZero() && now.Sub(p.opened) > 4*renew && unanswered {
		p.opened = time.Time{} // asked without an answer for long
	}
	first := !p.opened.IsZero() && !unanswered
	if !ag.turns.take(first, p.openTries) {
		return
	}
	p.openSentAt = now
	p.openTries++
	n := ag.mover.opens(p)
	if first {
		ag.teller.tellFirst(p, n)
	} else {
		ag.wires.tell(p.host, n, "")
	}
}

// turnsMost is how many pairs of each kind ask in one period. A host whose pods begin to
// speak with thousands at once has its loop for what cannot wait all the same: to ask takes
// some tens of microseconds for each path.
const turnsMost = 24

// turns are those that pairs have had in this period to ask the other agent: to be
// confirmed again, for the first times, and after others without an answer. None of these keeps the
// others from theirs.
type turns [3]int

func (t *turns) take(again bool, tries int) bool {
	kind := 2
	switch {
	case again:
		kind = 0
	case tries < 3:
		kind = 1
	}
	t[kind]++
	return t[kind] <= turnsMost
}

// patience is how long a pair waits for an answer before it asks again: an agent that
// does not know it yet may be about to, but one of hundreds of peers may have none.
func (p *pair) patience() time.Duration {
	switch {
	case p.openTries < 10:
		return 200 * time.Millisecond
	case p.openTries < 40:
		return time.Second
	}
	return renew
}

// openPair enters the paths, as the other end takes packets on them now. Until the data
// plane here has them too, the pair is not open.
func (ag *agreement) openPair(p *pair) {
	if !ag.cfg.DryRun {
		// Again with each confirmation: the next hops may have changed.
		ag.fault(p.name, ag.entries.setPeer(p, true))
		if !p.taken {
			return // it asks again
		}
	}
	was := p.opened
	p.opened, p.openTries = ag.cfg.Now(), 0
	if ag.cfg.DryRun || !was.IsZero() {
		return
	}
	ag.mover.stacks.refit(p)
	ag.note(Event{Kind: EventPeer, Pair: p.name, Reason: fmt.Sprintf("%s can use %d paths: the agent of %s has confirmed",
		p.name, len(p.routes), p.host.name)})
}

// respondent does what other agents' notices ask for. It is called by reflectors, and takes the
// lock.
type respondent struct {
	*journal
	members *members
	wires   *wires
	entries *entries
	mover   *mover
	escape  *escape
	params  *detect.Params
	stats   *counters
}

// handleNotice takes a notice from another agent, on a reflector's goroutine, and
// returns the answer.
func (re *respondent) handleNotice(t stamp.TLV) []byte {
	if t.Type != noticeType {
		return nil
	}
	n, err := decodeNotice(t.Value)
	if err != nil {
		return nil // another version: it sees its notice come back unanswered
	}
	re.members.Lock()
	defer re.members.Unlock()
	re.stats.noticesTaken++
	n.status = statusUnknown
	switch {
	case n.names != re.members.dialect(): // one of us has not read the cluster lately
	case n.kind == noticeFailed:
		n.status = re.handleFailure(n)
	default:
		if p := re.pairFor(n); p != nil {
			n.status, n.number = re.handlePairNotice(p, n)
		}
	}
	return n.encode()
}

// pairFor finds the pair that a notice is about. An agent that asks for it to be opened
// has seen traffic of it.
func (re *respondent) pairFor(n notice) *pair {
	p := re.members.pairOf(n.to, n.from)
	if p != nil || n.kind != noticeOpen || re.cfg.DryRun {
		return p
	}
	for _, l := range re.members.pods {
		remote, ok := re.members.elsewhere.identified(n.from)
		if ok && idBy(uidIn(l.Pod, remote.Addr().Is6())) == n.to {
			if p, err := re.entries.join(l, remote); err == nil {
				return p
			}
		}
	}
	return nil
}

// takesDSCP is in the number of an answer to noticeOpen, which has none of its own: this data
// plane takes steered packets of every DSCP that it steers itself. Earlier versions answer 0.
const takesDSCP = 1

// takesRows is in the same number: this data plane has two rows of buckets. Earlier versions
// would look for a flow of the second row in either.
const takesRows = 2

// A share of traffic is in the same number, in eight bits: 0 for one that is not known, as
// earlier versions answer, or 1 to 255 for 0 to 1.
const shareShift, shareSteps = 8, 254

func (s share) encode() uint64 {
	if !s.known {
		return 0
	}
	return (1 + uint64(math.Round(min(max(s.part, 0), 1)*shareSteps))) << shareShift
}

// decodeShare is 1 for a share that is not known: it makes nothing move.
func decodeShare(number uint64) float64 {
	v := number >> shareShift & 0xff
	if v == 0 {
		return 1
	}
	return float64(v-1) / shareSteps
}

// handlePairNotice does as a notice says, and answers with what to say and the number that is
// known.
func (re *respondent) handlePairNotice(p *pair, n notice) (status, uint64) {
	if re.cfg.DryRun {
		return statusUnknown, n.number // this data plane is not to be steered
	}
	switch n.kind {
	case noticeOpen:
		if err := re.entries.setPeer(p, true); err != nil {
			return statusUnknown, n.number
		}
		p.consented(n.number, re.cfg.Now())
		re.escape.opener.judge(p, re.cfg.Now())
		return statusDone, takesDSCP | takesRows | re.mover.consents(p) | p.sending.encode()
	case noticeMute:
		return re.handleMute(p, n), n.number
	case noticeUnpassed, noticeTried:
		return re.handleDetour(p, n), n.number
	case noticeMoved:
		return re.handleMove(p, n)
	case noticeReturn:
		return re.handleReturn(p), n.number
	case noticeOneWay:
		return re.handleOneWay(p, n)
	}
	return statusDone, n.number
}

// handleMove follows the pair's flows that the other pod has opened.
func (re *respondent) handleMove(p *pair, n notice) (status, uint64) {
	said := dataplane.Nothing()
	for b, c := range n.choices {
		if r, ok := p.routes.byNetwork(re.members.network(c)); ok {
			said[b] = int8(r.Index)
		}
	}
	before, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return statusUnknown, n.number
	}
	known, err := p.local.plane.Follow(p.remote.UID, n.number, said)
	if err != nil {
		return statusUnknown, n.number
	}
	p.followedAt = re.cfg.Now()
	if known > n.number {
		return statusStale, known
	}
	after, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return statusUnknown, n.number
	}
	if after != before {
		re.mover.answersMoved(p)
		re.mover.waker.wake(p, dataplane.All, p.followedAt)
	}
	if slices.ContainsFunc(after[:], func(c dataplane.Choice) bool { return c.Diverted }) {
		return statusDiverted, known
	}
	return statusDone, known
}

// handleMute: a path that is mute at one end is so at both, and this end may have
// nothing to send. Echoes will tell when it is well again, if they are known to pass at times;
// else it is tried again after a while.
func (re *respondent) handleMute(p *pair, n notice) status {
	network, now := re.members.network(n.network), re.cfg.Now()
	i := p.routes.on(network)
	if i < 0 {
		return statusUnknown
	}
	ln, f := &p.lines[i], failure{pair: p, line: i, since: now, by: byPeer, reason: fmt.Sprintf(
		"this pair's packets do not pass over %s: the agent of %s says so", network, p.host.name)}
	switch {
	case ln.Telling(now):
		if ln.Signaled(now).Has(detect.Fail) {
			re.escape.leave(f, now)
		}
	case ln.bar.Left(now) == 0:
		ln.bar.Raise(re.params, now)
		re.escape.leave(f, now)
	}
	return statusDone
}

// handleFailure: what the other end does not receive, this end need not send. Its
// sender is known by what it says, which is authentic, not by its address, which
// is not. Probes will tell when the path is well again.
func (re *respondent) handleFailure(n notice) status {
	now := re.cfg.Now()
	for _, h := range re.members.remote {
		bad := h.paths[re.members.network(n.network)]
		if n.to != re.wires.self || h.pod != n.from || bad == nil || len(h.paths) < 2 {
			continue
		}
		if bad.Signaled(now).Has(detect.Fail) {
			re.escape.leave(failure{path: bad, since: now, by: byPeer, reason: fmt.Sprintf(
				"%s to %s has failed: its agent says so", bad.network, h.name)}, now)
		}
		return statusDone
	}
	return statusUnknown
}
