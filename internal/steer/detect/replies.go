package detect

import (
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Replies is how the datagrams of a flow are answered that one end of it sends. No timer tells of one that is not,
// as TCP's does: so what counts is how many go before an answer comes, and how long that takes, against what is usual.
type Replies struct {
	// usual is the most datagrams that lately went before an answer came, usually the longest that it took as
	// far as counts tell, and answers how often one was seen to have come.
	usual   int
	usually time.Duration
	answers uint64
	// known are the answers since the flow was last found to be answered nowhere, and nowhere the pause since then; nil
	// once it is known again how it is answered.
	known   int
	nowhere *pause
	// latest is the latest count, at counted, since when none was answered, and sent when some had last gone.
	latest               flow.Unanswered
	counted, since, sent time.Time
}

// Counted is told how many datagrams had gone at a time since the latest answer. What was known later already tells
// nothing.
func (r *Replies) Counted(params *Params, is flow.Unanswered, now time.Time) {
	if now.Before(r.counted) {
		return
	}
	was := r.latest
	answered := is.N < was.N || is.Turn != was.Turn
	if answered {
		r.answers++
	}
	if answered || is.N == 0 {
		most := 2*r.usual + params.RepliesLeast // what went in an outage is not usual
		r.usual = max(r.usual-(r.usual+15)/16, min(was.N, most))
		longest := 2*r.usually + params.RepliesFor
		r.usually = max(r.usually-r.usually/16, min(r.waited(r.counted), longest))
		if r.known++; r.known >= params.RepliesKnown {
			r.nowhere = nil
		}
		r.since = time.Time{}
	}
	if is.N > 0 && r.since.IsZero() {
		r.since = now
	}
	if is.N > was.N || answered {
		r.sent = now
	}
	r.latest, r.counted = is, now
}

// waited is for how long no answer had come at a time.
func (r *Replies) waited(at time.Time) time.Duration {
	if r.since.IsZero() {
		return 0
	}
	return at.Sub(r.since)
}

// Answers counts how often answers were seen to have come.
func (r *Replies) Answers() uint64 { return r.answers }

// Sent is when datagrams had last gone.
func (r *Replies) Sent() time.Time { return r.sent }

// Waits reports whether the latest datagrams were not answered.
func (r *Replies) Waits() bool { return r.latest.N > 0 }

// Timer is for how long a flow that misses its answers may be tried on another path: while RepliesLeast datagrams go.
func (r *Replies) Timer(params *Params, now time.Time) time.Duration {
	return r.waited(now) * time.Duration(params.RepliesLeast) / time.Duration(max(r.latest.N, 1))
}

// Missing reports whether answers that are usual do not come. The flow was answered a few times, and RepliesLeast
// datagrams have gone since, of which none was for RepliesFor. And so many have gone as are RepliesTimes as many as
// usual; or they wait RepliesTimes as long as usual, RepliesLong at least, and some have gone in the meantime: a
// program that bounds what may be on its way, as QUIC does (RFC 9002), sends little then, and ever less.
func (r *Replies) Missing(params *Params, now time.Time) bool {
	waited := r.waited(now)
	if !r.tells(params, now) || r.latest.N < params.RepliesLeast || waited < params.RepliesFor {
		return false
	}
	return r.latest.N >= params.RepliesTimes*r.usual ||
		waited >= max(time.Duration(params.RepliesTimes)*r.usually, params.RepliesLong) &&
			r.sent.Sub(r.since) >= params.RepliesFor
}

// Nowhere is told that the flow is answered on no path: the peer's program may have gone, or all paths fail, or what
// was tried came too late on a busy machine. It tells nothing for DetourAgain, twice as long each time, up to
// UnservedMost, unless it is answered again.
func (r *Replies) Nowhere(params *Params, now time.Time) {
	if r.known = 0; r.nowhere == nil {
		r.nowhere = &pause{}
	}
	r.nowhere.begin(params.DetourAgain, params.UnservedMost, now)
}

// tells reports whether it is known how the flow is answered, or was before it was answered nowhere, a pause ago.
func (r *Replies) tells(params *Params, now time.Time) bool {
	return r.known >= params.RepliesKnown || r.nowhere != nil && r.nowhere.over(now)
}
