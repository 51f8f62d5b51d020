package detect

import "time"

// Replies is how the datagrams of a flow that its pod has opened are answered. No timer tells of one that is not,
// as TCP's does: so what counts is how many go before an answer comes, against how many usually do.
type Replies struct {
	// usual is the most datagrams that lately went before an answer came, and answers how often one was seen
	// to have come.
	usual   int
	answers uint64
	// known are the answers since the flow was last found to be answered nowhere.
	known int
	// unanswered is how many have gone by the latest count, at counted, and since when none of them was answered.
	unanswered     int
	counted, since time.Time
}

// repliesMost is the most unanswered datagrams that are counted.
const repliesMost = 255

// Counted is told how many datagrams had gone at a time since the latest answer. What was known later already tells
// nothing.
func (r *Replies) Counted(params *Params, unanswered int, now time.Time) {
	if now.Before(r.counted) {
		return
	}
	r.counted = now
	if unanswered < r.unanswered {
		r.answers++
	}
	if unanswered < r.unanswered || unanswered == 0 {
		most := 2*r.usual + params.RepliesLeast // what went in an outage is not usual
		r.usual = max(r.usual-(r.usual+15)/16, min(r.unanswered, most))
		r.known++
		r.since = time.Time{}
	}
	if unanswered > 0 && r.since.IsZero() {
		r.since = now
	}
	r.unanswered = unanswered
}

// Answers counts how often answers were seen to have come.
func (r *Replies) Answers() uint64 { return r.answers }

// Timer is for how long a flow that misses its answers may be tried on another path: while RepliesLeast datagrams go.
func (r *Replies) Timer(params *Params, now time.Time) time.Duration {
	return now.Sub(r.since) * time.Duration(params.RepliesLeast) / time.Duration(max(r.unanswered, 1))
}

// Missing reports whether answers that are usual do not come: of a flow that was answered a few times, RepliesTimes
// as many datagrams as usual have gone, RepliesLeast at least, for RepliesFor. Where so many go that
// they are not counted it tells nothing.
func (r *Replies) Missing(params *Params, now time.Time) bool {
	least := max(params.RepliesTimes*r.usual, params.RepliesLeast)
	return r.known >= params.RepliesKnown && least < repliesMost && r.unanswered >= least &&
		now.Sub(r.since) >= params.RepliesFor
}

// Nowhere is told that the flow is answered on no path: the peer's program may have gone. It tells
// nothing before it is answered again.
func (r *Replies) Nowhere() { r.known = 0 }
