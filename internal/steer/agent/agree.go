package agent

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/stamp"
)

// handleNotice takes a notice from another agent, on a reflector's goroutine, and
// returns the answer.
func (a *Agent) handleNotice(t stamp.TLV) []byte {
	if t.Type != noticeType {
		return nil
	}
	n, err := decodeNotice(t.Value)
	if err != nil {
		return nil // another version: it sees its notice come back unanswered
	}
	a.members.Lock()
	defer a.members.Unlock()
	a.stats.noticesTaken++
	n.status = statusUnknown
	switch {
	case n.names != a.members.dialect(): // one of us has not read the cluster lately
	case n.kind == noticeFailed:
		n.status = a.handleFailure(n)
	default:
		if p := a.pairFor(n); p != nil {
			n.status, n.number = a.handlePairNotice(p, n)
		}
	}
	return n.encode()
}

// pairFor finds the pair that a notice is about. An agent that asks for it to be opened
// has seen traffic of it.
func (a *Agent) pairFor(n notice) *pair {
	p := a.members.pairOf(n.to, n.from)
	if p != nil || n.kind != noticeOpen || a.cfg.DryRun {
		return p
	}
	for _, l := range a.members.pods {
		if remote, ok := a.members.elsewhere.identified(n.from); ok && idOf(l.Pod) == n.to {
			if p, err := a.join(l, remote); err == nil {
				return p
			}
		}
	}
	return nil
}

// takesDSCP is in the number of an answer to noticeOpen, which has none of its own: this data
// plane takes steered packets of every DSCP that it steers itself. Earlier versions answer 0.
const takesDSCP = 1

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
func (a *Agent) handlePairNotice(p *pair, n notice) (status, uint64) {
	if a.cfg.DryRun {
		return statusUnknown, n.number // this data plane is not to be steered
	}
	switch n.kind {
	case noticeOpen:
		if err := a.setPeer(p, true); err != nil {
			return statusUnknown, n.number
		}
		return statusDone, takesDSCP | p.sending.encode()
	case noticeMute:
		return a.handleMute(p, n), n.number
	case noticeUnpassed:
		return a.handleUnpassed(p, n), n.number
	case noticeMoved:
		return a.handleMove(p, n)
	}
	return statusDone, n.number
}

// handleMove follows the pair's flows that the other pod has opened.
func (a *Agent) handleMove(p *pair, n notice) (status, uint64) {
	said := map[uint8]int{}
	for b, c := range n.choices {
		if c == noChoice || int(c) >= len(a.members.names) {
			continue
		}
		if r, ok := p.byNetwork(a.members.names[c]); ok {
			said[uint8(b)] = r.Index
		}
	}
	before, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return statusUnknown, n.number
	}
	heard, err := p.local.plane.Follow(p.remote.UID, n.number, said)
	if err != nil {
		return statusUnknown, n.number
	}
	p.heardOf = a.cfg.Now()
	if heard > n.number {
		return statusStale, heard
	}
	after, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return statusUnknown, n.number
	}
	if after != before {
		a.mover.answersMoved(p)
		a.waker.wake(p, dataplane.All, p.heardOf)
	}
	if slices.ContainsFunc(after[:], func(c dataplane.Choice) bool { return c.Diverted }) {
		return statusDiverted, heard
	}
	return statusDone, heard
}

// acknowledged takes the answer to a notice of ours.
func (a *Agent) acknowledged(h *remoteHost, value []byte) {
	n, err := decodeNotice(value)
	if err != nil || n.status == statusNone {
		return
	}
	p := a.members.pairOf(n.from, n.to)
	if p == nil || p.host != h {
		return
	}
	switch {
	case n.status == statusUnknown && n.kind == noticeOpen && !p.opened.IsZero():
		// The pod is another now, or its agent has lost it: native at once.
		p.opened = time.Time{}
		a.mover.carryOut(p, decide.Decision{Kind: decide.Fallback, From: p.on().Network, To: p.routes[0].Network,
			Buckets: decide.Buckets, Confidence: 1, Reason: "the other agent does not know the pair any more"}, "peer", 0)
	case n.status == statusDone && n.kind == noticeOpen:
		if takes := n.number&takesDSCP != 0; takes != p.takesDSCP {
			p.takesDSCP, p.stale = takes, time.Time{}
		}
		p.peerLimited = decodeShare(n.number)
		a.openPair(p)
	case n.kind == noticeMoved:
		a.confirmed(p, n)
	}
}

