package decide

import (
	"cmp"
	"math"
	"slices"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
)

// figure is what one path is expected to give, in the unit of the pair's need:
// bit/s, operations a second, or their geometric mean.
type figure struct {
	path PathEvidence
	// low and high bound mid.
	low, mid, high float64
	// now is the latest single figure: of the active path as seen.
	now   float64
	score float64
}

// opTime is the time of an operation on a path: a round trip, and for what is
// lost the time until it is sent again. A robust need adds the jitter, as TCP's
// timer does (RFC 6298).
func (by *EstimateParams) opTime(p Probe, need Need) float64 {
	t := p.RTT + p.Loss*by.Timeout
	if need == Robust {
		t += by.JitterWeight * p.Jitter
	}
	return t
}

// near is the time t of an operation on a path, or that on the active one where they differ by
// microseconds and sway into each other: idle paths do with the CPU, and a pair that has not
// declared its need is not moved for that. What stays apart is a difference of the paths.
func (s *step) near(ev PairEvidence, path string, t, active float64) float64 {
	declared := ev.Need != Auto && ev.Need != "" && ev.Class == "" // a class is told by its traffic
	if declared || active <= 0 || math.Abs(t-active) >= s.p.Gain.LeastSaved {
		return t
	}
	if s.memory(path).Sway.apart(s.memory(ev.Active).Sway, &s.p.Memory) {
		return t
	}
	return active
}

// need is the pair's need; auto is learned: who wants more than it gets is
// bulk, who does not waits for answers.
func (s *step) need(ev PairEvidence) Need {
	switch {
	case ev.Need != Auto && ev.Need != "":
		return ev.Need
	case s.p.Load.Learn && s.Bulk >= s.p.Load.BulkAt:
		return Throughput
	}
	return Latency
}

// observeOps remembers the latest times of an operation on all paths. Active
// and others are compared by their probes, like with like.
func (s *step) observeOps(ev PairEvidence, need Need) {
	for _, p := range ev.Paths {
		if p.Probe.Samples > 0 && (p.State == Up || p.State == Suspect) {
			s.memory(p.Network).observeOp(s.p.Estimate.opTime(p.Probe, need), &s.p.Memory)
		}
	}
	s.observeOwnLoad(ev)
}

// observeOwnLoad learns what the pair's traffic did to the path that it came to: an idle
// path answers faster than it will once the traffic is on it, so that without a memory
// of this the grass is greener on every other path.
func (s *step) observeOwnLoad(ev PairEvidence) {
	active, _ := ev.path(ev.Active)
	if s.Before <= 0 || ev.At-s.Since < s.p.Memory.OwnAfter || s.Trial.To != "" || active.State != Up {
		return
	}
	m := s.memory(ev.Active)
	if t, ok := m.Ops.median(window); ok && !active.Data.idle() {
		s.Misled = t > s.p.Memory.MisledAt*s.Before
		m.Own, m.OwnAt = min(max(t/s.Before, 1), s.p.Memory.OwnMost), ev.At
	}
	s.Before = 0
}

// ownLoad is by how much the pair's traffic would lengthen an operation on a path
// that it is not on: as seen there, or else as seen on the active one.
func (s *step) ownLoad(ev PairEvidence, network string) float64 {
	if network == ev.Active {
		return 1
	}
	for _, name := range []string{network, ev.Active} {
		if m := s.memory(name); m.Own > 0 {
			return 1 + (m.Own-1)*math.Exp(-(ev.At-m.OwnAt).Seconds()/s.p.Memory.OwnFor.Seconds())
		}
	}
	return 1
}

func (m *Memory) observeOp(t float64, by *MemoryParams) {
	if was, ok := m.Ops.median(1); ok && was > 0 && t > 0 {
		off := min(math.Abs(math.Log(t/was)), by.OpClip)
		m.OpNoise += by.OpWeight * (by.OpDeviation*off - m.OpNoise)
	} else {
		m.OpNoise = by.OpFirst
	}
	m.OpNoise = min(max(m.OpNoise, by.OpLeast), by.OpMost)
	m.Ops.add(t)
	m.Sway.add(t, by)
}

// rate estimates the rate of a path that is not in use: its prior times the
// health last measured on it. With age a bad measurement leaves room for the path
// to have healed. Probes add what they can: a path that loses carries less.
func (s *step) rate(ev PairEvidence, p PathEvidence, active float64) figure {
	m, by := s.memory(p.Network), &s.p.Estimate
	prior := s.prior(p, ev.Load)
	f := figure{path: p}
	if prior <= 0 {
		// Nothing is known: it may be twice as good, it may be nothing.
		f.high = by.Unknown * active
		return f
	}
	f.low, f.mid, f.high = by.PriorLow, 1, by.PriorHigh
	switch {
	case !m.Measured && p.Prior <= 0:
		// What it gave at best in another time is no bound.
		f.high = max(f.high, by.Headroom*s.ceiling(p, ev.Load)/prior)
	case m.Measured:
		age := (ev.At - m.HealthAt).Seconds()
		f.mid = m.Health
		f.low = m.Health * math.Exp(-by.LowDoubt*m.Doubt)
		f.high = m.Health + max(1-m.Health, 0)*(1-math.Exp(-age/by.Recovery))
		f.high += max(by.Headroom*s.ceiling(p, ev.Load)/prior-max(f.high, 1), 0) * (1 - math.Exp(-age/by.Ageing))
	}
	discount := 1 / (1 + by.LossWeight*p.Probe.Loss)
	f.low, f.mid, f.high = f.low*discount*prior, f.mid*discount*prior, f.high*prior
	return f
}

