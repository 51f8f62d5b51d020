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

// Around is what is known of a path besides, while a connection is asked whether it gets through.
type Around struct {
	// Silent: nothing comes over it.
	Silent bool
	// Ahead: other connections have just left it to find out, more than the path was proven to fail.
	Ahead bool
	// Answers: since the connection waits nothing has come over it but answers to probes, which did: it is not full.
	Answers bool
}

// TriesOf is how often the timer of that connection has to fire. One that has just begun may have
// lost all that it sent to a full queue, as many do that begin at once: its timer fires once more,
// but where echoes alone pass. And where packets come over the path as ever, one of those that wait
// goes first, and then as many as that proved it to fail and one more: meanwhile some of the others
// are acknowledged where they are, if the path is only full.
func (a *Accidents) TriesOf(params *Params, p Progress, around Around, now time.Time) int {
	tries := a.Tries(params, now)
	if around.Ahead && !around.Silent {
		return math.MaxInt
	}
	if p.begins(params) && !around.Answers {
		tries++
	}
	return tries
}

// Refuses reports whether a path on which refused connections were proven not to get through, the
// one with that progress last and the first so long ago, refuses the pair, which had conns as last counted.
// It does not as long as most of them get through, or as many got through there after their timers had
// fired; nor is it known of connections that have just begun, as those that began with them are not counted,
// unless others were refused before.
func (a *Accidents) Refuses(params *Params, refused, conns int, lasts time.Duration, p Progress, around Around,
	now time.Time) bool {
	switch {
	case around.Silent && !p.begins(params):
		return true
	case refused <= int(math.Round(a.left(params, now))), max(p.Busy, lasts) < params.Counted:
		return false
	}
	return refused >= min(params.RefusesAt, conns) && 2*refused > conns
}

// begins reports whether the connection has sent little more than its first window.
func (p Progress) begins(params *Params) bool { return p.Sent < params.FirstWindow }

// left is how many are remembered.
func (a *Accidents) left(params *Params, now time.Time) float64 {
	if a.n == 0 {
		return 0
	}
	return a.n * math.Exp(-float64(max(now.Sub(a.at), 0))/float64(params.AccidentsFor))
}
