package agent

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// datagrams has flows of datagrams steered that nobody answers, as telemetry and media are. No answer
// tells that they arrive, so the agents of both ends agree on each, and count: what the other end
// has got of what was sent.
type datagrams struct {
	*journal
	members *members
	teller  *teller
}

// asksMost bounds how many flows of a pod are asked about at a time.
const asksMost = 64

// ask asks the other agents to admit what a sweep of the pod's flows has found, and again, once for
// each pair, what has arrived of what is admitted.
func (dg *datagrams) ask(l *pod) {
	if dg.cfg.DryRun || l.DryRun {
		return
	}
	n, counted := 0, map[*pair]bool{}
	for _, f := range l.census.OneWay {
		p := l.pairs[f.UID]
		if p == nil || p.opened.IsZero() || f.Admitted && counted[p] || n == asksMost {
			continue
		}
		n++
		counted[p] = true
		dg.tell(p, f)
	}
}

// tell asks the other agent about a flow, and for its count of what came over the path that the
// pair's own flows are on.
func (dg *datagrams) tell(p *pair, f dataplane.OneWay) {
	at := p.on()
	sent, _, err := p.local.plane.Tallies(p.remote.UID, at.Index)
	if err != nil {
		return
	}
	p.counts.asking = arrival{network: at.Network, sent: sent.Packets, at: dg.cfg.Now()}
	n := dg.teller.about(p, noticeOneWay)
	n.network, n.number = dg.teller.number(at.Network), uint64(f.Local)<<16|uint64(f.Remote)
	dg.teller.tellFirst(p, n)
}

// answered takes the answer: the flow goes where the pair's choices say from now on.
func (dg *datagrams) answered(p *pair, n notice) {
	local, remote, came := uint16(n.number>>16), uint16(n.number), uint32(n.number>>32)
	if _, err := p.local.plane.AdmitOneWay(p.remote.UID, local, remote); err != nil {
		dg.fault(p.name, err)
		return
	}
	if i := p.routes.on(p.counts.asking.network); i >= 0 && dg.members.network(n.network) == p.counts.asking.network {
		p.counts.take(came)
	}
}

// handleOneWay admits a flow that has come over the default network, and says how many packets of
// the pair have come over the network in question.
func (re *respondent) handleOneWay(p *pair, n notice) (status, uint64) {
	remote, local := uint16(n.number>>16), uint16(n.number)
	ok, err := p.local.plane.AdmitOneWay(p.remote.UID, local, remote)
	r, known := p.routes.byNetwork(re.members.network(n.network))
	if err != nil || !ok || !known {
		return statusUnknown, n.number
	}
	_, came, err := p.local.plane.Tallies(p.remote.UID, r.Index)
	if err != nil {
		return statusUnknown, n.number
	}
	return statusDone, n.number&(1<<32-1) | came.Packets<<32
}

// arrival is what this end has sent over a network, and the other has got.
type arrival struct {
	network string
	sent    uint64
	came    uint32
	at      time.Time
}

// counts are the latest of a pair with flows of one way.
type counts struct {
	asking, last arrival
	// lost is the share of the packets between the last two that did not arrive.
	lost float64
}

// countedLeast is how many packets say something, and countedFor how long that holds.
const countedLeast, countedFor = 20, 5 * time.Second

// take takes what has come by the time of what was asked.
func (c *counts) take(came uint32) {
	now, was := c.asking, c.last
	now.came = came
	if was.network == now.network && now.sent-was.sent < countedLeast {
		return
	}
	c.last = now
	if c.lost = 0; was.network == now.network {
		c.lost = min(max(1-float64(came-was.came)/float64(now.sent-was.sent), 0), 1)
	}
}

// countedAway takes from what a path seems to carry of a pair without connections what did not
// arrive.
func (p *pair) countedAway(d *decide.Data, i int, now time.Time) {
	c := p.counts
	if p.conns > 0 || c.last.network == "" || c.last.network != p.routes[i].Network || now.Sub(c.last.at) > countedFor {
		return
	}
	const well = 0.01 // below that it may be what is on its way
	d.Goodput -= 8 * c.lost * p.lines[i].tx
	d.Retrans, d.AppLimited = c.lost, d.AppLimited && c.lost < well
}
