package agent

import (
	"fmt"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/stamp"
)

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
		if remote, ok := re.members.elsewhere.identified(n.from); ok && idOf(l.Pod) == n.to {
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
		return statusDone, takesDSCP | p.sending.encode()
	case noticeMute:
		return re.handleMute(p, n), n.number
	case noticeUnpassed:
		return re.handleUnpassed(p, n), n.number
	case noticeMoved:
		return re.handleMove(p, n)
	}
	return statusDone, n.number
}

// handleMove follows the pair's flows that the other pod has opened.
func (re *respondent) handleMove(p *pair, n notice) (status, uint64) {
	said := map[uint8]int{}
	for b, c := range n.choices {
		if c == noChoice || int(c) >= len(re.members.names) {
			continue
		}
		if r, ok := p.byNetwork(re.members.names[c]); ok {
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
	p.heardOf = re.cfg.Now()
	if heard > n.number {
		return statusStale, heard
	}
	after, err := p.local.plane.Followed(p.remote.UID)
	if err != nil {
		return statusUnknown, n.number
	}
	if after != before {
		re.mover.answersMoved(p)
		re.mover.waker.wake(p, dataplane.All, p.heardOf)
	}
	if slices.ContainsFunc(after[:], func(c dataplane.Choice) bool { return c.Diverted }) {
		return statusDiverted, heard
	}
	return statusDone, heard
}

// handleMute: a path that is mute at one end is so at both, and this end may have
// nothing to send. Echoes will tell when it is well again, so they must be known
// to pass at times.
func (re *respondent) handleMute(p *pair, n notice) status {
	if int(n.network) >= len(re.members.names) {
		return statusUnknown
	}
	network, now := re.members.names[n.network], re.cfg.Now()
	i := p.line(network)
	if i < 0 || !p.lines[i].Telling(now) {
		return statusUnknown
	}
	if p.lines[i].Signaled(now).Has(detect.Fail) {
		re.escape.leave(failure{pair: p, line: i, since: now, by: byPeer, reason: fmt.Sprintf(
			"this pair's packets do not pass over %s: the agent of %s says so", network, p.host.name)}, now)
	}
	return statusDone
}

// handleFailure: what the other end does not hear, this end need not send. Its
// sender is known by what it says, which is authentic, not by its address, which
// is not. Probes will tell when the path is well again.
func (re *respondent) handleFailure(n notice) status {
	if n.to != re.wires.self || int(n.network) >= len(re.members.names) {
		return statusUnknown
	}
	now, network := re.cfg.Now(), re.members.names[n.network]
	for _, h := range re.members.remote {
		bad := h.paths[network]
		if h.pod != n.from || bad == nil || len(h.paths) < 2 {
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

// handleUnpassed has buckets make a detour of which the other agent says that a connection
// in them, of a flow that this end has opened, gets through there alone.
func (re *respondent) handleUnpassed(p *pair, n notice) status {
	if int(n.network) >= len(re.members.names) {
		return statusUnknown
	}
	from, ok := p.byNetwork(re.members.names[n.network])
	if !ok {
		return statusUnknown
	}
	now := re.cfg.Now()
	for b, c := range n.choices {
		if c == noChoice || int(c) >= len(re.members.names) {
			continue
		}
		to, ok := p.byNetwork(re.members.names[c])
		if d := p.detours[uint8(b)]; !ok || to.Index == from.Index || d != nil && d.out {
			continue
		}
		d := p.detours.of(uint8(b))
		d.from, d.to, d.out = from.Index, to.Index, true
		d.bar.Raise(re.params, now)
	}
	re.mover.replace(p, now)
	return statusDone
}
