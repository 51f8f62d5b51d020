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
	// sentThere is when it was first seen to have sent on the path that it tries, of what nobody can wake.
	sentThere time.Time
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

// DetourEvent is what moves a detour from one state to another.
type DetourEvent uint8

// The events of a detour.
const (
	Unacked   DetourEvent = iota // it is not acknowledged in time, and there is a path that it has not tried
	Exhausted                    // it is not acknowledged in time, and there is none
	Acked                        // it is acknowledged
	Settled                      // it has ended, or has nothing on its way any more
	Moved                        // it was moved for another reason
)

func (e DetourEvent) String() string {
	return [...]string{"Unacked", "Exhausted", "Acked", "Settled", "Moved"}[e%5]
}

// DetourTable is all transitions of a detour.
func DetourTable() []Transition[DetourState, DetourEvent] {
	return []Transition[DetourState, DetourEvent]{
		{Doubted, Unacked, Trying, 0},
		{Doubted, Exhausted, Nowhere, 0},
		{Doubted, Acked, Unfounded, 0},
		{Doubted, Settled, Unfounded, 0},
		{Doubted, Moved, Unfounded, 0},
		{Trying, Unacked, Trying, 0},
		{Trying, Exhausted, Nowhere, Return},
		{Trying, Acked, Proven, 0},
		{Trying, Settled, Unfounded, Return},
		{Trying, Moved, Unfounded, 0},
	}
}

// Progress is what the kernel says of a connection.
type Progress struct {
	// Open: it is there, and can send.
	Open bool
	// Waiting: something that it sent is not acknowledged.
	Waiting bool
	// Acked is how many bytes were, since it began.
	Acked uint64
	// Sent is how many segments with data it has sent, those that it sent again included.
	Sent int
	// Busy is how long it had something to send or on its way.
	Busy time.Duration
	// Trip is its smoothed round trip, and Timer its retransmission timer: a connection that
	// is not woken tries again then.
	Trip, Timer time.Duration
	// Tries is how often its timer has fired since it was last acknowledged.
	Tries int
	// Delivered is when all that it had sent was acknowledged as it ended; zero if it is not known to have been.
	Delivered time.Time
	// LastSent is when what is not acknowledged was last sent, of what nobody can wake: on another path it tells
	// nothing before it has sent there. Zero where it is woken.
	LastSent time.Time
}

// NewDetour begins one for a connection on that path, whose timer has fired: it waits since then for an acknowledgment
// of what it has sent again.
func NewDetour(params *Params, path int, p Progress, since time.Time) Detour {
	return Detour{params: params, From: path, On: path, since: since, acked: p.Acked, tried: []int{path}}
}

// State is how far the detour has come.
func (d *Detour) State() DetourState { return d.state }

// Over reports whether the question is settled.
func (d *Detour) Over() bool { return d.state >= Proven }

// Since is when the detour came to its state.
func (d *Detour) Since() time.Time { return d.since }

// Look takes what the kernel says of the connection now. Tries is how often its timer has to
// have fired (Accidents.TriesOf), and others are the paths that may be tried, the best first. It
// reports whether the connection is to be on another path than before: on d.On.
func (d *Detour) Look(p Progress, tries int, others []int, now time.Time) (move bool) {
	if d.Over() {
		return false
	}
	switch {
	case p.Open && p.Acked != d.acked, d.delivered(p):
		return d.step(Acked, now)
	case !p.Open || !p.Waiting:
		return d.step(Settled, now)
	}
	wait, since := p.late(d.params), d.since
	if d.state == Trying {
		wait = max(d.params.TryFor, min(p.Timer, d.params.TryMost))
		if !p.LastSent.IsZero() && d.sentThere.IsZero() {
			if !p.LastSent.After(d.since) && now.Sub(d.since) < d.params.RepliesIdle {
				return false
			}
			d.sentThere = now
		}
		if !d.sentThere.IsZero() {
			since = d.sentThere
		}
	}
	if now.Sub(since) < wait || d.state == Doubted && tries > 1 && p.Tries < tries {
		return false
	}
	for _, path := range others {
		if !slices.Contains(d.tried, path) {
			d.tried = append(d.tried, path)
			d.sentThere, d.On = time.Time{}, path
			d.step(Unacked, now)
			return true
		}
	}
	return d.step(Exhausted, now)
}

// step takes the detour through its table, and reports whether the connection is to be on another path than before.
func (d *Detour) step(on DetourEvent, now time.Time) bool {
	t, ok := transition(DetourTable(), d.state, on)
	if !ok {
		return false
	}
	d.state, d.since = t.To, now
	if t.Do.Has(Return) {
		d.On = d.From
		return true
	}
	return false
}

// late is how long an acknowledgment may take.
func (p Progress) late(params *Params) time.Duration {
	return max(params.AckWithin, time.Duration(params.AckTrips)*p.Trip)
}

// Deaf is how long nothing has come over a path by the time that a connection's timer has fired and
// it has waited for an acknowledgment, unless other packets pass.
func (p Progress) Deaf(params *Params) time.Duration { return params.Deaf + p.late(params) }

// delivered reports whether the connection has ended with all acknowledged, where it is.
func (d *Detour) delivered(p Progress) bool {
	return !p.Delivered.IsZero() && (d.state == Doubted || p.Delivered.After(d.since))
}

// Accident reports whether the connection's timer has fired on a path that got it through all
// the same.
func (d *Detour) Accident(p Progress) bool {
	return d.state == Unfounded && d.On == d.From && (p.Open && p.Acked != d.acked || !p.Delivered.IsZero())
}

// Abandon ends the detour, as the connection was moved for another reason.
func (d *Detour) Abandon(now time.Time) { d.step(Moved, now) }
