package agent

import (
	"context"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/conntrack"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// Hosts that track connections drop what does not fit what they have tracked. So what a
// connection has left behind on a path is forgotten there, before it comes back.

// untrackAgain is how long after flows have moved their entries are looked for once more:
// what was on its way has made new ones meanwhile.
const untrackAgain = time.Second

// untracking is when a pair's entries are to be looked for; again says that it is for the
// last time.
type untracking struct {
	at    time.Time
	again bool
}

// untrack has the host forget what the pair's flows have left behind, as they have moved.
func (a *Agent) untrack(p *pair) { a.untracked[p] = untracking{at: a.cfg.Now()} }

// ends are two addresses between which connections go.
type ends struct{ local, remote netip.Addr }

// whereabouts are where the connections between two addresses are now.
type whereabouts struct {
	path          int // that of the addresses
	own, followed [dataplane.Buckets]dataplane.Choice
}

// tracked are the addresses whose entries are to be looked at.
type tracked map[ends]whereabouts

// left reports whether a connection is, or may be, on another path than that of its
// addresses. Which end has opened it is not known of one that was taken up in the middle,
// so both ends' choices must be there for it to be left alone. An entry of one that has not
// gone is no loss: it is taken up again.
func (t tracked) left(c conntrack.Connection) bool {
	w, ok := t[ends{c.From.Addr(), c.To.Addr()}]
	if !ok {
		w, ok = t[ends{c.To.Addr(), c.From.Addr()}]
	}
	b := flow.Bucket(c.From.Port(), c.To.Port(), protocolTCP)
	return ok && (w.own[b].Path != w.path || w.followed[b].Path != w.path)
}

const protocolTCP = 6

// forgetTracked has the host forget what pairs have left behind, until ctx ends. To list
// what a host tracks takes long where that is much, so it is done for all of them at once,
// apart from the loop, and takes a tenth of a processor at most.
func (a *Agent) forgetTracked(ctx context.Context) error {
	var rested time.Time
	return a.eachEpoch(ctx, func() {
		begin := a.cfg.Now()
		if begin.Before(rested) {
			return
		}
		host, families := a.leftBehind(begin)
		if !netns.Exists(host) {
			host = "" // the agent is on a host of its own, as outside of a lab
		}
		for v6, t := range families {
			if len(t) == 0 {
				continue
			}
			n, err := conntrack.Forget(host, v6 == 1, t.left)
			a.mu.Lock()
			a.stats.untracked += uint64(n)
			a.mu.Unlock()
			if err != nil {
				a.warn("%v", err)
			}
		}
		rested = a.cfg.Now().Add(countShare * a.cfg.Now().Sub(begin))
	})
}

// leftBehind takes the pairs whose time has come: the host's namespace, and where their
// connections are, by family.
func (a *Agent) leftBehind(now time.Time) (host string, families [2]tracked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, u := range a.untracked {
		if now.Before(u.at) {
			continue
		}
		delete(a.untracked, p)
		if !a.knows(p) {
			continue // it has gone
		}
		if !u.again {
			a.untracked[p] = untracking{now.Add(untrackAgain), true}
		}
		own, err := p.local.plane.Choices(p.remote.UID)
		followed, followErr := p.local.plane.Followed(p.remote.UID)
		if err != nil || followErr != nil {
			continue // the peer has just gone
		}
		for _, r := range p.routes {
			v6 := 0
			if r.Local.Addr.Is6() {
				v6 = 1
			}
			if families[v6] == nil {
				families[v6] = tracked{}
			}
			families[v6][ends{r.Local.Addr, r.Remote.Addr}] = whereabouts{r.Index, own, followed}
		}
	}
	return a.host.Netns, families
}
