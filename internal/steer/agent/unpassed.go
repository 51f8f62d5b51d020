package agent

// tellUnpassed tells the agent that decides about the flow's bucket that it does not pass.
func (a *Agent) tellUnpassed(p *pair, q *inquiry) {
	i, to := p.lineOf(q.From), p.lineOf(q.On)
	n := notice{kind: noticeUnpassed, from: idOf(p.local.Pod), to: idOf(p.remote), names: a.dialect(),
		network: uint8(indexOf(a.names, p.routes[i].Network))}
	for b := range n.choices {
		n.choices[b] = noChoice
	}
	n.choices[q.bucket] = uint8(indexOf(a.names, p.routes[to].Network))
	a.wires.tell(p.host, n, "")
}

// handleUnpassed has buckets make a detour of which the other agent says that a connection
// in them, of a flow that this end has opened, gets through there alone.
func (a *Agent) handleUnpassed(p *pair, n notice) status {
	if int(n.network) >= len(a.names) {
		return statusUnknown
	}
	from, ok := p.byNetwork(a.names[n.network])
	if !ok {
		return statusUnknown
	}
	now := a.cfg.Now()
	for b, c := range n.choices {
		if c == noChoice || int(c) >= len(a.names) {
			continue
		}
		to, ok := p.byNetwork(a.names[c])
		if d := p.detours[uint8(b)]; !ok || to.Index == from.Index || d != nil && d.out {
			continue
		}
		d := p.detours.of(uint8(b))
		d.from, d.to, d.out = from.Index, to.Index, true
		d.bar.Raise(&a.pairParams, now)
	}
	a.replace(p, now)
	return statusDone
}
