package detect

import (
	"slices"
	"time"
)

// Detour finds out whether a connection whose retransmission timer has fired does not get
// through on its path, though other packets may: it asks by the connection itself, which
// tries the other paths. So what fails is found whatever it is: one port, TCP alone, or
// large packets.
//
// Nothing is blamed without proof: only a path on which the connection was not acknowledged,
// while it was on another one at once.
type Detour struct {
	params *Params
	// From is the path on which its timer fired, and On the one that it is on.
	From, On int
	state    DetourState
	since    time.Time
	// acked is how much of what it sent had been acknowledged when its timer fired.
	acked uint64
	tried []int
}

// DetourState is how far a detour has come.
type DetourState uint8

// The states of a detour.
const (
	// Doubted: its timer has fired; an acknowledgment may only be late.
	Doubted DetourState = iota
	// Trying: it is on another path.
	Trying
	// Proven: it was acknowledged there, and stays.
	Proven
	// Unfounded: it was acknowledged where it was, has ended, or has nothing on its way.
	Unfounded
	// Nowhere: no path gets it through, so that none is to blame.
	Nowhere
)

func (s DetourState) String() string {
	return [...]string{"Doubted", "Trying", "Proven", "Unfounded", "Nowhere"}[s%5]
}

// Progress is what the kernel says of a connection.
type Progress struct {
	// Open: it is there, and can send.
	Open bool
	// Waiting: something that it sent is not acknowledged.
	Waiting bool
	// Acked is how many bytes were, since it began.
	Acked uint64
	// Trip is its smoothed round trip, and Timer its retransmission timer: a connection that
	// is not woken tries again then.
	Trip, Timer time.Duration
}

// NewDetour begins one for a connection on that path, whose timer fired at that time.
func NewDetour(params *Params, path int, p Progress, fired time.Time) Detour {
	return Detour{params: params, From: path, On: path, since: fired, acked: p.Acked, tried: []int{path}}
}

// State is how far the detour has come.
func (t *Detour) State() DetourState { return t.state }

// Over reports whether the question is settled.
func (t *Detour) Over() bool { return t.state >= Proven }

// Since is when the detour came to its state.
func (t *Detour) Since() time.Time { return t.since }

// Look takes what the kernel says of the connection now. Others are the paths that may be
// tried, the best first. It reports whether the connection is to be on another path than
// before: on t.On.
func (t *Detour) Look(p Progress, others []int, now time.Time) (move bool) {
	if t.Over() {
		return false
	}
	if !p.Open || !p.Waiting || p.Acked != t.acked {
		return t.end(p.Open && p.Acked != t.acked && t.state == Trying, now)
	}
	wait := max(t.params.AckWithin, time.Duration(t.params.AckTrips)*p.Trip)
	if t.state == Trying {
		wait = max(t.params.TryFor, min(p.Timer, t.params.TryMost))
	}
	if now.Sub(t.since) < wait {
		return false
	}
	for _, path := range others {
		if !slices.Contains(t.tried, path) {
			t.tried = append(t.tried, path)
			t.state, t.since, t.On = Trying, now, path
			return true
		}
	}
	return t.back(Nowhere, now)
}

// Abandon ends the detour, as the connection was moved for another reason.
func (t *Detour) Abandon(now time.Time) {
	if !t.Over() {
		t.state, t.since = Unfounded, now
	}
}

// end ends the detour of a connection that is acknowledged, or has nothing to wait for: proven
// says that it was another path that did it.
func (t *Detour) end(proven bool, now time.Time) (move bool) {
	if proven {
		t.state, t.since = Proven, now
		return false
	}
	return t.back(Unfounded, now)
}

// back ends a detour without a result.
func (t *Detour) back(state DetourState, now time.Time) (move bool) {
	move = t.On != t.From
	t.state, t.since, t.On = state, now, t.From
	return move
}
