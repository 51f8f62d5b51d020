package decide

import (
	"math"
	"math/rand/v2"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Period is the time between two pieces of evidence, in simulations and as the
// policies' constants suppose.
const Period = 100 * time.Millisecond

// begin is for how many periods connections that begin are seen to carry less, as
// they were in drills with round trips of 20 ms.
const begin = 2

// Play plays a schedule against a simple model of networks and has a policy
// steer one pair through it. The model: a network carries what is asked up to
// its capacity at that load; a rate limit and competing load lower it; a black
// hole stops it and is known to the agent in the next piece of evidence. What
// the policy sees has noise with heavy tails: one sample in 200 falls into a
// stall of the machine of 50 ms, which spoils all paths, and as many into one of
// a single path. Probes of a path see competing load but no rate limit.
// Decisions take effect in the period after the evidence; a switch costs the
// schedule's loss, and flows that are moved get four fifths in their first period.
// In a bare schedule connections that begin show half to all of what they get.
// A network that loses packets gives each connection what TCP makes of that. Where all
// networks fail at once none is known to have failed: nothing answers that could tell.
//
// A schedule may have flows of two classes, whose amounts are parts of what each would
// have had alone, so that they can be added up.
func Play(s Schedule, policy Policy, seed uint64) Result {
	if s.mixed() {
		return playMixed(s, policy, seed)
	}
	return simulate(s, policy, seed, nil)
}

// simulate plays a schedule of one class and tells of each period, unless keep is nil.
func simulate(s Schedule, policy Policy, seed uint64, keep func(Traced, Record)) Result {
	r := newSimulation(s, policy, seed)
	for _, phase := range s.Phases {
		for range int(phase.For / Period) {
			ev, d := r.decide(phase)
			truth := r.w.truth(phase)
			rate := r.play(phase, phase, d)
			if keep != nil {
				keep(Traced{At: ev.At, Pair: ev.Pair, Load: ev.Load, Decision: d, After: r.at, Rate: rate},
					Record{For: Period, Truth: truth, Evidence: ev})
			}
		}
	}
	out := Result{Policy: policy.Name(), Pairs: 1}
	r.book.close(&out)
	return out
}

// simulation is the course of some flows that a policy steers.
type simulation struct {
	policy Policy
	w      *world
	state  State
	at     Assignment
	book   ledger
	rate   float64 // of the period before
}

func newSimulation(s Schedule, policy Policy, seed uint64) *simulation {
	return &simulation{policy: policy, w: newWorld(s, seed), at: Assignment{Active: s.Networks[0].Name}}
}

// decide asks the policy.
func (r *simulation) decide(p Phase) (ev PairEvidence, d Decision) {
	ev = r.w.evidence(p, r.at)
	r.state, d = r.policy.Step(r.state, ev)
	return ev, d
}

// play carries a decision out for a period, and returns the rate that it gave. alone is the
// phase without the pair's other flows.
func (r *simulation) play(p, alone Phase, d Decision) float64 {
	next := r.at.Apply(d)
	e := epoch{truth: r.w.truth(alone), seconds: Period.Seconds(), loss: r.w.s.Loss}
	if len(p.Impairments) != len(alone.Impairments) {
		e.shared = r.w.truth(p)
	}
	if r.w.s.Need != Latency {
		e.most, e.sum = r.w.together(alone), r.w.given(p, next).sum(r.w.s.Networks)
	}
	if r.w.s.Windows {
		e.pipes, e.fresh = alone.pipes(r.w.s.Networks), r.w.fresh(p)
		r.w.moveWindows(p, r.at, next)
		e.filled = r.w.filled(p, next)
	}
	rate := r.book.add(e, r.at, next, d.Kind)
	r.w.play(p, r.at, next)
	r.at, r.rate = next, rate
	return rate
}

// world is the model's state.
type world struct {
	s   Schedule
	r   *rand.Rand
	now time.Duration
	// last is what each network carried and showed in the period before.
	last map[string]seen
	// since is the periods since a network was impaired or not.
	limited map[string]int
	links   map[string]*link
	// saved is what networks have saved up, in bits.
	saved map[string]float64
	// connections of the period before, and for how many more some of them begin.
	connections, young int
	windows            windows
	// places are those of connections in a row, and ranks the order of places, of a hashed schedule.
	places []int
	ranks  flow.Ranks
}

// seen is what a period showed on a network.
type seen struct {
	data Data
	// dead: nothing came; all: nor on any other network.
	dead, all bool
	buckets   int
}

func newWorld(s Schedule, seed uint64) *world {
	w := &world{s: s, r: rand.New(rand.NewPCG(seed, s.Seed)), last: map[string]seen{}, limited: map[string]int{},
		links: map[string]*link{}, saved: map[string]float64{}}
	for _, n := range s.Networks {
		w.links[n.Name] = &link{}
	}
	return w
}

// truth is what each network would give the whole pair, without noise: rate, or
// operations a second of one connection, which waits for what is lost.
func (w *world) truth(p Phase) map[string]float64 {
	out := map[string]float64{}
	for _, n := range w.s.Networks {
		n = p.held(n)
		o := p.offers(n)
		switch {
		case o.dead || o.refused || p.Pause:
			out[n.Name] = 0
		case w.s.Need == Latency:
			out[n.Name] = 1 / (n.rtt(o.others) + 2*o.lost*retransmit)
		default:
			out[n.Name] = o.carries
			for _, bound := range []float64{p.Load.Offered, w.s.Beneath} {
				if bound > 0 {
					out[n.Name] = min(out[n.Name], bound)
				}
			}
		}
	}
	return out
}

// retransmit is Linux's least retransmission timeout, in seconds.
const retransmit = 0.2

// play runs a period and keeps what it showed.
func (w *world) play(p Phase, before, after Assignment) {
	stall := w.r.IntN(200) == 0
	if w.young = max(w.young-1, 0); p.Load.Connections != w.connections || p.Pause {
		w.connections, w.young = p.Load.Connections, begin
	}
	all := p.allDead(w.s.Networks)
	flows, given := w.flows(after, p.Load.Connections), rates(nil)
	if w.s.Beneath > 0 {
		given = w.given(p, after)
	}
	for _, n := range w.s.Networks {
		share := after.Share(n.Name)
		if p.Pause {
			share = 0
		}
		n = p.held(n)
		o := p.offers(n)
		v := seen{dead: o.dead, all: all, buckets: int(share*Buckets + 0.5)}
		if w.s.Hashed {
			share = min(math.Ceil(share), flows[n.Name]/float64(max(p.Load.Connections, 1)))
		}
		more := w.spend(n, o, share > 0)
		if share > 0 {
			left := o
			if given != nil && !o.dead {
				left.carries = min(o.carries, given[n.Name])
			}
			left.carries += more
			v.data = w.traffic(n, p, share, left)
			if before.Share(n.Name) != after.Share(n.Name) {
				v.data.Blank = true
				v.data.Goodput *= 0.8
			}
			if stall || w.r.IntN(200) == 0 {
				v.data.Goodput /= 2
				v.data.SRTT += 0.05 * w.r.Float64()
			}
		}
		w.last[n.Name] = v
		if o.carries < 0.6*n.at(p.Load.Connections) && !o.dead && !o.refused {
			w.limited[n.Name]++
		} else {
			w.limited[n.Name] = 0
		}
		if w.s.Bare {
			pressed := share > before.Share(n.Name) || share > 0 && w.limited[n.Name] == 1
			slow := o.carries < flooded*n.at(p.Load.Connections) && !v.data.AppLimited && !o.refused
			w.links[n.Name].play(w.r, o, all, share > 0, pressed && slow)
		}
	}
	if w.s.Windows {
		w.growWindows(p, after)
	}
	w.now += Period
}

// allDead tells whether nothing passes on any network.
func (p Phase) allDead(networks []SimNetwork) bool {
	for _, n := range networks {
		if !p.offers(n).dead {
			return false
		}
	}
	return true
}

// traffic is what the pair's own data shows on a network.
func (w *world) traffic(n SimNetwork, p Phase, share float64, o offer) Data {
	if o.dead || o.refused {
		return Data{Tx: 1e4, RTOs: 1}
	}
	c := o.carries
	asked := math.Inf(1)
	if p.Load.Offered > 0 {
		asked = p.Load.Offered * share
	}
	// A share too small for a flow carries none.
	if float64(p.Load.Connections)*share < 0.5 {
		return Data{}
	}
	if o.lost > 0 {
		c = min(c, float64(p.Load.Connections)*share*lossy(o.lost, n.rtt(o.others)))
	}
	full := true
	if w.s.Need == Latency {
		asked = c / 100
	} else if most := w.bound(n, o.others); most < c {
		c, full = most, false
	}
	d := Data{Goodput: min(asked, c), AppLimited: asked < c, Retrans: o.lost,
		SRTT: n.rtt(o.others) * (1 + 0.1*w.r.Float64())}
	if !d.AppLimited && full {
		// The queue of a full network, in bytes: the slower, the longer. Where losses
		// keep the window small there is none.
		if o.lost == 0 && w.s.Windows {
			d.SRTT += n.wait(p.Load.Connections, c) * (0.8 + 0.2*w.r.Float64())
		} else if o.lost == 0 {
			d.SRTT += min(1e-3*n.at(p.Load.Connections)/c, 0.05) * (0.8 + 0.4*w.r.Float64())
		}
		d.Retrans += 0.001 * w.r.ExpFloat64()
		if k := w.limited[n.Name]; k > 0 && k < 10 {
			d.Retrans += 0.03
		}
	}
	d.Goodput *= math.Exp(n.Noise * w.r.NormFloat64())
	if w.s.Bare && w.young > 0 && !d.AppLimited {
		d.Goodput *= 1 - 0.5*w.r.Float64()
	}
	d.Tx, d.Rx = d.Goodput/8, d.Goodput/8/20
	return d
}

// evidence is what the agent knows at this time.
func (w *world) evidence(p Phase, at Assignment) PairEvidence {
	ev := PairEvidence{
		At: w.now, Pair: "a>b", Pause: p.Pause, Need: w.s.Need, App: "bulk", Default: w.s.Networks[0].Name, Active: at.Active,
		Load:       Load{Connections: p.Load.Connections},
		SwitchLoss: LossEstimate{Mean: w.s.Loss, Upper: 1.5 * w.s.Loss, N: 10},
	}
	if w.s.Bare {
		ev.Need = Auto
	}
	if p.Pause {
		ev.Load.Connections = 0
	}
	stall := w.r.IntN(200) == 0
	for _, n := range w.s.Networks {
		n = p.held(n)
		others := p.offers(n).others
		v := w.last[n.Name]
		e := PathEvidence{Network: n.Name, State: Up, Buckets: int(at.Share(n.Name)*Buckets + 0.5), Data: v.data,
			Prior: n.at(p.Load.Connections) * (1 + n.Bias)}
		switch {
		case v.dead && v.all:
			e.State, e.Reason = Suspect, "nothing answers on any path"
			e.Probe = Probe{Samples: 10, Loss: 1, Age: 1}
		case v.dead:
			e.State, e.Reason = Failed, "probes went unanswered while others' were"
			e.Probe = Probe{Samples: 10, Loss: 1, Age: 1}
		default:
			noise := math.Exp(0.1 * w.r.NormFloat64())
			e.Probe = Probe{RTT: n.rtt(others) * noise, Jitter: n.RTT / 10, Samples: 10, Age: 0.01}
			if stall || w.r.IntN(200) == 0 {
				e.Probe.RTT += 0.05 * w.r.Float64()
			}
		}
		if l := w.links[n.Name]; w.s.Bare {
			e.Prior, e.Probe.Loss = 0, l.shown
			if reason := l.reason(); reason != "" && e.State != Suspect {
				e.State, e.Reason = Failed, reason
			}
		}
		ev.Paths = append(ev.Paths, e)
	}
	return ev
}

// Table is what a bench of the schedule's networks would recommend, unimpaired.
func (s Schedule) Table() Table {
	t := Table{Name: s.Name}
	for _, c := range []int{1, 4, 8, 16, 32, 64, 128} {
		row := TableRow{Level: c, Rates: map[string]float64{}}
		top := 0.0
		for _, n := range s.Networks {
			rate := n.at(c) * (1 + n.Bias)
			if s.Need == Latency {
				rate = 1 / n.RTT
			}
			row.Rates[n.Name] = rate
			if rate > top {
				top, row.Choice = rate, []string{n.Name}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
