package detect

import "time"

// Requests are those that a pod sends to one port of a peer in datagrams, each from a port of its own, as resolvers
// do. Of such a flow there is one answer, so that it is not known how it is usually answered (Replies): that is known
// of all together.
type Requests struct {
	// waiting is since when those wait that were not answered yet, by the pod's ports.
	waiting map[uint16]time.Time
	// known is how many were answered, usually the longest that one waited lately, and answered when the last one was.
	known    int
	usually  time.Duration
	answered time.Time
}

// Looked takes what a look at the flows finds: those that wait, and those that were answered since the last look, by
// the pod's ports. How long they wait is known as exactly as looks are apart.
func (r *Requests) Looked(params *Params, waiting, answered []uint16, now time.Time) {
	for _, port := range answered {
		waited := time.Duration(0)
		if since, ok := r.waiting[port]; ok {
			waited = now.Sub(since)
		}
		longest := 2*r.usually + params.RequestsFor // what was answered after an outage is not usual
		r.usually = max(r.usually-r.usually/16, min(waited, longest))
		r.known++
		r.answered = now
	}
	was := r.waiting
	r.waiting = make(map[uint16]time.Time, len(waiting))
	for _, port := range waiting {
		since, ok := was[port]
		if !ok {
			since = now
		}
		r.waiting[port] = since
	}
}

// Patience is how long an answer may take.
func (r *Requests) Patience(params *Params) time.Duration {
	return max(time.Duration(params.RepliesTimes)*r.usually, params.RequestsFor)
}

// Late is how many of those that began after a time have waited for longer than that.
func (r *Requests) Late(params *Params, after, now time.Time) (n int) {
	for _, since := range r.waiting {
		if since.After(after) && now.Sub(since) >= r.Patience(params) {
			n++
		}
	}
	return n
}

// Missing reports whether answers that are usual do not come: RequestsLeast are late that began after the last answer.
func (r *Requests) Missing(params *Params, now time.Time) bool {
	return r.known >= params.RepliesKnown && r.Late(params, r.answered, now) >= params.RequestsLeast
}

// Idle reports whether nothing waits, and nothing was answered for so long.
func (r *Requests) Idle(d time.Duration, now time.Time) bool {
	return len(r.waiting) == 0 && now.Sub(r.answered) >= d
}
