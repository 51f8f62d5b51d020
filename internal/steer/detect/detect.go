// Package detect finds that a path has failed and that it is well again: one state
// machine for a path between two hosts, which agents probe, and for one between two
// pods, which echoes ask.
//
// It is pure: events come with their times, and what is to be done is returned. It
// has no clock, no lock and no socket, and calls nobody, so that it cannot be entered
// again from within. It neither moves traffic nor decides where that should go.
package detect

import (
	"fmt"
	"slices"
	"time"
)

// State is what is held of a path, in the words of BFD (RFC 5880) and of REAP (RFC
// 5534, section 4.1: who sends expects to receive).
type State uint8

// The states.
const (
	// Up is a path of which nothing bad is known.
	Up State = iota
	// Suspect is one that is asked, as packets go out on it and none come in.
	Suspect
	// Confirming is one that fails by what was asked of it, while the other level, the
	// pairs of a path between hosts or the hosts of a pair's, may still know better.
	Confirming
	// Down is one that has failed, until it has answered often enough in a row.
	Down
)

func (s State) String() string { return [...]string{"Up", "Suspect", "Confirming", "Down"}[s&3] }

// Event is what moves a path from one state to another.
type Event uint8

// The events.
const (
	Silent    Event = iota // packets go out, and none come in
	Passes                 // what was sent since the suspicion was answered, or a packet came
	Expires                // nothing was found out in time
	Overdue                // answers are overdue, and another path gives them
	Retracted              // they are not overdue after all, as this end was late itself
	Agreed                 // the other level does not know better, or took too long to say
	Denied                 // it does know better
	Signaled               // the other end says that the path has failed
	Overruled              // the hosts have found the path of all pairs to fail
	Answered               // as often in a row as it takes
)

func (e Event) String() string {
	names := [...]string{"Silent", "Passes", "Expires", "Overdue", "Retracted", "Agreed", "Denied", "Signaled",
		"Overruled", "Answered"}
	if int(e) >= len(names) {
		return fmt.Sprintf("event %d", e)
	}
	return names[e]
}

// Action is what is to be done once an event is over; a set of these.
type Action uint8

// The actions.
const (
	Ask       Action = 1 << iota // send a probe on the path
	AskOthers                    // and on the others to the same peer, after it
	AskHosts                     // have the hosts suspect the path too
	Fail                         // leave the path
	Tell                         // tell the other end that it has failed
	Recover                      // the path may be used again
	Return                       // have the connection be on its path again
)

// Has reports whether b is among the actions.
func (a Action) Has(b Action) bool { return a&b != 0 }

// Transition is one row of the table of a machine, by its states and events.
type Transition[S, E comparable] struct {
	From S
	On   E
	To   S
	Do   Action
}

// transition finds the row of an event in a state. There is none where it changes nothing.
func transition[S, E comparable](table []Transition[S, E], from S, on E) (t Transition[S, E], ok bool) {
	i := slices.IndexFunc(table, func(t Transition[S, E]) bool { return t.From == from && t.On == on })
	if i < 0 {
		return t, false
	}
	return table[i], true
}

// Table is all transitions of a path.
func Table() []Transition[State, Event] {
	return []Transition[State, Event]{
		{Up, Silent, Suspect, Ask},
		{Up, Signaled, Down, Fail},
		{Suspect, Passes, Up, 0},
		{Suspect, Expires, Up, 0},
		{Suspect, Overdue, Confirming, 0},
		{Suspect, Signaled, Down, Fail},
		{Suspect, Overruled, Up, 0},
		{Confirming, Passes, Up, 0},
		{Confirming, Expires, Up, 0},
		{Confirming, Retracted, Suspect, 0},
		{Confirming, Denied, Up, 0},
		{Confirming, Agreed, Down, Fail | Tell},
		{Confirming, Signaled, Down, Fail},
		{Confirming, Overruled, Up, 0},
		{Down, Answered, Up, Recover},
		{Down, Overruled, Up, 0},
	}
}

// step takes the path through the table.
func (p *Path) step(on Event, now time.Time) Action {
	t, ok := transition(Table(), p.state, on)
	if !ok {
		return 0
	}
	if t.To == Up {
		p.cleared = now
	}
	if p.state == Down {
		p.well = now
	}
	p.state, p.entered = t.To, now
	return t.Do
}
