package decide

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// horizon is for how long a gain is expected to last. Schedules whose
	// epochs are shorter cannot be followed with profit anyway.
	horizon = 10 * time.Second
	// dwell is the least time on a path before it is left for gain; it doubles
	// with every such move within memoryFor, up to dwellMost: a course that changes
	// every ten seconds is still worth following (see horizon).
	dwell, dwellMost, memoryFor = time.Second, 4 * time.Second, time.Minute
	// recent is how old a measurement may be and still speak of now.
	recent = time.Second
	// patience is how long a move for gain waits for a pause, on pairs that pause.
	patience = 500 * time.Millisecond
	// crowd is the number of other pairs on a path from which moves are spread
	// over spread, and made in steps of a quarter.
	crowd  = 4
	spread = time.Second
	// staleProbe is the age from which a probe says nothing.
	staleProbe = 3.0
)

// CostAware is the default policy. Failure moves at once. Gain moves when a
// path has been better for long enough to be no accident, and the gain over
// the horizon exceeds the upper bound of what switches were measured to cost.
type CostAware struct {
	// Seed of the random delays.
	Seed uint64
}

// Name of the policy.
func (CostAware) Name() string { return "cost-aware" }

// Step decides.
func (c CostAware) Step(s State, ev PairEvidence) (State, Decision) {
	s = s.clone()
	given := ev
	s.observe(ev)
	ev = s.excuse(ev)
	need := s.need(ev)
	s.observeOps(ev, need)
	d := c.decide(&s, ev, need)
	switch {
	case d.Moves():
		s.Asked = d.Kind
		s.Trial, s.Pending = Trial{}, Pending{}
	case d.Kind == Stay:
		s.Trial = Trial{} // also where there was nowhere to flee to
	}
	d.Evidence = given
	return s, d
}

func (c CostAware) decide(s *State, ev PairEvidence, need Need) Decision {
	if d, ok := s.flee(ev); ok {
		return d
	}
	f := s.figures(ev, need)
	s.accumulate(ev, f, need)
	if s.Trial.To != "" {
		return c.runTrial(s, ev, f, need)
	}
	active, _ := ev.path(ev.Active)
	switch {
	case active.Data.Blank:
		return stay(ev, "%s is watched again when the switch has settled", ev.Active)
	case active.State == Suspect:
		return stay(ev, "%s is suspected: probes will tell", ev.Active)
	case active.Data.idle():
		s.Pending = Pending{}
		return stay(ev, "no traffic on %s: nothing to gain", ev.Active)
	case need == Throughput && active.Prior <= 0 && s.Track.Rate.N < least:
		return stay(ev, "what %s carries now is not known yet", ev.Active)
	case s.demandMet(ev, active, need):
		s.Pending = Pending{}
		return stay(ev, "%s carries all that is asked, %s", ev.Active, bits(active.Data.Goodput))
	}
	return c.seekGain(s, ev, f, need)
}

// least samples of the active path come before others are compared with what was once
// seen on it.
const least = 3

// demandMet: the pair gets all it asks for, so no path can give more.
func (s *State) demandMet(ev PairEvidence, active PathEvidence, need Need) bool {
	return need == Throughput && active.Data.AppLimited
}

// accumulate adds the logarithm of each candidate's figure over the active
// path's to the evidence. A stall of the machine spoils all paths alike and is
// left out, for a while.
func (s *State) accumulate(ev PairEvidence, f []figure, need Need) {
	active, _ := ev.path(ev.Active)
	if active.Data.Blank || s.Trial.To != "" || ev.Pause || f[0].now <= 0 && need != Throughput || s.stalled(ev) {
		return
	}
	own := s.memory(ev.Active).OpNoise
	for _, c := range f[1:] {
		m := s.memory(c.path.Network)
		noise, theirs := s.Track.noise(), c.low
		if need != Throughput {
			// Both sides are measured and both scatter.
			noise, theirs = math.Hypot(own, m.OpNoise), c.now
		}
		switch {
		case theirs <= 0:
			m.Lead.add(-clip*noise, noise)
		case f[0].now <= 0:
			m.Lead.add(2*clip*noise, noise)
		default:
			if need == Throughput || m.Lead.due(s.thinning(ev.At)) {
				m.Lead.add(math.Log(theirs/f[0].now), noise)
			}
		}
	}
}

