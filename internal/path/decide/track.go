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
	// Young is how many more samples are left out: of a load that has changed they
	// show connections that begin or end, not what the path carries.
	Young int `json:"young,omitempty"`
}

// youth is the samples of new connections that say nothing: TCP begins with ten
// segments (RFC 6928) and doubles them each round trip.
const youth = 2

// observe keeps a recent window, a slow baseline and the scatter between samples.
func (t *Track) observe(d Data) {
	if t.Young > 0 {
		t.Young--
		return
	}
	rate := d.Goodput
	if t.Full++; d.AppLimited {
		t.Full = 0
	}
	if t.Base == 0 {
		t.Base, t.Mean, t.SRTT, t.Noise, t.Retran = rate, rate, d.SRTT, 0.1, d.Retrans
		t.Rate.add(rate)
		return
	}
	if rate > 0 && t.Base > 0 {
		// Scatter around the recent median, bounded so that a spike does not
		// hide the next ones.
		if m, ok := t.Rate.median(1); ok && m > 0 {
			off := min(math.Abs(math.Log(rate/m)), 0.3)
			t.Noise += 0.05 * (1.25*off - t.Noise)
		}
	}
	t.Rate.add(rate)
	t.Mean += 0.1 * (rate - t.Mean)
	switch {
	case d.AppLimited, rate > t.Base:
		t.Base += 0.2 * (rate - t.Base)
	default:
		t.Base += 0.01 * (rate - t.Base)
	}
	if d.SRTT > 0 {
		t.SRTT += 0.01 * (min(d.SRTT, 2*t.SRTT) - t.SRTT)
		if t.SRTT == 0 || d.SRTT < t.SRTT {
			t.SRTT = d.SRTT
		}
	}
	if t.strained(d) {
		t.Strain = min(t.Strain+1, window)
	} else {
		t.Strain = max(t.Strain-1, 0)
	}
	t.Retran += 0.01 * (min(d.Retrans, 0.05) - t.Retran)
}

// rate is what the path carries: the mean of some two seconds, or where the
// recent median is elsewhere, so that it has changed, that.
func (t *Track) rate() (float64, bool) {
	now, ok := t.Rate.median(least)
	if ok && now > 0 && t.Rate.N > window && math.Abs(math.Log(t.Mean/now)) < 2*t.noise() {
		return t.Mean, true
	}
	return now, ok
}

// strained tells whether the path itself shows why it carries less: a longer
// round trip, or more retransmissions, than its own baseline. Senders that
// merely send less show neither.
func (t *Track) strained(d Data) bool {
	return d.RTOs > 0 || (t.SRTT > 0 && d.SRTT > 1.5*t.SRTT) || d.Retrans > 2*t.Retran+0.01
}

// noise is the scatter by which evidence is scaled: bounded from below, since
// a calm minute must not make the next ripple a signal.
func (t *Track) noise() float64 { return min(max(t.Noise, 0.04), 0.3) }

// collapsed tells whether the active path carries less than half of what it
// did, with the cause seen on the path.
func (t *Track) collapsed() bool {
	now, ok := t.Rate.median(3)
	return ok && t.Base > 0 && now < t.Base/2 && t.Strain >= 3
}
