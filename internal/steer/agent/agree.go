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

// announce tells where the pair's own flows are.
func (a *Agent) announce(p *pair) {
	choices, err := p.local.plane.Choices(p.remote.UID)
	number, numberErr := p.local.plane.Number(p.remote.UID)
	if err != nil || numberErr != nil {
		return
	}
	n := notice{kind: noticeMoved, from: idOf(p.local.Pod), to: idOf(p.remote), names: a.dialect(), number: number}
	for b, c := range choices {
		n.choices[b] = noChoice
		for _, r := range p.routes {
			if r.Index == c.Path {
				n.choices[b] = uint8(indexOf(a.names, r.Network))
			}
		}
	}
	p.noticed = a.cfg.Now()
	a.wires.tell(p.host, n, "")
}

// remind is how often the other agent is told again where flows are that are not on
// the default network, or were lately: whatever happened to what was said, both ends
// agree again within that time.
const remind, lately = 500 * time.Millisecond, 10 * time.Second

// persists is for how long the other agent may have flows elsewhere than was said: it
// tells of the failure that it has seen at once.
const persists = 300 * time.Millisecond

// settle repeats an announcement until it is confirmed, and then now and then.
func (a *Agent) settle(p *pair, now time.Time) {
	if p.assigned != (decide.Assignment{Active: p.routes[0].Network}) {
		p.away = now
	}
	if p.unsettled && now.Sub(p.noticed) >= epoch || now.Sub(p.away) < lately && now.Sub(p.noticed) >= remind {
		a.announce(p)
	}
}

// believes is for how long the other agent's word of where its flows are is good.
const believes = dataplane.DefaultLease

// doubt has followed flows go home when the agent that decides about them has said
// nothing of them for long, though there is traffic: it may be dead, and nobody would
// see their path fail.
func (a *Agent) doubt(p *pair, now time.Time) {
	if a.cfg.DryRun || now.Sub(p.heardOf) < believes || now.Sub(p.resumed) < believes {
		return
	}
	if n, err := p.local.plane.Unfollow(p.remote.UID); err == nil && n > 0 {
		a.answersMoved(p)
		a.note(Event{Kind: EventPeer, Pair: p.name, To: p.routes[0].Network,
			Reason: fmt.Sprintf("the agent of %s has said nothing of its flows for %v: they are answered on the default network", p.host.name, believes)})
	}
}

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
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.noticesTaken++
	n.status = statusUnknown
	switch {
	case n.names != a.dialect(): // one of us has not read the cluster lately
	case n.kind == noticeFailed:
		n.status = a.handleFailure(n)
	default:
		if p := a.pairFor(n); p != nil {
			n.status, n.number = a.handlePairNotice(p, n)
		}
	}
	return n.encode()
}

// pairOf finds the pair by its ends' identities.
func (a *Agent) pairOf(local, remote podID) *pair {
	who, ok := a.elsewhere.identified(remote)
	if !ok {
		return nil
	}
	for _, l := range a.pods {
		if p := l.pairs[who.UID]; p != nil && idOf(l.Pod) == local {
			return p
		}
	}
	return nil
}

// pairFor finds the pair that a notice is about. An agent that asks for it to be opened
// has seen traffic of it.
func (a *Agent) pairFor(n notice) *pair {
	p := a.pairOf(n.to, n.from)
	if p != nil || n.kind != noticeOpen || a.cfg.DryRun {
		return p
	}
	for _, l := range a.pods {
		if remote, ok := a.elsewhere.identified(n.from); ok && idOf(l.Pod) == n.to {
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
		if c == noChoice || int(c) >= len(a.names) {
			continue
		}
		if r, ok := p.byNetwork(a.names[c]); ok {
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
		a.answersMoved(p)
		a.wake(p, dataplane.All, p.heardOf)
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
	p := a.pairOf(n.from, n.to)
	if p == nil || p.host != h {
		return
	}
	switch {
	case n.status == statusUnknown && n.kind == noticeOpen && !p.opened.IsZero():
		// The pod is another now, or its agent has lost it: native at once.
		p.opened = time.Time{}
		a.carryOut(p, decide.Decision{Kind: decide.Fallback, From: p.on().Network, To: p.routes[0].Network,
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
		a.wakeNow(p)
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