// thinning is of how many samples of delay one counts. What disturbs a probe,
// a busy CPU most of all, disturbs its neighbours too: once that has misled,
// they are no more taken for independent evidence.
func (s *State) thinning(at time.Duration) int {
	return int(1 + 4*s.regrets(at))
}

// stalled tells that the other paths' probes are late too, so that what the
// active path shows may be the machine's doing. After window samples it is no
// stall any more.
func (s *State) stalled(ev PairEvidence) bool {
	late, others := 0, 0
	for _, p := range ev.Paths {
		if p.Network == ev.Active || p.Probe.Samples == 0 || p.State != Up {
			continue
		}
		others++
		if s.memory(p.Network).inflation(p) > 1.5 {
			late++
		}
	}
	if others == 0 || 2*late < others+1 && late < others {
		s.Stalled = 0
		return false
	}
	s.Stalled++
	return s.Stalled <= window
}

// seekGain looks for a better path: to switch to, or to try.
func (c CostAware) seekGain(s *State, ev PairEvidence, f []figure, need Need) Decision {
	collapsed := need != Latency && s.Track.collapsed()
	if wait := s.dwellLeft(ev.At); wait > 0 && !collapsed && !s.urgent(ev.At, f) {
		return stay(ev, "%s was chosen a moment ago: stays for %v", ev.Active, wait.Round(time.Millisecond))
	}
	loss := ev.SwitchLoss.upper()
	for _, b := range best(f[1:]) {
		m := s.memory(b.path.Network)
		if b.path.State != Up || !fresh(b.path) || (s.held(m, ev.At) && !collapsed) || !s.bears(ev, b.path, need) {
			continue
		}
		g := gain(b.mid, f[0].mid)
		pays := g > margin && g*seconds(horizon) > loss
		if b.score >= f[0].score && pays && m.Lead.proved() && (collapsed || s.seen(m, ev, need)) {
			return c.switchTo(s, ev, b, f[0], g, collapsed)
		}
		up := gain(b.high, f[0].mid)
		if need == Latency {
			if !m.Lead.proved() || !pays || m.Proven {
				continue // probes see a delay without any canary
			}
			up = g
		}
		if up > margin && up*seconds(horizon) > loss && s.mayTry(m, ev, f[0].mid) {
			return s.beginTrial(ev, b, f[0], up, false)
		}
	}
	s.Pending = Pending{}
	return stay(ev, "no path promises more than %s on %s", value(f[0].mid, need), ev.Active)
}

// mayTry: the wait since the last canary is over, or the active path has got
// worse since, so that there is more to gain now.
func (s *State) mayTry(m *Memory, ev PairEvidence, active float64) bool {
	return ev.At >= m.NextTrial || active < 0.85*m.Against
}

// fresh: probes answered of late, or there are none at all and data must tell.
func fresh(p PathEvidence) bool { return p.Probe.Samples == 0 || p.Probe.Age <= staleProbe }

// nearly is from what part of the most that any path gave a pair that gets all it
// asks for may be filling its path itself.
const nearly = 0.3

// bears is whether a path may carry what the pair sends now, by what was measured
// there: a path with less to give answers fast only while nothing is on it. Where
// the pair sends much of what any path gives, its delay may be its own doing, and a
// path of which nothing is known by its rate is not better for being idle.
func (s *State) bears(ev PairEvidence, p PathEvidence, need Need) bool {
	active, _ := ev.path(ev.Active)
	now := active.Data.Goodput
	if r, ok := s.Track.rate(); ok {
		now = r
	}
	if !active.Data.AppLimited {
		// A pair that begins to want more is not to be moved by its delay.
		return need != Latency || ev.Need == Latency
	}
	f, m := s.rate(ev, p, now), s.memory(p.Network)
	if top := s.top(ev.Load); need == Latency && top > 0 && now > nearly*top {
		return m.Measured && f.mid >= now || m.bore(now, ev.At)
	}
	return f.high >= now
}

