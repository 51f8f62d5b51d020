package stat

import (
	"math"
	"slices"
)

// Blocks holds one value per block. A block is a round of the experiment in
// which every network is measured once (its number is the repetition), so
// values of the same block share what the machine did at that time.
type Blocks map[int]float64

// Values returns the values in the order of their blocks.
func (b Blocks) Values() []float64 {
	out := make([]float64, 0, len(b))
	for _, k := range b.keys() {
		out = append(out, b[k])
	}
	return out
}

func (b Blocks) keys() []int {
	keys := make([]int, 0, len(b))
	for k := range b {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// RatioT is num over den with an interval, taken on logarithms: ratios
// multiply, and an interval of logs is never negative. Where at least two
// blocks, and at least half of each side's, are shared, the log ratios of the
// shared blocks are a sample of their own (paired, n-1 degrees of freedom),
// which takes out what the machine did to the whole block; else the two sides
// are independent (Welch). The centre is the ratio of geometric means.
//
// A value that is zero or negative has no logarithm. The centre is then the
// ratio of arithmetic means, with no interval and a warning.
func RatioT(num, den Blocks, level float64) Interval {
	return Prior{}.RatioT(num, den, level)
}

// RatioT is RatioT with the spread of paired ratios moderated by the prior.
func (p Prior) RatioT(num, den Blocks, level float64) Interval {
	pairs := logRatios(num, den)
	if !paired(len(pairs), len(num), len(den)) {
		return RatioIndependent(num.Values(), den.Values(), level)
	}
	out := newRatio(RatioPaired, len(pairs), len(num)+len(den)-2*len(pairs), level)
	m := momentsOf(pairs)
	variance, df := p.moderate(m.sd*m.sd, float64(m.n-1))
	out.Borrowed = p.DF
	out.setLog(m.mean, math.Sqrt(variance/float64(m.n)), df)
	return out
}

// RatioIndependent is RatioT for sides that share no blocks, such as two runs.
func RatioIndependent(num, den []float64, level float64) Interval {
	num, droppedNum := finiteOnly(num)
	den, droppedDen := finiteOnly(den)
	out := newRatio(RatioWelch, min(len(num), len(den)), 0, level)
	if dropped := droppedNum + droppedDen; dropped > 0 {
		out.warn("not-finite", "%d values that are not finite numbers were left out", dropped)
	}
	if out.N == 0 {
		return out
	}
	if !positive(num) || !positive(den) {
		out.Method, out.Low = RatioOfMeans, math.Inf(-1)
		out.Center = quotient(momentsOf(num).mean, momentsOf(den).mean)
		out.warn("zero", "values of 0 or less have no log ratio: no interval")
		return out
	}
	d := difference(momentsOf(logs(num)), momentsOf(logs(den)))
	out.setLog(d.delta, d.stderr, d.df)
	return out
}

// newRatio is a ratio of n values a side of which nothing is known yet.
func newRatio(method string, n, unshared int, level float64) Interval {
	out := Interval{Center: math.NaN(), Low: 0, High: math.Inf(1), N: n, Level: level, Method: method}
	out.Warnings = inputWarnings(n, 0)
	if unshared > 0 {
		out.warn("blocks", "%d values without a partner in their block were left out", unshared)
	}
	if !validLevel(level) {
		out.warn("level", "level %g is not between 0 and 1", level)
	}
	return out
}

// Relative is (b/baseB) / (a/baseA), each side divided block by block by its
// own run's baseline: the change from a to b that the baseline did not share.
// The two runs' blocks have nothing in common but their numbers, so the sides
// are independent (RatioIndependent). Blocks without a positive value on both
// sides of a division are left out. The Test is that of no change.
func Relative(a, baseA, b, baseB Blocks, level float64) (Interval, Test) {
	ra, rb := over(a, baseA), over(b, baseB)
	return RatioIndependent(rb, ra, level), Welch(ra, rb)
}

// RelativeShift is the shift behind Relative.
func RelativeShift(a, baseA, b, baseB Blocks) (Shift, bool) {
	return ShiftOf(over(a, baseA), over(b, baseB))
}

// over divides block by block, where both values are positive.
func over(num, den Blocks) (out []float64) {
	for _, k := range num.keys() {
		if d, ok := den[k]; ok && d > 0 && num[k] > 0 && isFinite(d) && isFinite(num[k]) {
			out = append(out, num[k]/d)
		}
	}
	return out
}

// setLog fills centre and bounds from an estimate on the log scale.
func (i *Interval) setLog(center, stderr, df float64) {
	i.Center = math.Exp(center)
	if !validLevel(i.Level) || !(df > 0) {
		return
	}
	half := TQuantile((1+i.Level)/2, df) * stderr
	i.Low, i.High = math.Exp(center-half), math.Exp(center+half)
	if stderr == 0 {
		i.warn("constant", "the values do not vary: the width 0 is no proof of certainty")
	}
}

// paired tells whether enough blocks are shared to throw the others away.
func paired(shared, a, b int) bool { return shared >= 2 && 2*shared >= max(a, b) }

// logRatios divides the shared blocks; nil when any value of either side has
// no logarithm, since leaving out just those would favour the others.
func logRatios(num, den Blocks) (out []float64) {
	if !positive(num.Values()) || !positive(den.Values()) {
		return nil
	}
	return logs(over(num, den))
}

func positive(values []float64) bool {
	for _, v := range values {
		if !(v > 0) || math.IsInf(v, 1) {
			return false
		}
	}
	return true
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
