package detect

import "time"

// Refusals are of a path that was proven not to get connections through, one after the other. Those that this
// end has opened are kept off it by their own bars; of those that the peer has opened it is known here alone
// how many they are.
type Refusals struct {
	since time.Time
	peers map[uint8]time.Time // by place: the latest
}

// Add takes a connection in that place that was proven, of the peer's or not, where own places are kept off the
// path by this end, that one included. It returns how many the path refuses, and for how long it has refused some.
func (r *Refusals) Add(params *Params, place uint8, peers bool, own int, now time.Time) (int, time.Duration) {
	for place, at := range r.peers {
		if now.Sub(at) > params.BarFirst {
			delete(r.peers, place)
		}
	}
	if peers {
		if r.peers == nil {
			r.peers = map[uint8]time.Time{}
		}
		r.peers[place] = now
	}
	refused := own + len(r.peers)
	if refused <= 1 || r.since.IsZero() {
		r.since = now
	}
	return refused, now.Sub(r.since)
}
