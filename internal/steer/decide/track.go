package decide

import "math"

// Track follows the active path's own figures.
type Track struct {
	Base   float64 `json:"base"`
	SRTT   float64 `json:"srtt"`
	Rate   ring    `json:"rate"`
	Mean   float64 `json:"mean"`
	Noise  float64 `json:"noise"`
	Retran float64 `json:"retrans"`
	Strain int     `json:"strain"`
	// Full counts the samples in a row in which the senders were not short of data.
	Full int `json:"full"`
	// SlowStart is how many more samples are left out: of a load that has changed they
	// show connections that begin or end, not what the path carries.
	SlowStart int `json:"slow_start,omitempty"`
}

// observe keeps a recent window, a slow baseline and the scatter between samples.
func (t *Track) observe(d Data, p *TrackParams) {
	if t.SlowStart > 0 {
		t.SlowStart--
		return
	}
	rate := d.Goodput
	if t.Full++; d.AppLimited {
		t.Full = 0
	}
	if t.Base == 0 {
		t.Base, t.Mean, t.SRTT, t.Noise, t.Retran = rate, rate, d.SRTT, p.NoiseFirst, d.Retrans
		t.Rate.add(rate)
		return
	}
	if rate > 0 && t.Base > 0 {
		// Scatter around the recent median, bounded so that a spike does not
		// hide the next ones.
		if m, ok := t.Rate.median(1); ok && m > 0 {
			off := min(math.Abs(math.Log(rate/m)), p.NoiseClip)
			t.Noise += p.NoiseWeight * (p.Deviation*off - t.Noise)
		}
	}
	t.Rate.add(rate)
	t.Mean += p.MeanWeight * (rate - t.Mean)
	switch {
	case d.AppLimited, rate > t.Base:
		t.Base += p.BaseUp * (rate - t.Base)
	default:
		t.Base += p.BaseDown * (rate - t.Base)
	}
	if d.SRTT > 0 {
		t.SRTT += p.SRTTWeight * (min(d.SRTT, p.SRTTClip*t.SRTT) - t.SRTT)
		if t.SRTT == 0 || d.SRTT < t.SRTT {
			t.SRTT = d.SRTT
		}
	}
	if t.strained(d, p) {
		t.Strain = min(t.Strain+1, window)
	} else {
		t.Strain = max(t.Strain-1, 0)
	}
	t.Retran += p.RetransWeight * (min(d.Retrans, p.RetransClip) - t.Retran)
}

// rate is what the path carries: the mean of some two seconds, or where the
// recent median is elsewhere, so that it has changed, that.
func (t *Track) rate(p *TrackParams) (float64, bool) {
	now, ok := t.Rate.median(p.RateSamples)
	if ok && now > 0 && t.Rate.N > window && math.Abs(math.Log(t.Mean/now)) < p.MeanWithin*t.noise(p) {
		return t.Mean, true
	}
	return now, ok
}

// strained tells whether the path itself shows why it carries less: a longer
// round trip, or more retransmissions, than its own baseline. Senders that
// merely send less show neither.
func (t *Track) strained(d Data, p *TrackParams) bool {
	return d.RTOs > 0 || (t.SRTT > 0 && d.SRTT > p.StrainSRTT*t.SRTT) ||
		d.Retrans > p.StrainRetrans*t.Retran+p.StrainRetransLeast
}

// noise is the scatter by which evidence is scaled, within bounds.
func (t *Track) noise(p *TrackParams) float64 { return min(max(t.Noise, p.NoiseLeast), p.NoiseMost) }

// collapsed tells whether the active path carries far less than it did, with the
// cause seen on the path.
func (t *Track) collapsed(p *TrackParams) bool {
	now, ok := t.Rate.median(p.RateSamples)
	return ok && t.Base > 0 && now < t.Base*p.CollapseBelow && t.Strain >= p.CollapseStrain
}
