package decide

import "math"

// Sway is how the time of an operation on a path sways: the mean and the variance of its
// logarithm, weighted towards the latest.
type Sway struct {
	Samples  int     `json:"samples,omitempty"`
	Mean     float64 `json:"mean,omitempty"`
	Variance float64 `json:"variance,omitempty"`
}

// add counts a time in seconds. The first ones weigh the same.
func (w *Sway) add(t float64, by *MemoryParams) {
	if t <= 0 {
		return
	}
	w.Samples++
	weight := max(1/float64(w.Samples), 1-math.Exp(-Period.Seconds()/by.SwayFor.Seconds()))
	off := math.Log(t) - w.Mean
	if w.Samples > 1 {
		off = min(max(off, -by.OpClip), by.OpClip)
	}
	w.Mean += weight * off
	if w.Samples > 1 {
		w.Variance += weight * (off*off - w.Variance)
	}
}

// apart reports whether the times of two paths differ by more than they sway. Samples that follow
// each other are no independent ones: a path stays at one time for seconds.
func (w Sway) apart(v Sway, by *MemoryParams) bool {
	n, m := w.stays(by), v.stays(by)
	return min(n, m) >= 2 && math.Abs(w.Mean-v.Mean) > by.SwayErrors*math.Sqrt(w.Variance/(n-1)+v.Variance/(m-1))
}

// stays is how many independent times were seen.
func (w Sway) stays(by *MemoryParams) float64 {
	return by.SwayStays * min(1, float64(w.Samples)*Period.Seconds()/(2*by.SwayFor.Seconds()))
}
