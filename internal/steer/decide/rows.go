package decide

import (
	"slices"
	"time"
)

// Rows is what a policy remembers of a pair whose classes of flows may go different ways. Each
// row of buckets has flows of one class, see ClassOf. The zero value is the beginning.
type Rows struct {
	// Apart: each row has a state of its own. Otherwise both do as the first one's says.
	Apart bool     `json:"apart,omitempty"`
	Of    [2]State `json:"of"`
	// Live is when flows of a row's class last carried something, and At the time of the
	// latest step.
	Live [2]time.Duration `json:"live_ns"`
	At   time.Duration    `json:"at_ns"`
}

// RowEvidence is what is known of a pair, and of each row.
type RowEvidence struct {
	// All is about all flows, for as long as they go together.
	All PairEvidence
	// Of is about the flows of each row alone, once they are apart.
	Of [2]PairEvidence
	// Live: flows of the row's class carry something now.
	Live [2]bool
	// Others: the peer has opened flows that carry bulk, of which All tells too. They go by the peer's choices.
	Others bool
}

// StepRows has a policy decide about both rows. Rows part when both classes carry something,
// and join when one of them has not for a while: then its row goes where the other is. A pair
// that declares its need has one row, as all its flows have that need.
func StepRows(policy Policy, s Rows, ev RowEvidence, by *ClassParams) (Rows, [2]Decision) {
	s.At = ev.All.At
	for row, live := range ev.Live {
		if live {
			s.Live[row] = max(s.At, 1)
		}
	}
	declared := ev.All.Need != "" && ev.All.Need != Auto
	switch both := s.lives(0, by) && s.lives(1, by) && !declared; {
	case both && !s.Apart:
		s.part()
	case !both && s.Apart:
		return s.join(ev, by)
	}
	if !s.Apart {
		one := ev.All
		if ev.Others && !declared && s.lives(0, by) != s.lives(1, by) {
			row := s.goesOn(by)
			one = ofClass(ev.Of[row], row) // what the peer's flows carry says nothing of what these need
		}
		var d Decision
		s.Of[0], d = policy.Step(s.Of[0], one)
		d.Evidence.Class = "" // it is about all flows
		return s, [2]Decision{d, d}
	}
	var d [2]Decision
	for row := range d {
		s.Of[row], d[row] = policy.Step(s.Of[row], alone(ev.Of, row))
	}
	return s, d
}

// lives is whether flows of the row's class have carried something of late.
func (s *Rows) lives(row int, by *ClassParams) bool {
	return s.Live[row] > 0 && s.At-s.Live[row] < by.Gone
}

// goesOn is the row whose class goes on carrying something where the other's does not, the bulk's if neither does.
func (s *Rows) goesOn(by *ClassParams) int {
	if s.lives(0, by) {
		return 0
	}
	return 1
}

// part gives each row a state: the bulk goes on as the pair did, and the others begin afresh,
// but for what is known of the paths.
func (s *Rows) part() {
	s.Apart, s.Of[1] = true, s.Of[0]
	s.Of[1].Paths = slices.Clone(s.Of[0].Paths)
	s.Of[1].forgetCanaries()
	s.Of[0] = s.Of[0].afresh()
}

// forgetCanaries forgets what canaries have measured while the classes were not known: one that
// held the flows that wait for answers has seen next to nothing, whatever its path gives.
func (s *State) forgetCanaries() {
	for i := range s.Paths {
		if m := &s.Paths[i]; m.Network != s.Active {
			m.Measured, m.Health, m.NextTrial = false, 1, 0
		}
	}
}

// afresh is the state without what is known of the traffic.
func (s State) afresh() State {
	s.Paths = slices.Clone(s.Paths)
	s.Track, s.Trial, s.Pending, s.Bulk, s.Before, s.Silent = Track{}, Trial{}, Pending{}, 0, 0, 0
	for i := range s.Paths {
		s.Paths[i].NextTrial = 0
	}
	return s
}

// join has both rows do as that of the class that goes on carrying something, the bulk's if
// neither does.
func (s Rows) join(ev RowEvidence, by *ClassParams) (Rows, [2]Decision) {
	stays := s.goesOn(by)
	s.Apart = false
	s.Of[0], s.Of[1] = s.Of[stays], State{}
	s.Of[0].Trial, s.Of[0].Pending = Trial{}, Pending{}
	var d [2]Decision
	to := ev.Of[stays].Active
	for row := range d {
		kind := Stay
		if ev.Of[row].Active != to {
			kind = Switch
		}
		d[row] = move(kind, ev.Of[row], to, "the pair's flows are of one class again, %s, and go together", ClassOf(stays))
	}
	return s, d
}

// ofClass is the evidence about a row with what flows of its class need.
func ofClass(ev PairEvidence, row int) PairEvidence {
	if ev.Class, ev.Need = ClassOf(row), Latency; ev.Class == Bulk {
		ev.Need = Throughput
	}
	return ev
}

// alone is the evidence about a row of its own: what flows of its class need, and for bulk
// where it would meet flows that wait for answers.
func alone(of [2]PairEvidence, row int) PairEvidence {
	ev := ofClass(of[row], row)
	if ev.Class != Bulk {
		return ev
	}
	ev.Paths = slices.Clone(ev.Paths)
	for i := range ev.Paths {
		ev.Paths[i].Answers = ev.Paths[i].Network == of[1-row].Active
	}
	return ev
}
