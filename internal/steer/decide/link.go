package decide

import (
	"math/rand/v2"
)

// link is what an agent's probes of a network look back over, for the schedules
// of Simulate that are bare.
type link struct {
	lost [256]bool
	n    int
	// shown is the loss that was last summed up.
	shown float64
	// failed until so many periods from now; flood is for how many more the
	// network's queue is full.
	failed, flood int
	period        int
}

const (
	// idleEvery and summedEvery are how many periods apart an agent probes a network
	// that is not in use, and sums its probes up; wellAfter is after how many
	// answers in a row a network that failed is up.
	idleEvery, summedEvery, wellAfter = 2, 10, 10
	// floods is how likely probes are lost when flows come to a network that gives
	// them less than flooded of its capacity, floodFor for how many periods.
	floods, flooded, floodFor = 0.7, 0.25, 4
)

// play runs a period: dead says that nothing passes, used that the pair has
// flows there, pressed that they have just come to be more than it carries.
func (l *link) play(r *rand.Rand, dead, used, pressed bool) {
	if pressed && l.flood == 0 && r.Float64() < floods {
		l.flood = floodFor
	}
	lost := dead || l.flood > 0
	switch {
	case dead:
		l.failed = wellAfter * idleEvery
	case l.flood > 0:
		l.failed = 1
		l.flood--
	case l.failed > 0:
		l.failed--
	}
	if l.period++; used || l.period%idleEvery == 0 {
		l.lost[l.n%len(l.lost)] = lost
		l.n++
	}
	if l.period%summedEvery == 0 {
		l.shown = l.ratio()
	}
}

// ratio is the share of the probes that were lost.
func (l *link) ratio() float64 {
	n, lost := min(l.n, len(l.lost)), 0
	if n == 0 {
		return 0
	}
	for _, v := range l.lost[:n] {
		if v {
			lost++
		}
	}
	return float64(lost) / float64(n)
}
