package detect

import "time"

// Silence is since when the packets that a pair sends over a path go unanswered.
type Silence struct {
	Since time.Time // zero if they do not
	Came  time.Time // when the latest packet did
}

// Count is what counters tell of a pair on a path.
type Count struct {
	// Sent and Received say that packets went, and came, since the last count.
	Sent, Received bool
	// LastSent is when the latest packet went that wants an answer, and LastReceived when
	// the latest came; zero if never.
	LastSent, LastReceived time.Time
}

// Counted is told of packets. Who asks in turns falls silent with its last question.
func (s *Silence) Counted(c Count, now time.Time) {
	s.Came = c.LastReceived
	switch {
	case c.LastSent.After(c.LastReceived):
		if s.Since.IsZero() || c.Received {
			s.Since = c.LastSent
		}
	case c.Received:
		s.Since = time.Time{}
	case c.Sent && s.Since.IsZero():
		s.Since = now
	}
}

// Lasts reports whether it has lasted for so long.
func (s Silence) Lasts(least time.Duration, now time.Time) bool {
	return !s.Since.IsZero() && now.Sub(s.Since) >= least
}
