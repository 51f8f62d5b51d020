package probe

import (
	"fmt"
	"slices"
	"time"
)

// Shot is a probe as a judgement sees it.
type Shot struct {
	Sent     time.Time
	Answered time.Time // when the reply came to this machine; zero if it has not
}

// Witness is another path to the same peer.
type Witness struct {
	Name  string
	P99   time.Duration // its recent round trip's 99th percentile
	Shots []Shot
}

// Suspicion is what is known when a path is judged. Shots on the suspect path
// are small ones: full-size loss is Track's to find.
type Suspicion struct {
	Start time.Time // when it arose
	// Now is up to when replies are known to have been read on all paths: what
	// stamp.Sender.Drain returned, the earliest of them.
	Now time.Time
	P99 time.Duration // of the suspect path, before
	// Late is how late who judges has come to its own work since the suspicion
	// arose: the other end may be as busy, so that answers are given as much longer.
	Late      time.Duration
	Shots     []Shot // on the suspect path, in any order
	Witnesses []Witness
	// Heard is when the peer's packets last came over the suspect path, and
	// PeerHeard the latest probe's sending of which the peer told, by another
	// path, that it arrived. Zero if never, or not known. They only tell the
	// direction.
	Heard, PeerHeard time.Time
}

// State is how a path stands.
type State uint8

// The states. Undecided asks for more probes.
const (
	Undecided State = iota
	Alive
	Failed
	PeerGone // no path answers
)

func (s State) String() string {
	return [...]string{"undecided", "alive", "failed", "peer gone"}[s&3]
}

// Direction is where packets are lost, as seen from here.
type Direction uint8

// The directions.
const (
	Unknown Direction = iota
	Forward
	Backward
)

func (d Direction) String() string {
	return [...]string{"unknown", "forward", "backward", "unknown"}[d&3]
}

// Verdict is what a Suspicion amounts to.
type Verdict struct {
	State     State
	Direction Direction
	Witness   string // the path that testified to a failure
	Overdue   int    // how many probes in a row, the newest that are due
	// Again is when there may be another verdict without any more events.
	Again time.Time
	Why   string
}

// Rules are the constants of judgement.
type Rules struct {
	K         int           // overdue probes in a row, at least
	Floor     time.Duration // the least deadline
	Times     int           // the deadline, in 99th percentiles
	GoneAfter time.Duration // how long no path answers a peer that is gone
}

// DefaultRules finds a failure 9 ms after suspicion, with probes at 0, 3 and 6 ms.
func DefaultRules() Rules {
	return Rules{K: 3, Floor: 3 * time.Millisecond, Times: 4, GoneAfter: 500 * time.Millisecond}
}

// Deadline is when a probe counts as overdue.
func (r Rules) Deadline(p99 time.Duration) time.Duration {
	return max(r.Floor, time.Duration(r.Times)*p99)
}

