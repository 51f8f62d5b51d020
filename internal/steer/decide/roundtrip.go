package decide

import "time"

// observeProbe keeps the calm round trip: quick to fall, slow to rise, and
// blind to how far an outlier lies out.
func (m *Memory) observeProbe(p PathEvidence, by *MemoryParams) {
	if p.Probe.Samples == 0 || p.Probe.RTT <= 0 {
		return
	}
	rtt := p.Probe.RTT
	m.RTTs.add(rtt)
	switch {
	case m.Base == 0:
		m.Base = rtt
	case rtt < m.Base:
		m.Base += by.CalmDown * (rtt - m.Base)
	default:
		m.Base += by.CalmUp * (min(rtt, by.CalmClip*m.Base) - m.Base)
	}
}

// observeEased notices that a path is no more as it was when its rate was measured: probes
// come back in a fraction of the time, as what others had there has gone. What was measured
// then is no bound any more. Flows of the pair's own make a queue too, so that the time to
// compare with is taken until a while after they have left.
func (s *step) observeEased(m *Memory, p PathEvidence, at time.Duration) {
	by := &s.p.Memory
	now, ok := m.RTTs.median(window)
	if p.Buckets > 0 {
		m.LeftAt = at
	}
	switch {
	case !ok || by.EasedAt <= 0 || p.State != Up:
	case at-m.LeftAt <= by.EasedAfter:
		m.Then = now
	case m.Measured && p.Prior <= 0 && m.Then > 0 && by.EasedAt*(now+by.JitterFloor) < m.Then+by.JitterFloor:
		m.Measured, m.Health, m.Then, m.ChangedAt = false, 1, now, at
		m.NextTrial = min(m.NextTrial, max(at, after(m.HealthAt, s.p.Canary.LeastWait)))
	}
}

// inflation is the probes' round trip over its calm value, both above a floor of jitter; 1
// where unknown.
func (m *Memory) inflation(p PathEvidence, floor float64) float64 {
	if p.Probe.Samples == 0 || p.Probe.RTT <= 0 || m.Base <= 0 {
		return 1
	}
	return (p.Probe.RTT + floor) / (m.Base + floor)
}