// seen: the path is known to carry data, and for a need of rate how much, by
// a measurement not older than the horizon.
func (s *State) seen(m *Memory, ev PairEvidence, need Need) bool {
	if need == Latency {
		return m.Proven
	}
	return m.Proven && m.Measured && ev.At-m.HealthAt <= horizon
}

// dwellLeft is how long the active path must still be kept.
func (s *State) dwellLeft(at time.Duration) time.Duration {
	if len(s.Moves) == 0 {
		return 0
	}
	d := dwell
	for _, t := range s.Moves[:len(s.Moves)-1] {
		if at-t < memoryFor {
			d *= 2
		}
	}
	return s.Since + min(d, dwellMost) - at
}

// urgent: another path promises so much that only the shortest damping is
// kept, which still bounds flapping.
func (s *State) urgent(at time.Duration, f []figure) bool {
	most := 0.0
	for _, c := range f[1:] {
		if c.path.State == Up {
			most = max(most, gain(c.mid, f[0].mid))
		}
	}
	return most >= plenty && at-s.Since >= 2*dwell
}

// switchTo moves for gain: at once on collapse, else in a pause where the pair
// has pauses, after a random delay and in steps where many pairs may move too.
func (c CostAware) switchTo(s *State, ev PairEvidence, b, a figure, g float64, collapsed bool) Decision {
	network := b.path.Network
	if s.Pending.To != network {
		s.Pending = Pending{To: network, At: ev.At, By: ev.At}
		if s.crowded(ev, network) {
			within := spread
			if collapsed {
				within /= 5
			}
			delay := time.Duration(c.random(s, ev.Pair) * float64(within))
			s.Pending.At, s.Pending.By = after(ev.At, delay), after(ev.At, delay)
		}
		if !collapsed && s.Paused && ev.At-s.PausedAt < 10*time.Second {
			s.Pending.By = after(s.Pending.By, patience)
		}
	}
	if ev.At < s.Pending.At || (ev.At < s.Pending.By && !ev.Pause) {
		return stay(ev, "%s is better by %s: waits for a pause or its turn", network, percent(g))
	}
	if !collapsed && s.crowded(ev, network) {
		return s.beginTrial(ev, b, a, g, true)
	}
	return s.gainMove(ev, b, a, g)
}

func (s *State) gainMove(ev PairEvidence, b, a figure, g float64) Decision {
	need := s.need(ev)
	d := move(Switch, ev, b.path.Network, "%s gives %s where %s gives %s: %s more, worth %.0f ms over %.0f s, a switch costs at most %.1f ms",
		b.path.Network, value(b.mid, need), ev.Active, value(a.mid, need), percent(g), min(g, 1)*seconds(horizon)*1000, seconds(horizon), ev.SwitchLoss.upper()*1000)
	d.PredictedGain = g
	d.Confidence = s.memory(b.path.Network).Lead.part()
	return d
}

// crowded: many pairs see the same and may do the same.
func (s *State) crowded(ev PairEvidence, to string) bool {
	a, _ := ev.path(ev.Active)
	b, _ := ev.path(to)
	return max(a.OtherPairs, b.OtherPairs) >= crowd
}

// random is the next number in [0, 1): a function of seed, pair and count.
func (c CostAware) random(s *State, pair string) float64 {
	h := fnv.New64a()
	// Writing to a hash cannot fail.
	_, _ = h.Write([]byte(pair))
	s.Draws++
	return rand.New(rand.NewPCG(c.Seed, h.Sum64()+s.Draws)).Float64()
}

func percent(g float64) string { return fmt.Sprintf("%.3g %%", g*100) }

// bits is a rate for people.
func bits(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.3g Gbit/s", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.3g Mbit/s", v/1e6)
	}
	return fmt.Sprintf("%.3g bit/s", v)
}

// value is a figure of a need for people.
func value(v float64, need Need) string {
	switch need {
	case Latency:
		if v <= 0 {
			return "no answer"
		}
		return fmt.Sprintf("%.3g ms a round trip", 1000/v)
	case Robust:
		return fmt.Sprintf("a robust score of %.3g", v)
	}
	return bits(v)
}
