package agent

// handleUnpassed has buckets make a detour of which the other agent says that a connection
// in them, of a flow that this end has opened, gets through there alone.
func (a *Agent) handleUnpassed(p *pair, n notice) status {
	if int(n.network) >= len(a.members.names) {
		return statusUnknown
	}
	from, ok := p.byNetwork(a.members.names[n.network])
	if !ok {
		return statusUnknown
	}
	now := a.cfg.Now()
	for b, c := range n.choices {
		if c == noChoice || int(c) >= len(a.members.names) {
			continue
		}
		to, ok := p.byNetwork(a.members.names[c])
		if d := p.detours[uint8(b)]; !ok || to.Index == from.Index || d != nil && d.out {
			continue
		}
		d := p.detours.of(uint8(b))
		d.from, d.to, d.out = from.Index, to.Index, true
		d.bar.Raise(&a.pairParams, now)
	}
	a.mover.replace(p, now)
	return statusDone
}
