package decide

import "math"

// Track follows the active path's own figures.
type Track struct {
	Rate ring    `json:"rate"`
	Mean float64 `json:"mean"`
	// Samples are those that the mean is of.
	Samples int     `json:"samples,omitempty"`
	Noise   float64 `json:"noise"`
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
		t.Mean, t.Samples, t.Noise = rate, 1, p.NoiseFirst
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
	t.Samples++
	t.Mean += max(p.MeanWeight, 1/float64(t.Samples)) * (rate - t.Mean)
	if now, ok := t.Rate.median(window); ok && now > 0 && t.strays(now, p) {
		t.Mean, t.Samples = now, 1
	}
}

// strays reports whether the mean is elsewhere than the recent median: what it has of before, as of a connection that
// has just begun, would be in it for seconds.
func (t *Track) strays(now float64, p *TrackParams) bool {
	return math.Abs(math.Log(t.Mean/now)) >= p.MeanWithin*t.noise(p)
}

// rate is what the path carries: the mean of some two seconds since that last changed, or as long as it is of few
// samples the recent median.
func (t *Track) rate(p *TrackParams) (float64, bool) {
	now, ok := t.Rate.median(p.RateSamples)
	if ok && now > 0 && t.Samples > window && !t.strays(now, p) {
		return t.Mean, true
	}
	return now, ok
}

// noise is the scatter by which evidence is scaled, within bounds.
func (t *Track) noise(p *TrackParams) float64 { return min(max(t.Noise, p.NoiseLeast), p.NoiseMost) }
