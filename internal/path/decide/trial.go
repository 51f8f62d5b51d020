package decide

import (
	"math"
	"slices"
	"time"
)

const (
	// trialFor and trialMost bound a stage of a canary; trialSamples is what it needs.
	trialFor, trialMost = 250 * time.Millisecond, 900 * time.Millisecond
	trialSamples        = 3
	// Where the figures are near, a canary goes on for up to so many samples,
	// fewer where it holds more than a quarter of the flows.
	trialAtMost, trialAtMostLarge = 60, 25
	// doubts is the number of standard errors that a canary's gain must exceed:
	// it is looked at after each sample, which makes accidents likelier.
	doubts = 3.5
	// plenty is a promise so large that passing data is proof enough.
	plenty = 0.5
	// exploring may cost a tenth of what it may gain.
	exploring = 0.1
	// A canary is not repeated before leastWait. One that may gain much comes
	// again after mostWait at the latest, one that may gain little after idleWait.
	leastWait, mostWait, idleWait = time.Second, 20 * time.Second, 5 * time.Minute
	much                          = 0.1
	// few connections are tried all at once: they may be as unlike as a bulk
	// transfer and a heartbeat, so that a part of them says nothing of the rest.
	few = 16
	// step of the buckets moved at once, and time between, where many pairs move.
	crowdStep = Buckets / 4
	crowdWait = 500 * time.Millisecond
)

// Trial is a canary under way: some buckets on To, to see whether it carries
// data, and how much.
type Trial struct {
	To      string        `json:"to,omitempty"`
	Buckets int           `json:"buckets,omitempty"`
	Since   time.Duration `json:"since_ns"`
	// Before is the active path's figure when it began.
	Before float64 `json:"before"`
	// Rates of the canary, figures of it and of the active path in the same
	// samples, and the bounded sum of the logarithms of their ratios.
	Rates  ring    `json:"rates"`
	Theirs ring    `json:"theirs"`
	Ours   ring    `json:"ours"`
	Sum    float64 `json:"sum"`
	// Total of all rates.
	Total float64 `json:"total"`
	// Quiet counts samples in a row in which the canary had no data.
	Quiet int `json:"quiet"`
	// Limited counts samples in which the canary had nothing more to send.
	Limited int `json:"limited"`
	// Gradual: a move in steps, not a question.
	Gradual bool    `json:"gradual,omitempty"`
	Gain    float64 `json:"gain"`
}

// beginTrial moves as many buckets as hold a flow or so. The next canary on
// this path waits until exploring has cost no more than its part of what it
// may gain, longer the more of them brought nothing.
func (s *State) beginTrial(ev PairEvidence, b, a figure, up float64, gradual bool) Decision {
	n := max(ev.Load.Connections, 1)
	if ev.Load.Connections == 0 {
		n = max(ev.Load.Threads, 1)
	}
	n = min(n, Buckets)
	if n < few {
		n = 1
	}
	m := s.memory(b.path.Network)
	k := (Buckets + n - 1) / n
	switch {
	case gradual:
		k = crowdStep
	case n > 1 && s.need(ev) == Throughput:
		// A quarter of many bulk flows lose little, as the others take what they leave,
		// and are soon at what the path can give, which a few are not: BBR probes
		// for a quarter more every eight round trips (Cardwell et al. 2016).
		k = Buckets / 4
	case m.Empty > 0:
		k = min(k<<(2*m.Empty), Buckets/2) // flows are not spread evenly
	}
	cost := float64(k) / Buckets * (seconds(trialFor) + 2*ev.SwitchLoss.upper())
	wait := time.Duration(cost / (exploring * max(min(up, 1), margin)) * float64(time.Second))
	if up >= much {
		wait = min(max(wait<<min(m.Fruitless, 1), leastWait), mostWait)
	} else {
		wait = min(max(wait<<min(m.Fruitless, 8), leastWait), idleWait)
	}
	m.NextTrial, m.Against = after(ev.At, wait), a.mid
	s.Trial = Trial{To: b.path.Network, Buckets: k, Since: ev.At, Before: a.mid, Gradual: gradual, Gain: up}
	return s.canary(ev)
}