// ceiling is what a path may give at best: what is promised, or as what it gave
// itself may have been when it was impaired, the most that any path gave.
func (s *step) ceiling(p PathEvidence, l Load) float64 {
	if p.Prior > 0 {
		return p.Prior
	}
	return s.top(l)
}

// top is the most that any path gave under this load, or if none is known, any.
func (s *step) top(l Load) (top float64) {
	class := s.class(l)
	for _, m := range s.Paths {
		top = max(top, m.Best[class])
	}
	if top > 0 {
		return top
	}
	for _, m := range s.Paths {
		top = max(top, slices.Max(m.Best[:]))
	}
	return top
}

// figures estimates every path in the unit of the need, the active one first.
func (s *step) figures(ev PairEvidence, need Need) []figure {
	active, _ := ev.path(ev.Active)
	rate := s.activeRate(active, ev.Load)
	out := []figure{s.unit(ev, active, figure{path: active, low: rate, mid: rate, high: rate, now: active.Data.Goodput},
		need)}
	for _, p := range ev.Paths {
		if p.Network != ev.Active && (p.State == Up || p.State == Suspect) {
			out = append(out, s.unit(ev, p, s.rate(ev, p, rate), need))
		}
	}
	score(out, need)
	return out
}

// activeRate is the recent median, or before there is one what is promised.
func (s *step) activeRate(p PathEvidence, l Load) float64 {
	if r, ok := s.Track.rate(&s.p.Track); ok {
		return r
	}
	return s.prior(p, l) * s.memory(p.Network).Health
}

// unit turns an estimated rate into the need's figure.
func (s *step) unit(ev PairEvidence, p PathEvidence, f figure, need Need) figure {
	if need == Throughput {
		return f
	}
	active, _ := ev.path(ev.Active)
	ops, now := 0.0, 0.0
	if t, ok := s.memory(p.Network).Ops.median(1); ok && t > 0 {
		own, _ := s.memory(ev.Active).Ops.median(1)
		ops = 1 / s.near(ev, p.Network, t*s.ownLoad(ev, p.Network), own)
	}
	if t := s.p.Estimate.opTime(p.Probe, need); p.Probe.Samples > 0 && t > 0 {
		now = 1 / s.near(ev, p.Network, t*s.ownLoad(ev, p.Network), s.p.Estimate.opTime(active.Probe, need))
	}
	if need == Latency {
		return figure{path: p, low: s.p.Estimate.OpsLow * ops, mid: ops, high: s.p.Estimate.OpsHigh * ops, now: now}
	}
	mean := func(rate float64) float64 { return math.Sqrt(rate * ops) }
	return figure{path: p, low: mean(f.low), mid: mean(f.mid), high: mean(f.high), now: math.Sqrt(f.now * now)}
}

// score sums z-scores, equation (1) of Atici and Boluk (2020), over the
// features of the need with equal weight, as package rank does. With two paths a z-score is 1 or -1 however
// small the difference, so scores order paths and figures say how much is gained.
func score(f []figure, need Need) {
	add := func(better sample.Better, of func(figure) float64) {
		values, z := make([]float64, len(f)), make([]float64, len(f))
		for i := range f {
			values[i] = of(f[i])
		}
		rank.ZScores(values, better, z)
		for i := range f {
			f[i].score += z[i]
		}
	}
	if need != Latency {
		add(sample.Higher, func(f figure) float64 { return f.mid })
	}
	if need != Throughput {
		add(sample.Lower, func(f figure) float64 { return f.path.Probe.RTT })
		add(sample.Lower, func(f figure) float64 { return f.path.Probe.Jitter })
		add(sample.Lower, func(f figure) float64 { return f.path.Probe.Loss })
	}
}

// rounding is what equal figures may differ by in their last digits, as a part of
// them; tie is that of sums of z-scores, which are of the order of 1.
const rounding, tie = 1e-12, 1e-9

// best orders candidates by score; where scores tie, what gave more under another
// load comes first, then the cheaper one, then the first by name.
func best(candidates []figure) []figure {
	out := slices.Clone(candidates)
	slices.SortFunc(out, func(a, b figure) int {
		c := cmp.Compare(b.score, a.score)
		if math.Abs(b.score-a.score) < tie {
			c = 0
		}
		return cmp.Or(c, cmp.Compare(a.path.CPU, b.path.CPU),
			cmp.Compare(a.path.Network, b.path.Network))
	})
	return out
}

// gainMost represents any gain over a path that gives nothing, as JSON knows no
// infinity.
const gainMost = 100

// gain is b over a, less one, bounded.
func gain(b, a float64) float64 {
	switch {
	case b <= 0:
		return -1
	case a <= 0:
		return gainMost
	}
	return min(b/a-1, gainMost)
}
