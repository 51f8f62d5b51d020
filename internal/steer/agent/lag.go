package agent

import "time"

// pacer tells when the loop's next turn is due. Any goroutine may ask for one sooner.
type pacer struct {
	*journal
	alarm *alarm // nil before the loop begins
	lag   lag
	// due is when the next turn is, by the alarm; sooner is by when it is to come at the
	// latest, as the present one has found.
	due    time.Time
	sooner time.Duration
}

// begin begins a turn.
func (c *pacer) begin() { c.sooner = idleTick }

// end ends a turn, and sets the alarm for the next one: within next, or sooner.
func (c *pacer) end(next time.Duration) error {
	now := c.cfg.Now()
	if !c.due.IsZero() {
		c.lag.add(c.due, now)
	}
	next = min(next, c.sooner)
	c.due = now.Add(next)
	return c.alarm.set(next)
}

// soon has the next turn come within d: what begins late in a turn, or apart from the loop,
// does not wait for the turn that was due.
func (c *pacer) soon(d time.Duration) {
	c.sooner = min(c.sooner, d)
	if at := c.cfg.Now().Add(d); at.Before(c.due) && c.alarm != nil {
		c.due = at
		_ = c.alarm.set(d) // closed, there are no more turns
	}
}

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
func (c *pacer) late(t, now time.Time) time.Duration {
	due := c.due
	if due.IsZero() {
		due = now
	}
	return c.lag.since(t, due, now)
}