func (s *State) canary(ev PairEvidence) Decision {
	t := s.Trial
	word := "whether it carries more"
	if t.Gradual {
		word = "a step at a time, since many pairs may move"
	}
	return Decision{
		Kind: Canary, From: ev.Active, To: t.To, Buckets: t.Buckets, PredictedGain: t.Gain,
		ExpectedLoss: ev.SwitchLoss.upper() * float64(t.Buckets) / Buckets, Confidence: s.memory(t.To).Lead.part(), Evidence: ev,
		Reason: sentence("%d of %d buckets try %s: %s (up to %s)", t.Buckets, Buckets, t.To, word, percent(t.Gain)),
	}
}

// runTrial goes on with a canary, ends it, or makes it a switch.
func (c CostAware) runTrial(s *State, ev PairEvidence, f []figure, need Need) Decision {
	t := &s.Trial
	i := slices.IndexFunc(f, func(f figure) bool { return f.path.Network == t.To })
	if i <= 0 || f[i].path.State != Up || f[i].path.Data.RTOs > 0 && f[i].path.Data.Rx == 0 {
		return s.endTrial(ev, "%s did not carry its canary", t.To)
	}
	p := f[i].path
	if p.Buckets > 0 && !p.Data.Blank && (p.Data.Rx > 0 || p.Data.Goodput > 0) {
		t.Rates.add(p.Data.Goodput)
		t.Total += p.Data.Goodput
		s.compare(ev, f[0], f[i], need)
		t.Quiet = 0
		if p.Data.AppLimited {
			t.Limited++
		}
	} else if t.Quiet++; t.Rates.N > 0 && t.Quiet > window {
		return s.endTrial(ev, "%s showed no more data of its canary", t.To)
	}
	spent := ev.At - t.Since
	if t.Gradual {
		return s.nextStep(ev, f[i], spent)
	}
	rate, ok := t.Rates.median(trialSamples)
	switch {
	case !ok && spent < trialMost:
		return s.canary(ev)
	case !ok:
		s.memory(t.To).Empty = min(s.memory(t.To).Empty+1, 3)
		return s.endTrial(ev, "%s showed no data of its canary within %v", t.To, spent.Round(time.Millisecond))
	}
	s.memory(t.To).Empty = 0
	if need == Latency {
		// Probes have shown the gain; data passes, which was the question.
		return s.accept(ev, f[i], figure{mid: t.Before}, t.Gain)
	}
	promised := gain(f[i].mid, t.Before)
	limited := 2*t.Limited > t.Rates.N
	if limited && promised < plenty && t.Buckets < Buckets {
		// The canary's flows get all they ask for: only more of them can tell.
		s.Trial = Trial{To: t.To, Buckets: min(4*t.Buckets, Buckets), Since: ev.At, Before: t.Before, Gain: t.Gain}
		return s.canary(ev)
	}
	if limited {
		// That the path carries the other flows too is left to be seen: what is
		// promised is believed, and without a promise, the same for each flow.
		if p.Prior > 0 {
			rate = max(rate, p.Prior)
		} else {
			rate *= Buckets / float64(t.Buckets)
		}
		mid := s.unit(ev, p, figure{path: p, mid: rate}, need).mid
		return s.judge(ev, f[i], rate, gain(mid, t.Before), 0, need)
	}
	n := float64(t.Rates.N)
	logMean, doubt := t.Sum/n, doubts*s.trialNoise(ev, need)/math.Sqrt(n)
	most := trialAtMost
	if 4*t.Buckets > Buckets {
		most = trialAtMostLarge
	}
	if math.Abs(logMean-margin) < doubt && t.Rates.N < most {
		return s.canary(ev)
	}
	theirs, _ := t.Theirs.median(1)
	ours, _ := t.Ours.median(1)
	g := gain(theirs, ours)
	// Near enough for a mean to say more than a median.
	if math.Abs(logMean) < 0.2 {
		g = math.Exp(logMean) - 1
	}
	if mean := t.Total / n; rate > 0 && math.Abs(math.Log(mean/rate)) < 0.2 {
		rate = mean
	}
	return s.judge(ev, f[i], rate, g, doubt, need)
}

