package decide

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// CostAware is the default policy. Failure moves at once. Gain moves when a
// path has been better for long enough to be no accident, and the gain over
// the horizon exceeds the upper bound of what switches were measured to cost.
type CostAware struct {
	// Seed of the random delays.
	Seed uint64
	// Params are its figures; nil for DefaultParams.
	Params *Params
}

// Name of the policy.
func (CostAware) Name() string { return "cost-aware" }

// WithShare is the policy with flows that share networks, or without.
func (c CostAware) WithShare(on bool) CostAware {
	p := DefaultParams()
	if c.Params != nil {
		p = *c.Params
	}
	p.Share.On = on
	c.Params = &p
	return c
}

// Step decides.
func (c CostAware) Step(state State, ev PairEvidence) (State, Decision) {
	s := newStep(state, c.Params)
	given := ev
	s.observe(ev)
	if ev.Load.level() == 0 {
		ev.Load = s.Load // in a pause
	}
	ev = s.discountOutages(ev)
	need := s.need(ev)
	s.observeOps(ev, need)
	d := c.decide(s, ev, need)
	switch {
	case d.Moves():
		s.LastMove = d.Kind
		s.Trial, s.Pending = Trial{}, Pending{}
		if s.Shared.Active != d.To {
			s.Shared = Shared{}
		}
	case d.Kind == Stay:
		s.Trial = Trial{} // also where there was nowhere to fail over to
		if s.Shared.Check == 0 {
			s.Shared = Shared{}
		}
	}
	d.Evidence = given
	return *s.State, d
}

func (c CostAware) decide(s *step, ev PairEvidence, need Need) Decision {
	if d, ok := s.failover(ev); ok {
		return d
	}
	f := s.figures(ev, need)
	s.accumulate(ev, f, need)
	if s.Trial.To != "" {
		return c.runTrial(s, ev, f, need)
	}
	if s.Shared.on() {
		return c.runShare(s, ev, f, need)
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
	case need == Throughput && active.Prior <= 0 && s.Track.Rate.N < s.p.Track.RateSamples:
		return stay(ev, "what %s carries now is not known yet", ev.Active)
	case need == Throughput && s.growing(ev.At, active):
		s.Pending = Pending{}
		return stay(ev, "what %s carries still grows", ev.Active)
	case s.demandMet(active, need):
		s.Pending = Pending{}
		return stay(ev, "%s carries all that is asked, %s", ev.Active, bits(active.Data.Goodput))
	}
	return c.seekGain(s, ev, f, need)
}

// demandMet: the pair gets all it asks for, so no path can give more.
func (s *step) demandMet(active PathEvidence, need Need) bool {
	return s.p.Load.LimitedStays && need == Throughput && active.Data.AppLimited
}

// accumulate adds the logarithm of each candidate's figure over the active
// path's to the evidence. A stall of the machine spoils all paths alike and is
// left out, for a while.
func (s *step) accumulate(ev PairEvidence, f []figure, need Need) {
	active, _ := ev.path(ev.Active)
	if active.Data.Blank || s.Trial.To != "" || s.Shared.on() || ev.Pause ||
		f[0].now <= 0 && need != Throughput || s.stalled(ev) ||
		active.Data.silent() || active.State == Suspect {
		return
	}
	own := s.memory(ev.Active).OpNoise
	if s.LeadNeed != need && s.LeadNeed != "" {
		s.dropLeads()
	}
	s.LeadNeed = need
	for _, c := range f[1:] {
		m := s.memory(c.path.Network)
		noise, theirs := s.Track.noise(&s.p.Track), c.low
		if need != Throughput {
			// Both sides are measured and both scatter.
			noise, theirs = math.Hypot(own, m.OpNoise), c.now
		}
		switch {
		case theirs <= 0:
			m.Lead.add(-s.p.Lead.Clip*noise, noise, s.p)
		case f[0].now <= 0:
			m.Lead.add(s.p.Lead.Dead*s.p.Lead.Clip*noise, noise, s.p)
		default:
			if need == Throughput || m.Lead.due(s.thinning(ev.At)) {
				m.Lead.add(math.Log(theirs/f[0].now), noise, s.p)
			}
		}
	}
}

