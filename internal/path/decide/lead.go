package decide

import "math"

const (
	// threshold of the sums of log-likelihood ratios: the mean time to a false
	// alarm is at least near exp(threshold) samples (Page 1954; Lorden 1971),
	// at 100 ms 10 days. No sample counts for more than clip, so that it takes
	// four to reach the threshold however far out one of them lies: one spike of
	// the scheduler spoils two samples at the most.
	threshold, clip = 16.0, 4.0
	// block is the number of samples in a block of the slow sum; its threshold
	// is lower by ln(block), which makes false alarms as rare in time.
	block         = 20
	slowThreshold = threshold - 3.0
)

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
func (l *Lead) add(log, noise float64) {
	l.Fast = climb(l.Fast, log, noise)
	// Outliers are bounded before they enter a mean.
	l.Sum += min(max(log, -clip*noise), clip*noise)
	if l.N++; l.N == block {
		l.Slow = climb(l.Slow, l.Sum/block, noise/math.Sqrt(block))
		l.Sum, l.N = 0, 0
	}
}

// climb adds the log-likelihood ratio of one normal figure, bounded.
func climb(sum, v, noise float64) float64 {
	drift := max(margin, noise/2)
	x := (v - drift) / noise * (2 * drift / noise)
	return max(0, min(sum+min(max(x, -clip), clip), 2*threshold))
}

func (l Lead) proved() bool { return l.part() >= 1 }

// part is the evidence as a part of what is needed, up to 1.
func (l Lead) part() float64 { return min(max(l.Fast/threshold, l.Slow/slowThreshold), 1) }
