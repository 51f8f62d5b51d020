package detect

import (
	"math"
	"math/bits"
	"time"
)

// Accidents counts the connections whose timers have fired on a path that got them through all
// the same, as one does that is full or loses packets: the more, the less one more timer tells.
type Accidents struct {
	n  float64
	at time.Time
}

// Add counts one.
func (a *Accidents) Add(params *Params, now time.Time) {
	a.n, a.at = a.left(params, now)+1, now
}

// Tries is how often a connection's timer has to fire in a row before the path may be what fails
// it: once where there was no accident, and once more each time that they double. As long as half
// of what is sent again gets through, it is no more than about one in the whole time by accident.
func (a *Accidents) Tries(params *Params, now time.Time) int {
	return 1 + bits.Len(uint(math.Round(a.left(params, now))))
}

// left is how many are remembered.
func (a *Accidents) left(params *Params, now time.Time) float64 {
	if a.n == 0 {
		return 0
	}
	return a.n * math.Exp(-float64(max(now.Sub(a.at), 0))/float64(params.AccidentsFor))
}