// thinning is of how many samples of delay one counts. What disturbs a probe,
// a busy CPU most of all, disturbs its neighbours too: once that has misled,
// they are no more taken for independent evidence.
func (s *step) thinning(at time.Duration) int {
	return int(1 + s.p.Memory.Thinning*s.reversals(at))
}

// stalled tells that the other paths' probes are late too, so that what the
// active path shows may be the machine's doing. After some samples it is no stall any
// more.
func (s *step) stalled(ev PairEvidence) bool {
	late, others := 0, 0
	for _, p := range ev.Paths {
		if p.Network == ev.Active || p.Probe.Samples == 0 || p.State != Up {
			continue
		}
		others++
		if s.memory(p.Network).inflation(p, s.p.Memory.JitterFloor) > s.p.Lead.StallAt {
			late++
		}
	}
	if others == 0 || 2*late < others+1 && late < others {
		s.Stalled = 0
		return false
	}
	s.Stalled++
	return s.Stalled <= s.p.Lead.StallSamples
}

// seekGain looks for a better path: to switch to, or to try.
func (c CostAware) seekGain(s *step, ev PairEvidence, f []figure, need Need) Decision {
	var next figure
	most := 0.0
	for _, b := range best(f[1:]) {
		m := s.memory(b.path.Network)
		if !s.usable(b.path) || !s.carriesDemand(ev, b.path, need) {
			continue
		}
		g := gain(b.mid, f[0].mid)
		pays := s.pays(ev, g)
		// A path that was left only as it failed for a moment needs no new proof.
		back := b.path.Network == s.FailedOverFrom && m.Proven && m.Measured
		if pays && (back || m.Lead.proved(&s.p.Lead)) && s.carriesData(m, ev, need) {
			return c.switchTo(s, ev, b, f[0], g)
		}
		up := gain(b.high, f[0].mid)
		if need == Latency {
			if !m.Lead.proved(&s.p.Lead) || !pays || m.Proven {
				continue // probes see a delay without any canary
			}
			up = g
		}
		if s.pays(ev, up) && s.canaryDue(m, ev, f[0].mid) && s.rather(next, b, up, most) {
			next, most = b, up
		}
	}
	if next.path.Network != "" && !ev.Pause {
		return s.beginTrial(ev, next, f[0], most, false)
	}
	s.Pending = Pending{}
	if d, ok := s.beginShare(ev, f, need); ok {
		return d
	}
	return stay(ev, "no path promises better than %s on %s", value(f[0].mid, need), ev.Active)
}

// rather tells whether a path is to be tried before another one: it may bring more, or as
// much and was not tried for longer.
func (s *step) rather(than, b figure, up, most float64) bool {
	if than.path.Network != "" && than.path.Answers != b.path.Answers {
		return than.path.Answers // where its queue would delay what waits for answers is tried last
	}
	if than.path.Network == "" || up > most*(1+s.p.Gain.Margin) {
		return true
	}
	return up > most/(1+s.p.Gain.Margin) &&
		s.memory(b.path.Network).NextTrial < s.memory(than.path.Network).NextTrial
}

// pays: over the horizon the gain exceeds what a switch costs.
func (s *step) pays(ev PairEvidence, gain float64) bool {
	cost := s.p.Gain.CostWeight * ev.SwitchLoss.upper()
	return gain > s.p.Gain.Margin && gain*s.p.Gain.Horizon.Seconds() > cost
}

// canaryDue: the wait since the last canary is over, or the active path has got
// worse since, so that there is more to gain now. Where the pair's flows that wait for
// answers are, bulk is tried only for that: its queue would delay them.
func (s *step) canaryDue(m *Memory, ev PairEvidence, active float64) bool {
	worse := active < s.p.Canary.Worse*m.Against
	if p, _ := ev.path(m.Network); p.Answers && slices.Max(m.Best[:]) > 0 {
		return worse && ev.At >= m.NextTrial
	}
	return ev.At >= m.NextTrial || worse
}