// persists is for how long the other agent may have flows elsewhere than was said: it
// tells of the failure that it has seen at once.
const persists = 300 * time.Millisecond

// confirmed takes the answer to what was said of the pair's choices.
func (a *Agent) confirmed(p *pair, n notice) {
	number, err := p.local.plane.Number(p.remote.UID)
	if err != nil {
		return
	}
	again := func() {
		if err := p.local.plane.Renumber(p.remote.UID, max(number, n.number)); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		p.unsettled, p.noticed, p.diverted = true, time.Time{}, time.Time{}
	}
	switch {
	case n.status == statusStale && n.number > number:
		again() // it knows of a choice that this host has forgotten
	case n.number != number:
		return // of an earlier choice
	case n.status == statusDone:
		p.unsettled, p.diverted = false, time.Time{}
		a.waker.wakeNow(p)
	case n.status == statusDiverted:
		// It has seen a path fail that is well here, or is to be left in a moment.
		p.unsettled = true
		if now := a.cfg.Now(); p.diverted.IsZero() {
			p.diverted = now
		} else if now.Sub(p.diverted) >= persists && !p.stranded() {
			again()
		}
	}
}

// renew is how often the other agent is to confirm a pair with traffic.
const renew = 5 * time.Second

// open asks the other agent to take the pair's packets on every path. What it has
// confirmed before it is asked on one path first, as that will do nearly always.
func (a *Agent) open(p *pair, now time.Time) {
	if now.Sub(p.opened) < renew || now.Sub(p.asked) < p.patience() {
		return
	}
	unanswered := p.asked.After(p.opened)
	if !p.opened.IsZero() && now.Sub(p.opened) > 4*renew && unanswered {
		p.opened = time.Time{} // asked without an answer for long
	}
	hp, first := p.host.paths[p.on().Network], !p.opened.IsZero() && !unanswered
	if !a.turns.take(first, p.asks) {
		return
	}
	p.asked = now
	p.asks++
	n := notice{kind: noticeOpen, from: idOf(p.local.Pod), to: idOf(p.remote), names: a.members.dialect()}
	if first && hp != nil && !hp.Down() {
		a.wires.tellOver(hp, n)
		return
	}
	a.wires.tell(p.host, n, "")
}

// turnsMost is how many pairs of each kind ask in one period. A host whose pods begin to
// speak with thousands at once has its loop for what cannot wait all the same: to ask takes
// some tens of microseconds for each path.
const turnsMost = 24

// turns are those that pairs have had in this period to ask the other agent: to be
// confirmed again, for the first times, and after others without an answer. None of these keeps the
// others from theirs.
type turns [3]int

func (t *turns) take(again bool, asks int) bool {
	kind := 2
	switch {
	case again:
		kind = 0
	case asks < 3:
		kind = 1
	}
	t[kind]++
	return t[kind] <= turnsMost
}

// patience is how long a pair waits for an answer before it asks again: an agent that
// does not know it yet may be about to, but one of hundreds of peers may have none.
func (p *pair) patience() time.Duration {
	switch {
	case p.asks < 10:
		return 200 * time.Millisecond
	case p.asks < 40:
		return time.Second
	}
	return renew
}

// openPair enters the paths, as the other end takes packets on them now. Until the data
// plane here has them too, the pair is not open.
func (a *Agent) openPair(p *pair) {
	if !a.cfg.DryRun {
		// Again with each confirmation: the next hops may have changed.
		if err := a.setPeer(p, true); err != nil {
			a.warn("%s: %v", p.name, err)
		}
		if !p.taken {
			return // it asks again
		}
	}
	was := p.opened
	p.opened, p.asks = a.cfg.Now(), 0
	if a.cfg.DryRun || !was.IsZero() {
		return
	}
	a.stacks.refit(p)
	a.note(Event{Kind: EventPeer, Pair: p.name, Reason: fmt.Sprintf("%s can use %d paths: the agent of %s has confirmed",
		p.name, len(p.routes), p.host.name)})
}
