package agent

import (
	"slices"

	"pathwise.dev/pathwise/internal/path/probe"
	"pathwise.dev/pathwise/internal/path/steer"
)

// marks are the cluster's keys of which those of a pair's tags are derived: the first
// is for what is sent, all for what comes.
type marks []probe.KeyID

// marksFor are those of a pair with a pod on the host. Both ends send by the first key of
// theirs that the other has, as far as they have told each other: that can be the one
// that is best seen from here, or from there, or was until a moment ago. What was
// accepted stays so until the ring lets it go.
func (a *Agent) marksFor(h *remoteHost, was marks) marks {
	out := append(append(marks{a.keyBest(h)}, was...), a.ring.Told()...)
	seen := marks{}
	for _, id := range out {
		if a.ring.Key(id) != nil && !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	return seen[:min(len(seen), len(steer.Keys{}.Accept))]
}

// keys derives the keys of a pair's tags on a network.
func (a *Agent) keys(p *pair, network string) (k steer.Keys) {
	for i := range k.Accept {
		id := p.marks[min(i, len(p.marks)-1)]
		k.Accept[i] = steer.DeriveKey(a.ring.Key(id), p.local.UID, p.remote.UID, network)
	}
	k.Send = k.Accept[0]
	return k
}

// remark has the data planes use other keys where the cluster's have turned over.
func (a *Agent) remark() {
	for _, l := range a.pods {
		for _, p := range l.pairs {
			if now := a.marksFor(p.host, p.marks); !slices.Equal(now, p.marks) {
				p.marks, p.stale = now, a.cfg.Now()
				if err := a.setPeer(p, p.taken); err != nil {
					a.warn("%s: change keys: %v", p.name, err)
				}
			}
		}
	}
}
