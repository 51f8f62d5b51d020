package agent

import (
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// acknowledged takes the answer to a notice of ours.
func (ag *agreement) acknowledged(h *remoteHost, value []byte) {
	n, err := decodeNotice(value)
	if err != nil || n.status == statusNone {
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
			Buckets: decide.Buckets, Confidence: 1, Reason: "the other agent does not know the pair any more"}, "peer", 0)
	case n.status == statusDone && n.kind == noticeOpen:
		if takes := n.number&takesDSCP != 0; takes != p.takesDSCP {
			p.takesDSCP, p.stale = takes, time.Time{}
		}
		p.peerLimited = decodeShare(n.number)
		ag.openPair(p)
	case n.kind == noticeMoved:
		ag.confirmed(p, n)
	}
}

// agreement has the other agents confirm what this one says of pairs.
type agreement struct {
	*journal
	members *members
	wires   *wires
	entries *entries
	mover   *mover
	turns   turns
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
		if err := p.local.plane.Renumber(p.remote.UID, max(number, n.number)); err != nil {
			ag.warn("%s: %v", p.name, err)
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

// open asks the other agent to take the pair's packets on every path. What it has
// confirmed before it is asked on one path first, as that will do nearly always.
func (ag *agreement) open(p *pair, now time.Time) {
	if now.Sub(p.opened) < renew || now.Sub(p.asked) < p.patience() {
		return
	}
	unanswered := p.asked.After(p.opened)
	if !p.opened.IsZero() && now.Sub(p.opened) > 4*renew && unanswered {
		p.opened = time.Time{} // asked without an answer for long
	}
	hp, first := p.host.paths[p.on().Network], !p.opened.IsZero() && !unanswered
	if !ag.turns.take(first, p.asks) {
		return
	}
	p.asked = now
	p.asks++
	n := notice{kind: noticeOpen, from: idOf(p.local.Pod), to: idOf(p.remote), names: ag.members.dialect()}
	if first && hp != nil && !hp.Down() {
		ag.wires.tellOver(hp, n)
		return
	}
	ag.wires.tell(p.host, n, "")
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
func (ag *agreement) openPair(p *pair) {
	if !ag.cfg.DryRun {
		// Again with each confirmation: the next hops may have changed.
		if err := ag.entries.setPeer(p, true); err != nil {
			ag.warn("%s: %v", p.name, err)
		}
		if !p.taken {
			return // it asks again
		}
	}
	was := p.opened
	p.opened, p.asks = ag.cfg.Now(), 0
	if ag.cfg.DryRun || !was.IsZero() {
		return
	}
	ag.mover.stacks.refit(p)
	ag.note(Event{Kind: EventPeer, Pair: p.name, Reason: fmt.Sprintf("%s can use %d paths: the agent of %s has confirmed",
		p.name, len(p.routes), p.host.name)})
}
