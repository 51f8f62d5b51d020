package decide

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Trial is a canary under way: some buckets on To, to see whether it carries
// data, and how much.
type Trial struct {
	To      string        `json:"to,omitempty"`
	Buckets int           `json:"buckets,omitempty"`
	Since   time.Duration `json:"since_ns"`
	// Began is when its first stage did.
	Began time.Duration `json:"began_ns"`
	// At is when it was last looked at.
	At time.Duration `json:"at_ns"`
	// Before is the active path's figure when it began.
	Before float64 `json:"before"`
	// Rates of the canary, figures of it and of the active path in the same
	// samples, and the bounded sum of the logarithms of their ratios.
	Rates  ring    `json:"rates"`
	Theirs ring    `json:"theirs"`
	Ours   ring    `json:"ours"`
	Sum    float64 `json:"sum"`
	// Total of all rates, and Added of what they added: see addedBy.
	Total float64 `json:"total"`
	Added float64 `json:"added,omitempty"`
	// First is what it gave at first, of a path that was not full.
	First float64 `json:"first,omitempty"`
	// Mute counts samples in a row of which nothing came back though timers fired.
	Mute int `json:"mute,omitempty"`
	// Quiet counts samples in a row in which the canary had no data.
	Quiet int `json:"quiet"`
	// Limited counts samples in which the canary had nothing more to send.
	Limited int `json:"limited"`
	// Full counts samples in a row in which its path was full: it had a queue, or lost something.
	Full int `json:"full,omitempty"`
	// Ignored counts samples that are to be left out still, of a path that has given canaries more than it keeps.
	Ignored int `json:"ignored,omitempty"`
	// Gradual: a move in steps, not a question.
	Gradual bool    `json:"gradual,omitempty"`
	Gain    float64 `json:"gain"`
}

// beginTrial moves as many buckets as hold a flow or so.
func (s *step) beginTrial(ev PairEvidence, b, a figure, up float64, gradual bool) Decision {
	n := max(ev.Load.Connections, 1)
	if ev.Load.Connections == 0 {
		n = max(ev.Load.Threads, 1)
	}
	by := &s.p.Canary
	n = min(n, Buckets)
	m := s.memory(b.path.Network)
	k := (Buckets + n - 1) / n
	if n > 1 && s.need(ev) == Throughput && by.Bulk > 0 {
		k = max(by.Bulk, k)
	}
	switch {
	case gradual:
		k = s.p.Spread.Step
	case m.Empty > 0 && m.Empty == by.EmptyMost:
		k = Buckets // the same buckets would be empty for as long as the connections live
	case m.Empty > 0:
		k = min(k<<(by.EmptyShift*m.Empty), max(k, by.EmptyLargest)) // flows are not spread evenly
	}
	ignored := m.Overestimate.ignores(ev.At, &s.p.Overestimate)
	took := by.For + time.Duration(ignored)*Period
	cost := float64(k) / Buckets * (took.Seconds() + by.CostSwitches*ev.SwitchLoss.upper())
	m.NextTrial, m.Against = after(ev.At, s.p.canaryWait(cost, up, ev.At-m.ChangedAt)), a.mid
	s.Trial = Trial{To: b.path.Network, Buckets: k, Since: ev.At, Began: ev.At, At: ev.At, Before: a.mid,
		Gradual: gradual, Gain: up, Ignored: ignored}
	return s.canary(ev)
}

// canaryWait is the time from one canary to the next, where each costs so many
// seconds of traffic and a path may have become better, unseen, by the share up.
// Canaries w apart cost cost/w of the time, and come w/2 late on average when the
// path does become better, once in a time T: together least at
// w = sqrt(2 T cost / up). T is not known; what has stood for long is likely to
// last as long again (Gott 1993), so that it is for how long nothing is known
// to have changed, and the horizon at least.
func (p *Params) canaryWait(cost, up float64, stood time.Duration) time.Duration {
	if !p.Canary.Lasting {
		stood = 0
	}
	wait := math.Sqrt(2 * max(stood, p.Gain.Horizon).Seconds() * cost / max(min(up, 1), p.Gain.Margin))
	return min(max(time.Duration(wait*float64(time.Second)), p.Canary.LeastWait), p.Canary.MostWait)
}

