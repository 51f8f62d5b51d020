package agent

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
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
// last time, and all that those of flows on the default network go too: they are back there
// before what they had left behind was looked for once more.
type untracking struct {
	at         time.Time
	again, all bool
}

// look is a pair whose entries are to be looked for now.
type look struct {
	*pair
	all bool
}

// untracked are the pairs whose entries in the host's connection tracking are to go.
type untracked struct {
	*journal
	forgotten atomic.Uint64 // connections that the host was had to forget

	mu  sync.Mutex // of due
	due map[*pair]untracking
}

func newUntracked(j *journal) *untracked { return &untracked{journal: j, due: map[*pair]untracking{}} }

// add has the host forget what the pair's flows have left behind, as they have moved.
func (u *untracked) add(p *pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, soon := u.due[p]
	u.due[p] = untracking{at: u.cfg.Now(), all: soon}
}

// stray has the host forget, in a while, what the pair's flows leave behind on the default network
// though they are elsewhere: connections open there before they leave, and so do late packets. Where
// their entries are to be looked for before that, they are once more: half a handshake is left alone as
// long as it may go on.
func (u *untracked) stray(p *pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	is, sooner := u.due[p]
	if !sooner {
		is.at = u.cfg.Now().Add(untrackAgain)
	}
	is.again = !sooner
	u.due[p] = is
}

// take takes the pairs whose time has come.
func (u *untracked) take(now time.Time) (out []look) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, is := range u.due {
		if now.Before(is.at) {
			continue
		}
		if delete(u.due, p); !is.again {
			u.due[p] = untracking{at: now.Add(untrackAgain), again: true}
		}
		out = append(out, look{p, is.all})
	}
	return out
}

// ends are two addresses between which connections go.
type ends struct{ local, remote netip.Addr }

// whereabouts are where the connections between two addresses are now.
type whereabouts struct {
	path          int // that of the addresses
	own, followed [dataplane.Buckets]dataplane.Choice
	all           bool // as of look
}

// tracked are the addresses whose entries are to be looked at.
type tracked map[ends]whereabouts

// left reports whether a connection is, or may be, on another path than that of its
// addresses. Which end has opened it is not known of one that was taken up in the middle, nor
// in which row it is, so all choices must be there for it to be left alone. An entry of one that has not
// gone is no loss: it is taken up again.
func (t tracked) left(c conntrack.Connection) bool {
	w, ok := t[ends{c.From.Addr(), c.To.Addr()}]
	if !ok {
		w, ok = t[ends{c.To.Addr(), c.From.Addr()}]
	}
	for row := range flow.Row(flow.Rows) {
		b := row.Bucket(flow.Bucket(c.From.Port(), c.To.Port(), protocolTCP))
		if ok && (w.all || w.own[b].Path != w.path || w.followed[b].Path != w.path) {
			return true
		}
	}
	return false
}

const protocolTCP = 6

// run has the host forget what pairs have left behind, until ctx ends; left says where that
// is, and the host's namespace. To list what a host tracks takes long where that is much, so
// it is done for all of them at once, apart from the loop, and takes a tenth of a processor
// at most.
func (u *untracked) run(ctx context.Context, left func([]look) (string, [2]tracked)) error {
	var rested time.Time
	return each(ctx, epoch, func() {
		begin := u.cfg.Now()
		if begin.Before(rested) {
			return
		}
		host, families := left(u.take(begin))
		switch {
		case u.cfg.HostNetns != "":
			host = u.cfg.HostNetns
		case !netns.Exists(host):
			host = "" // the agent is on a host of its own, as outside of a lab
		}
		for v6, t := range families {
			if len(t) == 0 {
				continue
			}
			n, err := conntrack.Forget(host, v6 == 1, t.left)
			u.forgotten.Add(uint64(n))
			if err != nil {
				u.warn("%v", err)
			}
		}
		rested = u.cfg.Now().Add(countShare * u.cfg.Now().Sub(begin))
	})
}