// compare takes the figures of canary and active path in the same sample:
// those from before the canary were low if it was a low figure that began it.
// Only where the active path lost so many flows that it has none to spare, they
// stand. The ratio's logarithm is bounded, so that a spike is one sample.
func (s *State) compare(ev PairEvidence, a, b figure, need Need) {
	t := &s.Trial
	theirs, ours := b.now, a.now
	if need != Latency {
		theirs = s.unit(ev, b.path, figure{path: b.path, now: b.path.Data.Goodput}, need).now
		d := a.path.Data
		if 2*a.path.Buckets < Buckets || d.AppLimited || d.Blank || d.idle() {
			ours = t.Before
		}
	}
	t.Theirs.add(theirs)
	t.Ours.add(ours)
	most := 3 * s.trialNoise(ev, need)
	switch {
	case theirs <= 0:
		t.Sum -= most
	case ours <= 0:
		t.Sum += most
	default:
		t.Sum += min(max(math.Log(theirs/ours), -most), most)
	}
}

// trialNoise is the scatter of the ratio of two figures.
func (s *State) trialNoise(ev PairEvidence, need Need) float64 {
	rate := math.Sqrt2 * s.Track.noise()
	if need == Throughput {
		return rate
	}
	return max(math.Hypot(s.memory(ev.Active).OpNoise, s.memory(s.Trial.To).OpNoise), rate)
}

// nextStep moves the next buckets of a gradual move.
func (s *State) nextStep(ev PairEvidence, b figure, spent time.Duration) Decision {
	t := &s.Trial
	if spent < crowdWait {
		return s.canary(ev)
	}
	if t.Rates.N == 0 {
		return s.endTrial(ev, "%s showed no data of the flows moved to it", t.To)
	}
	t.Buckets, t.Since, t.Rates = t.Buckets+crowdStep, ev.At, ring{}
	if t.Buckets < Buckets {
		return s.canary(ev)
	}
	d := s.gainMove(ev, b, figure{mid: t.Before}, t.Gain)
	s.Trial = Trial{}
	return d
}

// judge ends a canary that has seen enough: a rate, and a gain with a doubt.
func (s *State) judge(ev PairEvidence, b figure, rate, g, doubt float64, need Need) Decision {
	t := s.Trial
	s.memory(t.To).measure(b.path, ev.Load, rate, ev.At)
	ours, ok := t.Ours.median(1)
	if !ok {
		ours = t.Before
	}
	b.mid = ours * (1 + g)
	if g <= max(margin, doubt) || g*seconds(horizon) <= ev.SwitchLoss.upper() {
		return s.endTrial(ev, "%s gave its canary %s, no better than %s", t.To, value(b.mid, need), ev.Active)
	}
	return s.accept(ev, b, figure{mid: ours}, g)
}

// accept turns a canary into a switch.
func (s *State) accept(ev PairEvidence, b, a figure, g float64) Decision {
	m := s.memory(s.Trial.To)
	m.Fruitless, m.Lead.Fast = 0, threshold
	d := s.gainMove(ev, b, a, g)
	s.Trial = Trial{}
	return d
}

// endTrial takes the canary back.
func (s *State) endTrial(ev PairEvidence, format string, args ...any) Decision {
	m := s.memory(s.Trial.To)
	m.Fruitless++
	m.Lead = Lead{}
	s.Trial = Trial{}
	return stay(ev, format, args...)
}
