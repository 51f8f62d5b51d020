package agent

import (
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/stamp"
)

// marks are the cluster's keys of which those of a pair's tags are derived: the first
// is for what is sent, all for what comes.
type marks []stamp.KeyID

// heeded is how long after it has heard of a key another host's data planes accept what is
// sent by it, at the latest: it looks at its next turn, or the one after.
const heeded = 2 * idleTick

// sendBy is the key for what is sent to the host: the first of ours that it has, of those
// that it knows this host has. Data planes accept few keys at a time, of which it chooses
// that one once it knows of it; where that is not known yet, the best one has to do.
func (r ring) sendBy(k *peerKeys, now time.Time) stamp.KeyID {
	for _, id := range r.Offered() {
		since, known := k.knows[id]
		if known && now.Sub(since) >= heeded && slices.Contains(k.has, id) {
			return id
		}
	}
	return r.best(k)
}

// sentBy is the key by which the host sends by the same rule, once it knows all that this
// one does; zero if it has none of ours.
func (r ring) sentBy(k *peerKeys) stamp.KeyID {
	told := r.Offered()
	i := slices.IndexFunc(k.has, func(id stamp.KeyID) bool { return slices.Contains(told, id) })
	if i < 0 {
		return stamp.KeyID{}
	}
	return k.has[i]
}

// marks are those of a pair with a pod on the host: what is sent by, from here and from
// there. What was accepted stays so as long as there is room, as it was sent by until a
// moment ago.
func (r ring) marks(k *peerKeys, was marks, now time.Time) marks {
	out := append(append(marks{r.sendBy(k, now), r.sentBy(k)}, was...), r.Offered()...)
	seen := marks{}
	for _, id := range out {
		if r.Key(id) != nil && !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	return seen[:min(len(seen), len(dataplane.Keys{}.Accept))]
}

// tags derives the keys of a pair's tags on a network.
func (r ring) tags(p *pair, network string) (k dataplane.Keys) {
	for i := range k.Accept {
		id := p.marks[min(i, len(p.marks)-1)]
		k.Accept[i] = dataplane.DeriveKey(r.Key(id), p.local.UID, p.remote.UID, network)
	}
	k.Send = k.Accept[0]
	return k
}

// mark is the DSCP that probes carry: steered packets' own.
const mark = 0b000111