func (s *step) canary(ev PairEvidence) Decision {
	t := s.Trial
	word := "whether it carries more"
	if t.Gradual {
		word = "a step at a time, since many pairs may move"
	}
	return Decision{
		Kind: Canary, From: ev.Active, To: t.To, Buckets: t.Buckets, PredictedGain: t.Gain,
		ExpectedLoss: ev.SwitchLoss.upper() * float64(t.Buckets) / Buckets, Confidence: s.memory(t.To).Lead.part(&s.p.Lead),
		Evidence: ev,
		Reason:   fmt.Sprintf("%d of %d buckets try %s: %s (up to %s)", t.Buckets, Buckets, t.To, word, percent(t.Gain)),
	}
}

// runTrial goes on with a canary, ends it, or makes it a switch.
func (c CostAware) runTrial(s *step, ev PairEvidence, f []figure, need Need) Decision {
	t := &s.Trial
	b, ok := t.path(f)
	if !ok || t.countMute(b.path.Data) >= s.p.Canary.MuteSamples {
		return s.endTrial(ev, "%s did not carry its canary", t.To)
	}
	ignored := t.Ignored > 0 && b.path.Data.Goodput > 0
	if elapsed := ev.At - t.At; ev.Pause || ignored {
		// A pause tells nothing, nor does what the path has saved up, and takes none of the canary's time.
		t.Since, t.Began, t.At = t.Since+elapsed, t.Began+elapsed, ev.At
		if ignored {
			t.Ignored--
		}
		return s.canary(ev)
	}
	t.At = ev.At
	if other, ok := s.overtakes(ev, f); ok && !t.Gradual {
		return s.endTrial(ev, "%s promises more than the canary on %s can bring", other, t.To)
	}
	s.sample(ev, f[0], b, need)
	rate, seen := t.Rates.median(s.p.Canary.Samples)
	switch {
	case t.Rates.N > 0 && t.Quiet > window:
		return s.endTrial(ev, "%s showed no more data of its canary", t.To)
	case t.Gradual:
		return s.nextStep(ev, b)
	case !seen && ev.At-t.Since < s.p.Canary.Most && !s.overdue(ev.At):
		return s.canary(ev)
	case !seen:
		s.memory(t.To).Empty = min(s.memory(t.To).Empty+1, s.p.Canary.EmptyMost)
		return s.endTrial(ev, "%s showed no data of its canary within %v", t.To, (ev.At - t.Since).Round(time.Millisecond))
	}
	s.memory(t.To).Empty = 0
	if d, ok := s.shareTrial(ev, need); ok {
		return d
	}
	switch {
	case s.mayShare(ev, need, s.p.Share.Flows) && t.Rates.N < s.p.Share.Samples && !s.overdue(ev.At):
		// Whether it adds to what is carried is known later than whether it carries more at first,
		// as a path does whose queue and bucket of tokens are empty.
		return s.canary(ev)
	case need == Latency:
		// Probes have shown the gain; data passes, which was the question.
		return s.accept(ev, b, figure{mid: t.Before}, t.Gain)
	case 2*t.Limited > t.Rates.N:
		return s.judgeLimited(ev, b, rate, need)
	}
	return s.judgeFull(ev, b, f, rate, need)
}

// overtakes finds a path that is known to give so much that the canary under way only keeps
// the pair from it.
func (s *step) overtakes(ev PairEvidence, f []figure) (string, bool) {
	t := &s.Trial
	for _, b := range f[1:] {
		m, g := s.memory(b.path.Network), gain(b.low, t.Before)
		if b.path.Network != t.To && s.usable(b.path) && m.Proven && m.Measured &&
			g > t.Gain && s.pays(ev, g-t.Gain) {
			return b.path.Network, true
		}
	}
	return "", false
}

// outbid tells whether another path is to be tried that may bring more than the canary under way can still show.
func (s *step) outbid(ev PairEvidence, f []figure, most float64) bool {
	return s.p.Canary.Outbid && slices.ContainsFunc(f[1:], func(b figure) bool {
		m, up := s.memory(b.path.Network), gain(b.high, s.Trial.Before)
		return b.path.Network != s.Trial.To && s.usable(b.path) && up > most && s.pays(ev, up) &&
			s.canaryDue(m, ev, s.Trial.Before)
	})
}

