package decide

import (
	"math/rand/v2"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// rates is what something gives on each network.
type rates map[string]float64

// sum adds them up, in the networks' order and not the map's.
func (r rates) sum(networks []SimNetwork) (sum float64) {
	for _, n := range networks {
		sum += r[n.Name]
	}
	return sum
}

// flows are how many of the connections are on each network. Of a hashed schedule they have
// places by accident, once for all, over which they are spread as agents do while all are on one network; else each
// network has its share of them, and a part of a flow is none.
func (w *world) flows(a Assignment, connections int) rates {
	out := rates{}
	if !w.s.Hashed {
		for _, n := range w.s.Networks {
			if f := a.Share(n.Name) * float64(connections); f >= 0.5 {
				out[n.Name] = f
			}
		}
		return out
	}
	for len(w.places) < connections {
		i := uint64(len(w.places))
		w.places = append(w.places, rand.New(rand.NewPCG(w.s.Seed, i)).IntN(flow.Width))
	}
	if a.Canary == "" && a.With.None() {
		var counts [flow.Rows][flow.Width]int
		for _, at := range w.places[:connections] {
			counts[0][at]++
		}
		w.ranks = flow.Spread(counts)
	}
	for _, at := range w.places[:connections] {
		out[a.On(int(w.ranks[at]), flow.Width)]++
	}
	return out
}

// given is what the networks give the flows of an assignment, all at once and without noise.
func (w *world) given(p Phase, a Assignment) rates {
	out, flows := rates{}, w.flows(a, p.Load.Connections)
	for _, n := range w.s.Networks {
		n = p.held(n)
		if f := flows[n.Name]; f > 0 && !p.Pause {
			o := p.offers(n)
			out[n.Name] = o.carries
			if o.lost > 0 {
				out[n.Name] = min(o.carries, f*lossy(o.lost, n.rtt(o.others)))
			}
			if p.Load.Offered > 0 {
				out[n.Name] = min(out[n.Name], p.Load.Offered*f/float64(p.Load.Connections))
			}
		}
	}
	return w.s.beneath(out, flows)
}

// beneath is what is left of rates by what is beneath all networks: each flow gets alike, but
// for those that get less anyway.
func (s Schedule) beneath(want, flows rates) rates {
	left := s.Beneath
	if len(want) > 1 {
		left *= 1 - s.Costs
	}
	if s.Beneath <= 0 || want.sum(s.Networks) <= left {
		return want
	}
	out := rates{}
	for len(out) < len(want) {
		count := 0.0
		for _, n := range s.Networks {
			if _, done := out[n.Name]; !done && want[n.Name] > 0 {
				count += flows[n.Name]
			}
		}
		each, before := left/count, len(out)
		for _, n := range s.Networks {
			if v, ok := want[n.Name]; ok && out[n.Name] == 0 && v <= each*flows[n.Name] {
				out[n.Name] = v
				left -= v
			}
		}
		if len(out) > before {
			continue
		}
		for _, n := range s.Networks {
			if _, done := out[n.Name]; !done && want[n.Name] > 0 {
				out[n.Name] = each * flows[n.Name]
			}
		}
		return out
	}
	return out
}

// together is the most that a schedule's networks give in a phase, be it one or several of them,
// each with as many flows as it takes.
func (w *world) together(p Phase) (most float64) {
	for set := 1; set < 1<<len(w.s.Networks); set++ {
		sum, bound, n := 0.0, w.s.Beneath, 0
		for i, network := range w.s.Networks {
			if set>>i&1 == 1 {
				sum += p.offers(p.held(network)).carries
				n++
			}
		}
		if n > len(Portions{})+1 {
			continue
		}
		if n > 1 {
			bound *= 1 - w.s.Costs
		}
		if w.s.Beneath > 0 {
			sum = min(sum, bound)
		}
		most = max(most, sum)
	}
	switch {
	case p.Pause:
		return 0
	case p.Load.Offered > 0:
		return min(most, p.Load.Offered)
	}
	return most
}
