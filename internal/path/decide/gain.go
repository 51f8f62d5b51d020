package decide

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// timeout is what a lost packet costs a request: Linux's least
	// retransmission timeout (TCP_RTO_MIN, 200 ms).
	timeout = 0.2
	// trusted is how long a measurement of a path that is not in use counts as
	// it is, and healing how fast a bad one may have become good, in seconds.
	trusted, healing = 30.0, 3.0
	// hope is by how much a path that was impaired whenever it was used may exceed
	// all others: else one that follows a better one is never tried.
	hope = 1.1
	// margin is the least gain worth a thought: below it lies what two builds
	// of one network differ by (docs/method.md: 0.5 to 4.4 % in the median).
	margin = 0.03
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
	// other is what the path gave at best under any load, where nothing is known
	// of this one: it breaks ties.
	other float64
}

// opTime is the time of an operation on a path: a round trip, and for what is
// lost the time until it is sent again. A robust need adds four times the
// jitter, as TCP's timer does (RFC 6298).
func opTime(p Probe, need Need) float64 {
	t := p.RTT + p.Loss*timeout
	if need == Robust {
		t += 4 * p.Jitter
	}
	return t
}

// need is the pair's need; auto is learned: who wants more than it gets is
// bulk, who does not waits for answers.
func (s *State) need(ev PairEvidence) Need {
	switch {
	case ev.Need != Auto && ev.Need != "":
		return ev.Need
	case s.Bulk >= 0.5:
		return Throughput
	}
	return Latency
}

// observeOps remembers the latest times of an operation on all paths. Active
// and others are compared by their probes, like with like.
func (s *State) observeOps(ev PairEvidence, need Need) {
	for _, p := range ev.Paths {
		if p.Probe.Samples > 0 && (p.State == Up || p.State == Suspect) {
			s.memory(p.Network).observeOp(opTime(p.Probe, need))
		}
	}
	s.observeOwn(ev)
}

// Own load: an idle path answers faster than it will once the traffic is on it,
// so that without a memory of this the grass is greener on every other path.
const (
	// settles is when a path shows how it fares with the pair's traffic.
	settles = 2 * time.Second
	// ownMost bounds what is held for the traffic's own doing, ownFor is the time
	// constant with which it is forgotten.
	ownMost, ownFor = 3.0, time.Hour
)

// observeOwn learns what the pair's traffic did to the path that it came to.
func (s *State) observeOwn(ev PairEvidence) {
	active, _ := ev.path(ev.Active)
	if s.Before <= 0 || ev.At-s.Since < settles || s.Trial.To != "" || active.State != Up {
		return
	}
	m := s.memory(ev.Active)
	if t, ok := m.Ops.median(window); ok && !active.Data.idle() {
		m.Own, m.OwnAt = min(max(t/s.Before, 1), ownMost), ev.At
	}
	s.Before = 0
}

// own is by how much the pair's traffic would lengthen an operation on a path
// that it is not on: as seen there, or else as seen on the active one.
func (s *State) own(ev PairEvidence, network string) float64 {
	if network == ev.Active {
		return 1
	}
	for _, name := range []string{network, ev.Active} {
		if m := s.memory(name); m.Own > 0 {
			return 1 + (m.Own-1)*math.Exp(-seconds(ev.At-m.OwnAt)/ownFor.Seconds())
		}
	}
	return 1
}

func (m *Memory) observeOp(t float64) {
	if was, ok := m.Ops.median(1); ok && was > 0 && t > 0 {
		off := min(math.Abs(math.Log(t/was)), 0.5)
		m.OpNoise += 0.05 * (1.25*off - m.OpNoise)
	} else {
		m.OpNoise = 0.1
	}
	m.OpNoise = min(max(m.OpNoise, 0.03), 0.5)
	m.Ops.add(t)
}

// rate estimates the rate of a path that is not in use: its prior times the
// health last measured on it. With age a good measurement becomes less sure,
// and a bad one leaves room for the path to have healed. Probes add what they
// can: a path whose round trip has grown is shared, one that loses carries less.
func (s *State) rate(ev PairEvidence, p PathEvidence, active float64) figure {
	m := s.memory(p.Network)
	prior := m.prior(p, ev.Load)
	f := figure{path: p}
	if prior <= 0 {
		// Nothing is known: it may be twice as good, it may be nothing.
		f.high, f.other = 2*active, slices.Max(m.Best[:])
		return f
	}
	f.low, f.mid, f.high = 0.9, 1, 1.1
	switch {
	case !m.Measured && p.Prior <= 0:
		// What it gave at best in another time is no bound.
		f.high = max(f.high, hope*s.ceiling(p, ev.Load)/prior)
	case m.Measured:
		age := seconds(ev.At - m.HealthAt)
		f.mid = m.Health
		f.low = m.Health * (1 - 0.1*(1-math.Exp(-age/trusted)))
		f.high = m.Health + max(1-m.Health, 0)*(1-math.Exp(-age/healing))
		f.high += max(hope*s.ceiling(p, ev.Load)/prior-max(f.high, 1), 0) * (1 - math.Exp(-age/trusted))
	}
	discount := 1 / (1 + 10*p.Probe.Loss)
	if m.inflation(p) > 2 && (!m.Measured || ev.At-m.HealthAt > recent) {
		discount *= 0.5
	}
	f.low, f.mid, f.high = f.low*discount*prior, f.mid*discount*prior, f.high*max(discount, 0.5)*prior
	return f
}