// overdue: whatever has been seen must do.
func (s *step) overdue(at time.Duration) bool { return at-s.Trial.Began >= s.p.Canary.Longest }

// path finds the canary's path; ok is false where it is not up.
func (t *Trial) path(f []figure) (b figure, ok bool) {
	i := slices.IndexFunc(f, func(f figure) bool { return f.path.Network == t.To })
	if i <= 0 {
		return figure{}, false
	}
	return f[i], f[i].path.State == Up
}

// countMute counts the samples in a row in which timers fired and nothing came back.
func (t *Trial) countMute(d Data) int {
	if t.Mute++; d.RTOs == 0 || d.Rx > 0 {
		t.Mute = 0
	}
	return t.Mute
}

// sample takes in what the canary showed since the evidence before.
func (s *step) sample(ev PairEvidence, a, b figure, need Need) {
	t, d := &s.Trial, b.path.Data
	if b.path.Buckets == 0 || d.Blank || d.Rx == 0 && d.Goodput == 0 {
		t.Quiet++
		return
	}
	t.Rates.add(d.Goodput)
	t.Total += d.Goodput
	if need == Throughput {
		t.Added += s.addedBy(d.Goodput+a.path.Data.Goodput, t.Before)
	}
	s.compare(ev, a, b, need)
	t.Quiet = 0
	if d.AppLimited {
		t.Limited++
	}
	if t.Full++; s.isFree(b.path) {
		t.Full = 0
	}
}

// mayGrow: more flows than it has can tell more, in the time that is left.
func (s *step) mayGrow(at time.Duration) bool {
	return s.p.Canary.Grow > 1 && s.Trial.Buckets < Buckets && !s.overdue(at)
}

// grow moves so many times the buckets.
func (s *step) grow(ev PairEvidence) Decision {
	t := &s.Trial
	s.Trial = Trial{To: t.To, Buckets: min(s.p.Canary.Grow*t.Buckets, Buckets), Since: ev.At, Began: t.Began, At: ev.At,
		Before: t.Before, Gain: t.Gain}
	return s.canary(ev)
}

// judgeLimited is about a canary whose flows get all they ask for: only more of
// them can tell what the path carries.
func (s *step) judgeLimited(ev PairEvidence, b figure, rate float64, need Need) Decision {
	t := &s.Trial
	if s.mayGrow(ev.At) {
		return s.grow(ev)
	}
	// What it gave is no measure of what it can give, but it bears that much.
	most := rate
	// That the path carries the other flows too is left to be seen: what is
	// promised is believed, and without a promise, the same for each flow.
	if p := b.path; p.Prior > 0 {
		rate = max(rate, p.Prior)
	} else {
		rate *= Buckets / float64(t.Buckets)
	}
	mid := s.unit(ev, b.path, figure{path: b.path, mid: rate}, need).mid
	s.memory(t.To).Sustained, s.memory(t.To).SustainedAt = most, ev.At
	return s.judge(ev, b, gain(mid, t.Before), 0, need)
}

// judgeFull is about a canary that fills its path: it goes on until its gain is
// clear of doubt, or it has had its time.
func (s *step) judgeFull(ev PairEvidence, b figure, f []figure, rate float64, need Need) Decision {
	if d, ok := s.judgeFree(ev, b, rate, need); ok {
		return d
	}
	t := &s.Trial
	n := float64(t.Rates.N)
	logMean, deviation := t.Sum/n, s.trialNoise(ev, need)/math.Sqrt(n)
	doubt := s.acceptAt(ev.At) * deviation
	most := s.p.Canary.SamplesMost
	if t.Buckets > s.p.Canary.Large {
		most = s.p.Canary.SamplesMostLarge
	}
	over := logMean - s.p.Gain.Margin
	if -s.p.Canary.RejectAt*deviation < over && over < doubt && t.Rates.N < most && !s.overdue(ev.At) &&
		!s.outbid(ev, f, math.Exp(logMean+doubt)-1) {
		return s.canary(ev)
	}
	theirs, _ := t.Theirs.median(1)
	ours, _ := t.Ours.median(1)
	g := gain(theirs, ours)
	// Near enough for a mean to say more than a median.
	if math.Abs(logMean) < s.p.Canary.MeanWithin {
		g = math.Exp(logMean) - 1
	}
	if mean := t.Total / n; rate > 0 && math.Abs(math.Log(mean/rate)) < s.p.Canary.MeanWithin {
		rate = mean
	}
	s.measure(b.path, ev.Load, rate, s.Track.noise(&s.p.Track)/math.Sqrt(n), ev.At)
	if need == Throughput && g > doubt && s.pays(ev, g) {
		s.leave(ev, ours, theirs)
	}
	return s.judge(ev, b, g, doubt, need)
}

