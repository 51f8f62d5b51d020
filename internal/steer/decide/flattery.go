package decide

import "time"

// Promise is what a canary showed of the path that the pair has come to for it.
type Promise struct {
	By   string        `json:"by,omitempty"`
	Rate float64       `json:"rate,omitempty"`
	At   time.Duration `json:"at_ns,omitempty"`
}

// Flattery is how often in a row a path has not kept what its canary showed, and when it did so last. Clouds and
// policers save up what goes unused, and give a canary more for a moment than they give in the long run.
type Flattery struct {
	N  int           `json:"n,omitempty"`
	At time.Duration `json:"at_ns,omitempty"`
}

// observePromise finds whether the active path gives what its canary showed.
func (s *step) observePromise(ev PairEvidence) {
	w, by := &s.Promise, &s.p.Flattery
	if w.By == "" || ev.Pause {
		return
	}
	m := s.memory(w.By)
	now, ok := s.Track.Rate.median(s.p.Track.RateSamples)
	here := ev.Active == w.By && ok
	switch {
	case here && now < by.Kept*w.Rate:
		m.Flattery = Flattery{min(m.Flattery.N+1, by.Most), ev.At}
		*w = Promise{}
	case ev.At-w.At > by.Within:
		if here {
			m.Flattery = Flattery{}
		}
		*w = Promise{}
	}
}

// flattered is how many samples of a canary on a path tell nothing.
func (s *step) flattered(m *Memory, at time.Duration) int {
	by := &s.p.Flattery
	if m.Flattery.N == 0 || at-m.Flattery.At > by.For {
		return 0
	}
	return by.Samples << (m.Flattery.N - 1)
}