// Judge says whether the suspect path has failed.
//
// It has only if the newest K probes that are due are all overdue, and a
// witness, a probe on another path, sent no earlier than the last of them, was
// answered within that path's own deadline; and if then one more deadline of the
// suspect path has passed without an answer. So:
//
//   - a stall of this machine fails no path. Replies that lie in sockets are read
//     before (Now), and are dated by the kernel; and while nothing is sent
//     nothing becomes overdue beyond what was sent before the stall, for which
//     there is no witness sent after;
//   - a stall of the peer fails no path. During it no witness answers; after it,
//     answers that are late are no witness, and one that was sent just before its
//     end, and is prompt, still leaves the suspect path's answers, which the peer
//     gives in the same breath, a whole deadline to come;
//   - processors that are busy fail no path: by as much as this process came late
//     to its own work, which is what it can know of them, the suspect's deadlines
//     are longer. The witness's is not: who is prompt shows that there was time;
//   - if only one direction is lost the path has failed: a reply needs both.
//
// One or two probes lost, by noise or a queue that overflowed, fail nothing.
func (r Rules) Judge(s Suspicion) Verdict {
	shots := slices.SortedFunc(slices.Values(s.Shots), bySent)
	deadline := r.Deadline(s.P99) + max(s.Late, 0)
	due, row, alive := r.row(shots, s, deadline)
	v := Verdict{Overdue: row, Again: nextDue(shots, s.Now, deadline)}
	if row < r.K {
		if alive {
			v.State, v.Why = Alive, "it answered a probe sent after suspicion arose"
		} else {
			v.Why = fmt.Sprintf("%d of the %d overdue probes in a row that it takes", row, r.K)
		}
		return v
	}
	last := due[len(due)-1].Sent
	first := due[len(due)-row].Sent
	var name string
	var testified time.Time
	for _, w := range s.Witnesses {
		at, ok := testimony(w, last, r.Deadline(w.P99))
		if ok && (testified.IsZero() || at.Before(testified)) {
			name, testified = w.Name, at
		}
	}
	switch ripe := testified.Add(deadline); {
	case testified.IsZero() && r.gone(s, first, last):
		v.State, v.Why = PeerGone, fmt.Sprintf("no path answered for %s", last.Sub(first))
	case testified.IsZero():
		v.Why = "no other path has promptly answered a probe sent since the last overdue one"
	case s.Now.Before(ripe):
		v.Again = earlier(v.Again, ripe)
		v.Why = "another path answers; the suspect's answers get one more deadline"
	default:
		v.State, v.Witness, v.Direction = Failed, name, directionOf(s, first, deadline)
		v.Why = fmt.Sprintf("%d probes in a row overdue, while %s answered a later one", row, name)
	}
	return v
}

func bySent(a, b Shot) int { return a.Sent.Compare(b.Sent) }

// row finds the probes that are due, or answered, and how many of the newest of
// them are overdue; and whether one sent since the suspicion was answered.
func (r Rules) row(shots []Shot, s Suspicion, deadline time.Duration) (due []Shot, row int, alive bool) {
	for _, x := range shots {
		switch {
		case !x.Answered.IsZero():
			row = 0
			alive = alive || !x.Sent.Before(s.Start)
		case s.Now.Sub(x.Sent) >= deadline:
			row++
		default:
			continue // its answer may be on its way
		}
		due = append(due, x)
	}
	return due, row, alive
}

// nextDue is when the next probe that may still be answered gets overdue.
func nextDue(shots []Shot, now time.Time, deadline time.Duration) time.Time {
	var next time.Time
	for _, x := range shots {
		if at := x.Sent.Add(deadline); x.Answered.IsZero() && at.After(now) {
			next = earlier(next, at)
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// testimony is when the path first answered, within its deadline, a probe sent
// no earlier than since.
func testimony(w Witness, since time.Time, deadline time.Duration) (time.Time, bool) {
	var first time.Time
	for _, x := range w.Shots {
		if !x.Answered.IsZero() && !x.Sent.Before(since) && x.Answered.Sub(x.Sent) <= deadline {
			first = earlier(first, x.Answered)
		}
	}
	return first, !first.IsZero()
}

// gone reports whether probes were sent and went unanswered on every path for
// long enough that neither end's stalling explains it.
func (r Rules) gone(s Suspicion, first, last time.Time) bool {
	if last.Sub(first) < r.GoneAfter+max(s.Late, 0) {
		return false
	}
	for _, w := range s.Witnesses {
		unanswered := slices.DeleteFunc(slices.Clone(w.Shots), func(x Shot) bool {
			return x.Answered.IsZero() && s.Now.Sub(x.Sent) < r.Deadline(w.P99) // not due
		})
		slices.SortFunc(unanswered, bySent)
		from := len(unanswered)
		for from > 0 && unanswered[from-1].Answered.IsZero() {
			from--
		}
		unanswered = unanswered[from:]
		if len(unanswered) < r.K || unanswered[len(unanswered)-1].Sent.Sub(unanswered[0].Sent) < r.GoneAfter {
			return false
		}
	}
	return true
}

// directionOf says which half of the path is broken, if something came through
// the other since the first overdue probe was sent: one deadline since, as what
// the peer sent before the break may still have been on its way.
func directionOf(s Suspicion, first time.Time, deadline time.Duration) Direction {
	heard, told := !s.Heard.Before(first.Add(deadline)), !s.PeerHeard.Before(first)
	switch {
	case heard && !told:
		return Forward
	case told && !heard:
		return Backward
	}
	return Unknown
}
