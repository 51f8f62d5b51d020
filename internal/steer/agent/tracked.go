package agent

import (
	"context"
	"maps"
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
// connection has left behind on a path is forgotten there, before it comes back, and the windows
// of those that stay are looked at no more. Where no filter of the host is stateful, nothing is dropped so, and
// nothing is looked for.

// untrackAgain is how long after flows have moved their entries are looked for once more:
// what was on its way has made new ones meanwhile.
const untrackAgain = time.Second

// untracking is when a pair's entries are to be looked for; again says that it is for the
// last time.
type untracking struct {
	at    time.Time
	again bool
}

// untracked are the pairs whose entries in the host's connection tracking are to go.
type untracked struct {
	*journal
	forgotten atomic.Uint64 // connections that the host was had to forget
	bell      bell          // something is due
	// stateless: no filter of the host drops what does not fit what is tracked.
	stateless atomic.Bool

	mu  sync.Mutex // of what follows
	due map[*pair]untracking
	// waiting are pairs whose flows are to move once it has been looked: who waits is told by the channel.
	// looked is when it was, of those that have not moved yet.
	waiting map[*pair]chan struct{}
	looked  map[*pair]time.Time
	// begun is when it was looked for what has begun, of pairs of which that is less than a second ago.
	begun map[*pair]time.Time
}

func newUntracked(j *journal) *untracked {
	return &untracked{journal: j, bell: newBell(), due: map[*pair]untracking{}, waiting: map[*pair]chan struct{}{},
		looked: map[*pair]time.Time{}, begun: map[*pair]time.Time{}}
}

// add has the host forget what the pair's flows have left behind, as they have moved.
func (u *untracked) add(p *pair) {
	if u.stateless.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due[p] = untracking{at: u.cfg.Now()}
	delete(u.looked, p)
	u.bell.ring()
}

// stray has the host forget, in a while, what the pair's flows leave behind on the default network
// though they are elsewhere: connections open there before they leave, and so do late packets. Where
// their entries are to be looked for before that, they are once more: half a handshake is left alone as
// long as it may go on.
func (u *untracked) stray(p *pair) {
	if u.stateless.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	is, sooner := u.due[p]
	if !sooner {
		is.at = u.cfg.Now().Add(untrackAgain)
	}
	is.again = !sooner
	u.due[p] = is
}

// begin has the host look at windows no more of connections of the pair that have begun: they may leave, and
// come back before the other end's host is told. Where connections begin all the time, that is once in a while.
func (u *untracked) begin(p *pair) {
	if u.stateless.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, sooner := u.due[p]; !sooner {
		u.due[p] = untracking{at: u.begun[p].Add(untrackAgain), again: true}
		u.begun[p] = u.cfg.Now()
		u.bell.ring()
	}
}

// before has the host forget what the pair's flows have left behind before they move again, as they may come
// back to it: what does not fit is dropped until then. It returns what is closed when that is done, nil where
// nothing is left. A move that cannot wait does not ask.
func (u *untracked) before(p *pair) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	is, left := u.due[p]
	at, looked := u.looked[p]
	if u.stateless.Load() || !left || looked && u.cfg.Now().Sub(at) < untrackAgain {
		return nil
	}
	if u.waiting[p] == nil {
		u.waiting[p] = make(chan struct{})
		is.at, is.again = u.cfg.Now(), false
		u.due[p] = is
		u.bell.ring()
	}
	return u.waiting[p]
}

// take takes the pairs whose time has come. Where that rests, those alone for which somebody waits.
func (u *untracked) take(now time.Time, rests bool) (out []*pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, is := range u.due {
		if now.Before(is.at) || rests && u.waiting[p] == nil {
			continue
		}
		if delete(u.due, p); !is.again {
			u.due[p] = untracking{at: now.Add(untrackAgain), again: true}
		}
		out = append(out, p)
	}
	return out
}

// tell tells who waits for pairs that it has been looked, and returns these.
func (u *untracked) tell(looks []*pair) (awaited []*pair) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.cfg.Now()
	for _, of := range []map[*pair]time.Time{u.looked, u.begun} { // of begun as pairs go
		maps.DeleteFunc(of, func(_ *pair, at time.Time) bool { return now.Sub(at) >= untrackAgain })
	}
	for _, p := range looks {
		if c := u.waiting[p]; c != nil {
			close(c)
			delete(u.waiting, p)
			u.looked[p] = now
			awaited = append(awaited, p)
		}
	}
	return awaited
}

// ends are two addresses between which connections go.
type ends struct{ local, remote netip.Addr }

// whereabouts are where the connections between two addresses are now.
type whereabouts struct {
	path          int // that of the addresses
	own, followed [dataplane.Buckets]dataplane.Choice
}

// whole reports whether all of them are on the path of the addresses.
func (w whereabouts) whole() bool {
	for b := range w.own {
		if w.own[b].Path != w.path || w.followed[b].Path != w.path {
			return false
		}
	}
	return true
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
		if ok && (w.own[b].Path != w.path || w.followed[b].Path != w.path) {
			return true
		}
	}
	return false
}

// between are the addresses.
func (t tracked) between() (out [][2]netip.Addr) {
	for e := range t {
		out = append(out, [2]netip.Addr{e.local, e.remote})
	}
	return out
}

const protocolTCP = 6

// run has the host forget what pairs have left behind, until ctx ends, and move moves those that have waited for it. To
// list what a host tracks takes long where that is much, so it is done for all of them at once, apart from the loop,
// and takes a tenth of a processor at most, unless somebody waits.
func (u *untracked) run(ctx context.Context, m *members, move func([]*pair)) error {
	var rested time.Time
	filters, host := filtering{untracked: u}, func() string { return u.host(m) }
	return eachOr(ctx, epoch, u.bell, func() {
		begin := u.cfg.Now()
		if awaited := filters.look(host, m, begin); len(awaited) > 0 {
			move(awaited)
		}
		looks := u.take(begin, begin.Before(rested))
		if len(looks) == 0 {
			return
		}
		in, took := host(), time.Duration(0)
		for v6, t := range m.leftBehind(looks) {
			n, spent, err := conntrack.Forget(in, v6 == 1, t.between(), t.left)
			u.forgotten.Add(uint64(n))
			if took += spent; err != nil {
				u.warn("%v", err)
			}
		}
		// By the processor's time: on a host that is busy it is waiting that takes long.
		rested = u.cfg.Now().Add(countShare * took)
		if awaited := u.tell(looks); len(awaited) > 0 {
			move(awaited)
		}
	})
}

// host is the namespace of the host that tracks; "" where the agent is in it.
func (u *untracked) host(m *members) string {
	if u.cfg.HostNetns != "" {
		return u.cfg.HostNetns
	}
	m.Lock()
	ns := m.host.Netns
	m.Unlock()
	if !netns.Exists(ns) {
		return "" // the agent is on a host of its own, as outside of a lab
	}
	return ns
}
