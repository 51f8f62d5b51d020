package agent

import "time"

// lag remembers how late the loop came to its latest turns, and how long they
// took. What was not heard while the loop did not listen is no silence: of
// machines that are busy it is the only sign that an agent has by itself.
type lag struct {
	turns [64]turn
	n     int
}

// turn ended at, and that was so much later than it was due.
type turn struct {
	at   time.Time
	late time.Duration
}

// tolerated is what timers and a turn's own work take on a quiet machine.
const tolerated = time.Millisecond

// add tells of a turn that was due, and ended.
func (l *lag) add(due, ended time.Time) {
	l.turns[l.n%len(l.turns)] = turn{ended, ended.Sub(due) - tolerated}
	l.n++
}

// since is the longest lag of a turn that has ended after t. A turn under way
// that was due at due counts as well.
func (l *lag) since(t, due, now time.Time) time.Duration {
	worst := max(now.Sub(due)-tolerated, 0)
	for _, x := range l.turns[:min(l.n, len(l.turns))] {
		if x.at.After(t) {
			worst = max(worst, x.late)
		}
	}
	return worst
}

// late is how late the loop has been since t.
func (a *Agent) late(t, now time.Time) time.Duration {
	due := a.due
	if due.IsZero() {
		due = now
	}
	return a.lag.since(t, due, now)
}
