package detect

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Shot is a probe as a judgement sees it.
type Shot struct {
	Seq      uint32
	Sent     time.Time
	Answered time.Time // when the reply came to this machine; zero if it has not
}

// Witness is another path to the same peer.
type Witness struct {
	Name  string
	Usual time.Duration // the round trip that may be expected of it
	Shots []Shot
}

// suspicion is what is known when a path is judged. Shots on the suspect path are
// small ones, in any order until judge sorts them: full-size loss is not found here.
type suspicion struct {
	start time.Time // when it arose
	shots []Shot
	// well is when the path last came back from a failure, and weak that the silence was found to
	// mean nothing before.
	well time.Time
	weak bool
	Evidence
}

// Direction is where packets are lost, as seen from here.
type Direction uint8

// The directions. That packets are lost on the way back alone is not known from here.
const (
	Unknown Direction = iota
	Forward
)

// String goes into a sentence about a failure: what is not known is not said.
func (d Direction) String() string { return [...]string{"", ", on the way there"}[d&1] }

// Verdict is what a suspicion amounts to; undecided if it is neither Alive nor Failed.
type Verdict struct {
	Alive, Failed bool
	Direction     Direction
	Witness       string // the path that testified to a failure
	Overdue       int    // how many probes in a row, the newest that are due
	Needed        int    // how many tell a failure
	// Since is when the first of that row was sent, of a path that has failed.
	Since time.Time
}

func (v Verdict) String() string {
	return fmt.Sprintf("%d probes in a row overdue, while %s answered a later one", v.Overdue, v.Witness)
}

// judge says whether the suspect path has failed.
//
// It has only if the newest probes that are due are all overdue, as many as are needed, or more in a
// row, and a witness, a probe on another path, sent no earlier than the last needed one of
// that row, was answered within that path's own deadline; and if then one more deadline
// of the suspect path has passed without an answer. Of the newest it need not be: on
// full paths probes are sent, and become overdue, faster than any witness answers. So:
//
//   - a stall of this machine fails no path. Replies that lie in sockets are read
//     before (Until), and are dated by the kernel; and while nothing is sent
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
// One or two probes lost, by noise or a queue that overflowed, fail nothing. Nor do
// those that went unanswered before the suspicion arose: what they told was judged then.
func (p *Params) judge(s suspicion) Verdict {
	s.shots = slices.SortedFunc(slices.Values(s.shots), bySent)
	deadline := p.deadline(s.Expected) + max(s.Late, 0)
	due, row, alive := s.row(deadline)
	v := Verdict{Overdue: row, Needed: p.needed(s, deadline)}
	if row < v.Needed {
		v.Alive = alive
		return v
	}
	overdue := due[len(due)-row:]
	first, last := overdue[0].Sent, overdue[v.Needed-1].Sent
	var testified time.Time
	for _, w := range s.Witnesses {
		at, ok := testimony(w, last, p.deadline(w.Usual))
		if ok && (testified.IsZero() || at.Before(testified)) {
			v.Witness, testified = w.Name, at
		}
	}
	// The suspect's answers get one more deadline.
	if !testified.IsZero() && !s.Until.Before(testified.Add(deadline)) {
		v.Failed, v.Since, v.Direction = true, first, s.direction(first.Add(deadline))
	}
	return v
}

// needed is how many probes in a row must be overdue: more than chance loses, of what the path has lost
// lately: by the rule of succession (Laplace 1814) and a standard error more, as only few are known.
func (p *Params) needed(s suspicion, deadline time.Duration) int {
	n := p.InARow
	if s.weak {
		n *= p.Weak
	}
	if lost, of := s.losses(p.Apart, deadline); lost > 0 {
		trials := float64(max(of, recent) + 2)
		chance := float64(lost+1) / trials
		chance += math.Sqrt(chance * (1 - chance) / trials)
		n = max(n, int(math.Ceil(math.Log(p.ByChance)/math.Log(chance))))
	}
	return min(n, p.RowMost)
}

// losses counts the probes of before the suspicion that followed an answered one, and how many of these went
// unanswered while one that was sent no longer than apart later did not. So an outage does not count, or once if
// it was short, and what was found to be a failure not at all.
func (s suspicion) losses(apart, deadline time.Duration) (lost, of int) {
	var first time.Time // of a row of lost ones that began after an answered one
	answered := false
	for _, x := range s.shots {
		switch {
		case !x.Sent.Add(deadline).Before(s.start), x.Sent.Before(s.well):
			continue
		case !x.Answered.IsZero():
			if !first.IsZero() && x.Sent.Sub(first) <= apart {
				lost++
			}
			first = time.Time{}
		case answered:
			first = x.Sent
		}
		if answered {
			of++
		}
		answered = !x.Answered.IsZero()
	}
	return lost, of
}

// row finds the probes that are due, or answered, and how many of the newest of
// them are overdue; and whether one was answered.
func (s suspicion) row(deadline time.Duration) (due []Shot, row int, alive bool) {
	for _, x := range s.shots {
		switch {
		case x.Sent.Before(s.start):
			continue
		case !x.Answered.IsZero():
			row, alive = 0, true
		case s.Until.Sub(x.Sent) >= deadline:
			row++
		default:
			continue // its answer may be on its way
		}
		due = append(due, x)
	}
	return due, row, alive
}

func bySent(a, b Shot) int { return a.Sent.Compare(b.Sent) }

// testimony is when the path first answered, within its deadline, a probe sent
// no earlier than since.
func testimony(w Witness, since time.Time, deadline time.Duration) (first time.Time, ok bool) {
	for _, x := range w.Shots {
		if !x.Answered.IsZero() && !x.Sent.Before(since) && x.Answered.Sub(x.Sent) <= deadline &&
			(first.IsZero() || x.Answered.Before(first)) {
			first = x.Answered
		}
	}
	return first, !first.IsZero()
}

// direction says that the way there is broken, if the peer's packets have come since:
// a deadline after the first overdue probe, as what the peer sent before the break may
// still have been on its way.
func (s suspicion) direction(since time.Time) Direction {
	if !s.Probed.Before(since) {
		return Forward
	}
	return Unknown
}
