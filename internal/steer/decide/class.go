package decide

import "time"

// Class is what some flows of a pair have in common in what they need of a path.
type Class string

// Classes of flows.
const (
	// Bulk asks for more than it gets: the rate counts.
	Bulk Class = "bulk"
	// Interactive waits for answers: the time of a round trip counts.
	Interactive Class = "interactive"
	// Unknown has not shown what it is, or does neither.
	Unknown Class = "unknown"
)

// Row is the row of buckets that the flows of the class go by: bulk has one of its own.
func (c Class) Row() int {
	if c == Bulk {
		return 1
	}
	return 0
}

// ClassOf is the class that a row is for.
func ClassOf(row int) Class {
	if row == 1 {
		return Bulk
	}
	return Interactive
}

// Look is what a flow did since it was looked at before.
type Look struct {
	For time.Duration
	// Sent and Received are bytes of data, SegmentsOut and SegmentsIn the segments that
	// carried them.
	Sent, Received          float64
	SegmentsOut, SegmentsIn float64
	// Waits: the sender at this end has more than it may send.
	Waits bool
}

// idle: nothing was carried.
func (k Look) idle() bool { return k.Sent+k.Received <= 0 }

// add is both looks as one.
func (k Look) add(next Look) Look {
	return Look{For: k.For + next.For, Sent: k.Sent + next.Sent, Received: k.Received + next.Received,
		SegmentsOut: k.SegmentsOut + next.SegmentsOut, SegmentsIn: k.SegmentsIn + next.SegmentsIn,
		Waits: k.Waits || next.Waits}
}

// turns is how many answers there were at most.
func (k Look) turns() float64 { return min(k.SegmentsIn, k.SegmentsOut) }

// turn is how many bytes go from one answer to the next: who waits for an answer sends
// something small after it, and who does not sends on.
func (k Look) turn() float64 { return (k.Sent + k.Received) / (1 + k.turns()) }

// Learner learns a flow's class from what the flow does, not from its ports. The zero value
// knows nothing yet.
type Learner struct {
	// Known is the class, "" while it is unknown.
	Known Class `json:"known,omitempty"`
	// Score is what was seen last: up to ClassParams.Sure for bulk, down to that for interactive.
	Score int `json:"score,omitempty"`
	// Open is what has not been judged yet.
	Open Look `json:"open"`
}

// Class is what is known.
func (l Learner) Class() Class {
	if l.Known == "" {
		return Unknown
	}
	return l.Known
}

// Learn takes a look into account. A look that shows too little waits for the next ones; a
// class that is known is given up for the other one after more looks than it took to learn.
func (l Learner) Learn(k Look, by *ClassParams) Learner {
	if k.idle() {
		return l
	}
	l.Open = l.Open.add(k)
	if l.Open.Sent+l.Open.Received < by.Turn && l.Open.turns() < by.Turns && l.Open.For < by.Patience {
		return l
	}
	l.Score = min(max(l.Score+by.judge(l.Open), -by.Sure), by.Sure)
	l.Open = Look{}
	switch {
	case l.Score >= by.Shown:
		l.Known = Bulk
	case l.Score <= -by.Shown:
		l.Known = Interactive
	}
	return l
}

// judge is 1 for what bulk does, -1 for what waits for answers, and 0 for what does neither:
// a stream that its application limits, or a trickle one way.
func (by *ClassParams) judge(k Look) int {
	switch {
	case k.turn() < by.Turn && k.SegmentsIn > 0 && k.SegmentsOut > 0:
		return -1
	case k.turn() < by.Turn, k.Sent > k.Received && !k.Waits:
		return 0
	}
	return 1
}