// usable: the path is up, and probes were answered of late, or there are none at all and data must tell.
func (s *step) usable(p PathEvidence) bool {
	return p.State == Up && (p.Probe.Samples == 0 || p.Probe.Age <= s.p.Failure.StaleProbe)
}

// carriesDemand is whether a path may carry what the pair sends now, by what was measured
// there: a path with less to give answers fast only while nothing is on it. Where
// the pair sends much of what any path gives, its delay may be its own doing, and a
// path of which nothing is known by its rate is not better for being idle.
func (s *step) carriesDemand(ev PairEvidence, p PathEvidence, need Need) bool {
	if !s.p.Gain.DemandFits {
		return true
	}
	active, _ := ev.path(ev.Active)
	now := active.Data.Goodput
	if r, ok := s.Track.rate(&s.p.Track); ok {
		now = r
	}
	if !active.Data.AppLimited {
		// A pair that begins to want more is not to be moved by its delay.
		return need != Latency || ev.Need == Latency
	}
	f, m := s.rate(ev, p, now), s.memory(p.Network)
	if top := s.top(ev.Load); need == Latency && top > 0 && now > s.p.Gain.Busy*top {
		return m.Measured && f.mid >= now || m.sustained(now, ev.At, &s.p.Gain)
	}
	return f.high >= now
}

// carriesData: the path is known to carry data, and for a need of rate how much, by
// a measurement that is not old.
func (s *step) carriesData(m *Memory, ev PairEvidence, need Need) bool {
	switch {
	case !s.p.Gain.Shown:
		return true
	case need == Latency:
		return m.Proven
	}
	return m.Proven && m.Measured && ev.At-m.HealthAt <= s.p.Gain.SeenFor
}

// switchTo moves for gain: at once, or after a random delay and in steps where many
// pairs may move too.
func (c CostAware) switchTo(s *step, ev PairEvidence, b, a figure, g float64) Decision {
	network := b.path.Network
	if s.Pending.To != network {
		s.Pending = Pending{To: network, At: ev.At}
		if s.crowded(ev, network) {
			s.Pending.At = after(ev.At, time.Duration(c.random(s, ev.Pair)*float64(s.p.Spread.Within)))
		}
	}
	if ev.At < s.Pending.At {
		return stay(ev, "%s is better by %s: waits for its turn", network, percent(g))
	}
	if s.crowded(ev, network) {
		return s.beginTrial(ev, b, a, g, true)
	}
	return s.gainMove(ev, b, a, g)
}

// gainMove is a switch from a to b for a gain of g. What is said of b is what that gain makes of a: what probes show
// now may be something else.
func (s *step) gainMove(ev PairEvidence, b, a figure, g float64) Decision {
	switch shown := a.mid * (1 + g); {
	case a.mid > 0 && g < gainMost:
		b.mid = shown
	case a.mid > 0: // so much at least
		b.mid = max(b.mid, shown)
	}
	need, horizon := s.need(ev), s.p.Gain.Horizon.Seconds()
	d := move(Switch, ev, b.path.Network,
		"%s gives %s where %s gives %s: %s more, worth %.0f ms over %.0f s, a switch costs at most %.1f ms",
		b.path.Network, value(b.mid, need), ev.Active, value(a.mid, need), percent(g), min(g, 1)*horizon*1000, horizon,
		ev.SwitchLoss.upper()*1000)
	d.PredictedGain = g
	d.Confidence = s.memory(b.path.Network).Lead.part(&s.p.Lead)
	return d
}

// crowded: many pairs see the same and may do the same.
func (s *step) crowded(ev PairEvidence, to string) bool {
	a, _ := ev.path(ev.Active)
	b, _ := ev.path(to)
	return max(a.OtherPairs, b.OtherPairs) >= s.p.Spread.Crowd
}

// random is the next number in [0, 1): a function of seed, pair and count.
func (c CostAware) random(s *step, pair string) float64 {
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
