package decide

// offer is what a network gives in a phase.
type offer struct {
	// carries is its rate, without the part that others take.
	carries, others float64
	// lost is the share of packets that it loses, one way.
	lost float64
	// saves is the rate at which it spends what it has saved up; 0 where it saves nothing.
	saves float64
	// dead: nothing passes; refused: probes alone do; choked: the way back is.
	dead, refused, choked bool
}

// offers is what a network gives now.
func (p Phase) offers(n SimNetwork) (o offer) {
	o.carries = n.at(p.Load.Connections)
	for _, i := range p.Impairments {
		switch {
		case i.Network != n.Name:
		case i.dead():
			o.dead = true
		case i.Fault == RateLimit:
			o.carries *= i.Factor
		case i.Fault == Credit:
			o.carries, o.saves = o.carries*i.Factor, o.carries
		case i.Fault == Choked:
			o.carries *= i.Factor
			o.choked = true
		case i.Fault == Competing:
			o.carries *= 1 - i.Factor
			o.others = i.Factor
		case i.Fault == Loses:
			o.lost = i.Factor
		case i.Fault == Refused:
			o.refused = true
		}
	}
	if o.lost > 0 {
		o.carries = min(o.carries, float64(max(p.Load.Connections, 1))*lossy(o.lost, n.rtt(o.others)))
	}
	if o.dead || o.refused {
		o.carries = 0
	}
	return o
}

// held is the network as packets that are held up find it.
func (p Phase) held(n SimNetwork) SimNetwork {
	for _, i := range p.Impairments {
		if i.Network == n.Name && i.Fault == Delay {
			n.RTT += 2 * i.Factor
		}
	}
	return n
}

// rtt is a network's round trip without the pair's own load: competing load
// queues as in an M/M/1 system.
func (n SimNetwork) rtt(others float64) float64 { return n.RTT * (1 + 3*others/(1-others)) }

// spend is what a network that is used carries for a period above its rate in the long run; one that is not saves up.
func (w *world) spend(n SimNetwork, o offer, used bool) (more float64) {
	if o.saves == 0 {
		w.saved[n.Name] = 0
		return 0
	}
	seconds := Period.Seconds()
	if !used {
		w.saved[n.Name] = min(w.saved[n.Name]+o.carries*seconds, o.carries)
		return 0
	}
	more = min(o.saves-o.carries, w.saved[n.Name]/seconds)
	w.saved[n.Name] -= more * seconds
	return more
}
