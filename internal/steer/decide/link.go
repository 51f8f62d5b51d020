package decide

import (
	"math/rand/v2"
)

// link is what an agent's probes of a network look back over, for the schedules
// of Play that are bare.
type link struct {
	lost [256]bool
	n    int
	// shown is the loss that was last summed up.
	shown float64
	// failed until so many periods from now; flood is for how many more the
	// network's queue is full.
	failed, flood int
	period        int
	// barred for so many periods more, as flows did not pass, since the bar before it was
	// over for good ones. They did not pass first known periods ago, and last when that was
	// outage.
	barred, good, known, outage int
}

const (
	// idleEvery and summedEvery are how many periods apart an agent probes a network
	// that is not in use, and sums its probes up; wellAfter is after how many periods a
	// network that failed has answered often enough to be up.
	idleEvery, summedEvery, wellAfter = 2, 10, 3
	// floods is how likely probes are lost when flows come to a network that gives
	// them less than flooded of its capacity, floodFor for how many periods.
	floods, flooded, floodFor = 0.7, 0.25, 4
	// chokes is how likely a probe is lost in a way back that is choked by flows.
	chokes = 0.3
	// A network that flows do not pass is barred as in package detect.
	barPart, barFirst, barMost, barForgotten = 4, 50, 1200, 600
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
		l.failed = wellAfter
	case l.flood > 0:
		l.failed = 1
		l.flood--
	case l.failed > 0:
		l.failed--
	}
	if one := 1 - o.lost; o.lost > 0 && r.Float64() > one*one || o.choked && used && r.Float64() < chokes {
		lost = true
	}
	l.refuse(o.refused && used)
	if l.period++; used || l.period%idleEvery == 0 {
		l.lost[l.n%len(l.lost)] = lost
		l.n++
	}
	if l.period%summedEvery == 0 {
		l.shown = l.ratio()
	}
}

// refuse bars the network when flows on it do not pass, as detect.Bar does.
func (l *link) refuse(refused bool) {
	l.known++
	switch {
	case refused && l.barred == 0:
		if l.good > min(max(l.outage, barFirst), barForgotten) || l.outage == 0 {
			l.known = 1
		}
		l.outage = l.known
		l.barred, l.good = min(max(l.known/barPart, barFirst), barMost), 0
	case l.barred > 0:
		l.barred--
	default:
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
