package decide

import "math"

// Track follows the active path's own figures.
type Track struct {
	Rate  ring    `json:"rate"`
	Mean  float64 `json:"mean"`
	Noise float64 `json:"noise"`
	// Full counts the samples in a row in which the senders were not short of data.
	Full int `json:"full"`
	// SlowStart is how many more samples are left out: of a load that has changed they
	// show connections that begin or end, not what the path carries.
	SlowStart int `json:"slow_start,omitempty"`
}

// observe keeps a recent window, the mean and the scatter between samples.
func (t *Track) observe(d Data, p *TrackParams) {
	if t.SlowStart > 0 {
		t.SlowStart--
		return
	}
	rate := d.Goodput
	if t.Full++; d.AppLimited {
		t.Full = 0
	}
	if t.Mean == 0 {
		t.Mean, t.Noise = rate, p.NoiseFirst
		t.Rate.add(rate)
		return
	}
	if rate > 0 {
		// Scatter around the recent median, bounded so that a spike does not
		// hide the next ones.
		if m, ok := t.Rate.median(1); ok && m > 0 {
			off := min(math.Abs(math.Log(rate/m)), p.NoiseClip)
			t.Noise += p.NoiseWeight * (p.Deviation*off - t.Noise)
		}
	}
	t.Rate.add(rate)
	t.Mean += p.MeanWeight * (rate - t.Mean)
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

// noise is the scatter by which evidence is scaled, within bounds.
func (t *Track) noise(p *TrackParams) float64 { return min(max(t.Noise, p.NoiseLeast), p.NoiseMost) }
