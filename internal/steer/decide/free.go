package decide

import (
	"math"
	"time"
)

// isFree tells whether the flows on a path do not fill it: nothing waits in its queue, and nothing is lost. Of
// what comes in, the other end alone knows the round trips and losses, and probes tell of the queue.
func (s *step) isFree(p PathEvidence) bool {
	calm := s.memory(p.Network).Base
	short := func(rtt float64) bool {
		return calm > 0 && rtt > 0 && rtt < s.p.Canary.FreeSRTT*calm+s.p.Memory.JitterFloor
	}
	if d := p.Data; d.Tx >= d.Rx {
		return short(d.SRTT) && d.Retrans == 0
	}
	return short(p.Probe.RTT)
}

// judgeFree is about a canary that does not fill its path. Connections bring their windows along, which on a
// path of a longer round trip carry less until they have grown: what it gives is more than it shows. It goes
// on while that grows, and takes all flows once those that it has get about what they got before: BBR keeps
// to that for many round trips (Cardwell et al. 2016).
func (s *step) judgeFree(ev PairEvidence, b figure, rate float64, need Need) (Decision, bool) {
	t, by := &s.Trial, &s.p.Canary
	full := t.Full >= min(t.Rates.N, by.FullSamples) // a stall of the machine looks like a queue
	if need != Throughput || full || s.overdue(ev.At) {
		return Decision{}, false
	}
	theirs, _ := t.Theirs.median(1)
	ours, _ := t.Ours.median(1)
	doubt := s.acceptAt(ev.At) * s.trialNoise(ev, need) / math.Sqrt(float64(min(t.Rates.N, window)))
	if g := gain(theirs, ours); g > doubt && s.pays(ev, g) {
		s.leave(ev, ours, theirs)
		return s.accept(ev, b, figure{mid: ours}, g), true
	}
	if had := t.Before * float64(t.Buckets) / Buckets; rate >= by.Kept*had && s.mayGrow(ev.At) {
		return s.grow(ev), true
	}
	if t.First == 0 {
		t.First = rate
	}
	grown := rate >= t.First*(1+by.Growth*float64(t.Rates.N))
	if t.Rates.N < by.FreeSamples || grown && t.Rates.N < by.SamplesMost {
		return s.canary(ev), true
	}
	return Decision{}, false
}

// growing: windows that flows have brought to the active path do not fill it yet. What it gives is known once
// they do; another path that is filled sooner may give less.
func (s *step) growing(at time.Duration, active PathEvidence) bool {
	if s.p.Track.Grows <= 0 || !s.isFree(active) {
		return false
	}
	now, ok := s.Track.Rate.median(s.p.Track.RateSamples)
	return ok && now > s.p.Track.Grows*s.Track.Mean || at-s.Since < s.p.Track.GrowsFor
}

// leave records of the active path, which is left for gain, what it gave against the other one, if it was not there
// for long enough to be measured: what nothing is known of is soon tried again.
func (s *step) leave(ev PairEvidence, ours, theirs float64) {
	m := s.memory(ev.Active)
	if active, ok := ev.path(ev.Active); ok && !m.Measured {
		s.measure(active, ev.Load, ours, s.Track.noise(&s.p.Track), ev.At)
		m.Against = theirs
	}
}