// ceiling is what a path may give at best: what is promised, or as what it gave
// itself may have been when it was impaired, the most that any path gave.
func (s *State) ceiling(p PathEvidence, l Load) float64 {
	if p.Prior > 0 {
		return p.Prior
	}
	return s.top(l)
}

// top is the most that any path gave under this load, or if none is known, any.
func (s *State) top(l Load) (top float64) {
	for _, m := range s.Paths {
		top = max(top, m.Best[l.class()])
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
func (s *State) figures(ev PairEvidence, need Need) []figure {
	active, _ := ev.path(ev.Active)
	rate := s.activeRate(active, ev.Load)
	out := []figure{s.unit(ev, active, figure{path: active, low: rate, mid: rate, high: rate, now: active.Data.Goodput}, need)}
	for _, p := range ev.Paths {
		if p.Network != ev.Active && (p.State == Up || p.State == Suspect) {
			out = append(out, s.unit(ev, p, s.rate(ev, p, rate), need))
		}
	}
	score(out, need)
	return out
}

// activeRate is the recent median, or before there is one what is promised.
func (s *State) activeRate(p PathEvidence, l Load) float64 {
	if r, ok := s.Track.rate(); ok {
		return r
	}
	m := s.memory(p.Network)
	return m.prior(p, l) * m.Health
}

// unit turns an estimated rate into the need's figure.
func (s *State) unit(ev PairEvidence, p PathEvidence, f figure, need Need) figure {
	if d := ev.Load.Offered; d > 0 {
		// What is not asked for is no gain.
		f.low, f.mid, f.high = min(f.low, d), min(f.mid, d), min(f.high, d)
	}
	if need == Throughput {
		return f
	}
	ops := 0.0
	if t, ok := s.memory(p.Network).Ops.median(1); ok && t > 0 {
		ops = 1 / (t * s.own(ev, p.Network))
	}
	now := 0.0
	if t := opTime(p.Probe, need); p.Probe.Samples > 0 && t > 0 {
		now = 1 / (t * s.own(ev, p.Network))
	}
	if need == Latency {
		return figure{path: p, low: 0.97 * ops, mid: ops, high: 1.03 * ops, now: now}
	}
	mean := func(rate float64) float64 { return math.Sqrt(rate * ops) }
	return figure{path: p, low: mean(f.low), mid: mean(f.mid), high: mean(f.high), now: math.Sqrt(f.now * now)}
}

// score sums z-scores, equation (1) of Atici and Boluk (2020), over the
// features of the need with equal weight; the population deviation and the
// signs are those of package rank. With two paths a z-score is 1 or -1 however
// small the difference, so scores order paths and figures say how much is gained.
func score(f []figure, need Need) {
	add := func(sign float64, of func(figure) float64) {
		values := make([]float64, len(f))
		for i := range f {
			values[i] = of(f[i])
		}
		for i, z := range zScores(values, sign) {
			f[i].score += z
		}
	}
	if need != Latency {
		add(1, func(f figure) float64 { return f.mid })
	}
	if need != Throughput {
		add(-1, func(f figure) float64 { return f.path.Probe.RTT })
		add(-1, func(f figure) float64 { return f.path.Probe.Jitter })
		add(-1, func(f figure) float64 { return f.path.Probe.Loss })
	}
}

// zScores are (value - mean) / population deviation, times sign; 0 where the
// values do not differ by more than rounding.
func zScores(values []float64, sign float64) []float64 {
	n := float64(len(values))
	mu, squares := 0.0, 0.0
	for _, v := range values {
		mu += v / n
	}
	for _, v := range values {
		squares += (v - mu) * (v - mu)
	}
	out := make([]float64, len(values))
	sigma := math.Sqrt(squares / n)
	if sigma <= 1e-12*math.Abs(mu) {
		return out
	}
	for i, v := range values {
		out[i] = sign * (v - mu) / sigma
	}
	return out
}

// best orders candidates by score; where scores tie, what gave more under another
// load comes first, then the cheaper one, then the first by name.
func best(candidates []figure) []figure {
	out := slices.Clone(candidates)
	slices.SortFunc(out, func(a, b figure) int {
		c := cmp.Compare(b.score, a.score)
		if math.Abs(b.score-a.score) < 1e-9 {
			c = 0
		}
		return cmp.Or(c, cmp.Compare(b.other, a.other), cmp.Compare(a.path.CPU, b.path.CPU), cmp.Compare(a.path.Network, b.path.Network))
	})
	return out
}

// gain is b over a, less one; bounded, for a path that gives nothing.
func gain(b, a float64) float64 {
	switch {
	case b <= 0:
		return -1
	case a <= 0:
		return 100
	}
	return min(b/a-1, 100)
}
