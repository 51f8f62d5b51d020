package stat

import "math"

// looks are the numbers of blocks at which a comparison that is looked at while it runs
// may be decided. They grow by about a half, since every further look costs confidence.
func looks() []int { return []int{2, 3, 5, 8, 12, 18, 27, 40} }

// NextLook is the number of blocks, above n, at which a comparison is looked at next. Behind
// the last look it is one block more.
func NextLook(n int) int {
	for _, l := range looks() {
		if l > n {
			return l
		}
	}
	return n + 1
}

// Shares of the error that each single look may make, so that all of them, and one at the
// number of blocks at which the run's time is over, make the whole: of the smallest
// p-value of t tests at those looks, on normal values without a difference, the 5 %
// quantile is 0.0078, and 0.0144 where spreads are known by 4 degrees of freedom more
// (TestSequentialError). A constant level for all looks is Pocock's rule (Jennison and
// Turnbull 2000, section 2.4; for t tests section 4.4).
const (
	spent         = 0.0078 / 0.05
	spentBorrowed = 0.0144 / 0.05
	muchBorrowed  = 4
)

// Sequential is the level at which each look is made, with the prior, where level is to hold
// for all looks together, whichever of them ends the comparison.
func (p Prior) Sequential(level float64) float64 {
	if p.DF >= muchBorrowed {
		return 1 - (1-level)*spentBorrowed
	}
	return 1 - (1-level)*spent
}

// Blocks is how many blocks are expected to narrow the interval to the half width half: of
// a ratio that of its logarithm, of a mean as a part of it. It is most at the most, and N
// or more. An interval without bounds wants one block more than it has, or two.
func (i Interval) Blocks(half float64, most int) int {
	has := i.RelHalfWidth()
	if i.Method == RatioPaired || i.Method == RatioWelch {
		has = (math.Log(i.High) - math.Log(i.Low)) / 2
	}
	if math.IsInf(has, 0) || math.IsNaN(has) || i.N < 2 {
		return min(max(i.N+1, 2), most)
	}
	one := has * math.Sqrt(float64(i.N)) / i.quantile(i.N)
	for n := i.N; n < most; n++ {
		if i.quantile(n)*one/math.Sqrt(float64(n)) <= half {
			return n
		}
	}
	return most
}

// quantile is that of Student's t by which the interval of n blocks is wide.
func (i Interval) quantile(n int) float64 {
	return TQuantile((1+i.Level)/2, float64(n-1)+i.Borrowed)
}
