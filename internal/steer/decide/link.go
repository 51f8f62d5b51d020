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
	// barred for so many periods more, as flows did not pass; the last time for bar, and
	// since then they have passed for good periods.
	barred, bar, good int
}

const (
	// idleEvery and summedEvery are how many periods apart an agent probes a network
	// that is not in use, and sums its probes up; wellAfter is after how many
	// answers in a row a network that failed is up.
	idleEvery, summedEvery, wellAfter = 2, 10, 10
	// floods is how likely probes are lost when flows come to a network that gives
	// them less than flooded of its capacity, floodFor for how many periods.
	floods, flooded, floodFor = 0.7, 0.25, 4
	// chokes is how likely a probe is lost in a way back that is choked by flows.
	chokes = 0.3
	// A network that flows do not pass is barred for barFirst periods, doubled up to barMost,
	// and for barFirst again once they have passed for longer than barForgotten (package
	// detect).
	barFirst, barMost, barForgotten = 50, 1200, 600
)

// play runs a period: all says that no network passes anything, used that the pair has
// flows there, pressed that they have just come to be more than it carries.
func (l *link) play(r *rand.Rand, o offer, all, used, pressed bool) {
	if pressed && l.flood == 0 && r.Float64() < floods {
		l.flood = floodFor
	}
	lost := o.dead || l.flood > 0
	switch {
	case all:
	case o.dead:
		l.failed = wellAfter * idleEvery
	case l.flood > 0:
		l.failed = 1
		l.flood--
	case l.failed > 0:
		l.failed--
	}
	if one := 1 - o.lost; o.lost > 0 && r.Float64() > one*one || o.choked && used && r.Float64() < chokes {
		lost = true
	}
	l.refuse(o.refused && used, used && !o.dead)
	if l.period++; used || l.period%idleEvery == 0 {
		l.lost[l.n%len(l.lost)] = lost
		l.n++
	}
	if l.period%summedEvery == 0 {
		l.shown = l.ratio()
	}
}

// refuse bars the network when flows on it do not pass.
func (l *link) refuse(refused, used bool) {
	switch {
	case refused && l.barred == 0:
		if l.bar = min(2*l.bar, barMost); l.bar == 0 || l.good > barForgotten {
			l.bar = barFirst
		}
		l.barred, l.good = l.bar, 0
	case l.barred > 0:
		l.barred--
	case used:
		l.good++
	}
}

// reason is why the network is failed; "" where it is not.
func (l *link) reason() string {
	switch {
	case l.failed > 0:
		return "not enough probes were answered since they were not"
	case l.barred > 0:
		return "probes pass and connections do not"
	}
	return ""
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
