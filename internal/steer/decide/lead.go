package decide

import "math"

// Lead is the evidence that a path is better than the active one: two
// one-sided CUSUMs (Page 1954) over the logarithm of their ratio. The fast one
// takes each sample and sees a collapse within half a second; the slow one
// takes means of blocks and sees what lies below the scatter of a sample.
type Lead struct {
	Fast float64 `json:"fast"`
	Slow float64 `json:"slow"`
	// Sum and N of the block that is being filled.
	Sum float64 `json:"sum"`
	N   int     `json:"n"`
	// Skipped samples since the last that counted.
	Skipped int `json:"skipped"`
}

// due reports whether a sample counts, of which one in n does.
func (l *Lead) due(n int) bool {
	if l.Skipped++; l.Skipped < n {
		return false
	}
	l.Skipped = 0
	return true
}

// add counts one sample. The sums test for a shift of twice the drift: the
// margin, or half the scatter where that is more.
func (l *Lead) add(log, noise float64, p *Params) {
	l.Fast = climb(l.Fast, log, noise, p)
	// Outliers are bounded before they enter a mean.
	l.Sum += min(max(log, -p.Lead.Clip*noise), p.Lead.Clip*noise)
	if l.N++; l.N >= p.Lead.Block {
		n := float64(l.N)
		l.Slow = climb(l.Slow, l.Sum/n, noise/math.Sqrt(n), p)
		l.Sum, l.N = 0, 0
	}
}

// climb adds the log-likelihood ratio of one normal figure, bounded.
func climb(sum, v, noise float64, p *Params) float64 {
	drift := max(p.Gain.Margin, noise*p.Lead.DriftNoise)
	x := (v - drift) / noise * (2 * drift / noise)
	return max(0, min(sum+min(max(x, -p.Lead.Clip), p.Lead.Clip), 2*p.Lead.Threshold))
}

// proved tells whether the evidence is enough.
func (l Lead) proved(p *LeadParams) bool { return l.part(p) >= 1 }

// part is the evidence as a part of what is needed, up to 1.
func (l Lead) part(p *LeadParams) float64 {
	if p.Threshold <= 0 {
		return 1
	}
	return min(max(l.Fast/p.Threshold, l.Slow/p.SlowThreshold), 1)
}
