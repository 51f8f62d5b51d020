package decide

import "time"

// Shown is what a canary showed of the path that the pair has come to for it.
type Shown struct {
	By   string        `json:"by,omitempty"`
	Rate float64       `json:"rate,omitempty"`
	At   time.Duration `json:"at_ns,omitempty"`
}

// Overestimate is how often in a row a path has not kept what its canary showed, and when it did so last. Clouds and
// policers save up what goes unused, and give a canary more for a moment than they give in the long run.
type Overestimate struct {
	N  int           `json:"n,omitempty"`
	At time.Duration `json:"at_ns,omitempty"`
}

// observeShown finds whether the active path gives what its canary showed.
func (s *step) observeShown(ev PairEvidence) {
	w, by := &s.Shown, &s.p.Overestimate
	if w.By == "" || ev.Pause {
		return
	}
	m := s.memory(w.By)
	now, ok := s.Track.Rate.median(s.p.Track.RateSamples)
	here := ev.Active == w.By && ok
	switch {
	case here && now < by.Kept*w.Rate:
		m.Overestimate = Overestimate{min(m.Overestimate.N+1, by.Most), ev.At}
		*w = Shown{}
	case ev.At-w.At > by.Within:
		if here {
			m.Overestimate = Overestimate{}
		}
		*w = Shown{}
	}
}

// ignores is how many samples of the path's next canary tell nothing.
func (o Overestimate) ignores(at time.Duration, by *OverestimateParams) int {
	if o.N == 0 || at-o.At > by.For {
		return 0
	}
	return by.Samples << (o.N - 1)
}