// acceptAt is how many standard errors a gain must exceed. The longer nothing has changed, the
// less likely it is that something has just now (Gott 1993): the odds are added to those that
// the evidence must beat, as in Wald's test (1945).
func (s *step) acceptAt(at time.Duration) float64 {
	by := &s.p.Canary
	stood := max(at-s.memory(s.Trial.To).ChangedAt, s.p.Gain.Horizon)
	odds := by.Prior * math.Log(stood.Seconds()/s.p.Gain.Horizon.Seconds())
	return math.Sqrt(by.AcceptAt*by.AcceptAt + 2*odds)
}

// compare takes the figures of canary and active path in the same sample:
// those from before the canary were low if it was a low figure that began it.
// Only where the active path lost so many flows that it has none to spare, they
// stand. The ratio's logarithm is bounded, so that a spike is one sample.
func (s *step) compare(ev PairEvidence, a, b figure, need Need) {
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
	most := s.p.Canary.RatioClip * s.trialNoise(ev, need)
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
func (s *step) trialNoise(ev PairEvidence, need Need) float64 {
	rate := math.Sqrt2 * s.Track.noise(&s.p.Track)
	if need == Throughput {
		return rate
	}
	return max(math.Hypot(s.memory(ev.Active).OpNoise, s.memory(s.Trial.To).OpNoise), rate)
}

// nextStep moves the next buckets of a gradual move.
func (s *step) nextStep(ev PairEvidence, b figure) Decision {
	t := &s.Trial
	if ev.At-t.Since < s.p.Spread.Wait {
		return s.canary(ev)
	}
	if t.Rates.N == 0 {
		return s.endTrial(ev, "%s showed no data of the flows moved to it", t.To)
	}
	t.Buckets, t.Since, t.Rates = t.Buckets+s.p.Spread.Step, ev.At, ring{}
	if t.Buckets < Buckets {
		return s.canary(ev)
	}
	d := s.gainMove(ev, b, figure{mid: t.Before}, t.Gain)
	s.Trial = Trial{}
	return d
}

// judge ends a canary that has seen enough: a gain with a doubt.
func (s *step) judge(ev PairEvidence, b figure, g, doubt float64, need Need) Decision {
	t := s.Trial
	ours, ok := t.Ours.median(1)
	if !ok {
		ours = t.Before
	}
	b.mid = ours * (1 + g)
	if g <= doubt || !s.pays(ev, g) {
		return s.endTrial(ev, "%s gave its canary %s, no better than %s", t.To, value(b.mid, need), ev.Active)
	}
	return s.accept(ev, b, figure{mid: ours}, g)
}

// accept turns a canary into a switch.
func (s *step) accept(ev PairEvidence, b, a figure, g float64) Decision {
	m := s.memory(s.Trial.To)
	m.Lead.Fast = s.p.Lead.Threshold
	if s.need(ev) == Throughput {
		s.Shown = Shown{s.Trial.To, b.mid, ev.At}
	}
	d := s.gainMove(ev, b, a, g)
	s.Trial = Trial{}
	return d
}

// endTrial takes the canary back.
func (s *step) endTrial(ev PairEvidence, format string, args ...any) Decision {
	s.memory(s.Trial.To).Lead = Lead{}
	s.Trial = Trial{}
	return stay(ev, format, args...)
}
