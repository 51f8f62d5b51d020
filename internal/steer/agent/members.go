package agent

import (
	"iter"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// members are the hosts and pods that there are, and the pairs of pods that speak.
//
// The lock guards what is reached from here, pods, pairs and hosts with all their fields, and
// the fields of the parts that work on them. Who calls these holds it. Only what runs apart from
// the loop takes it: adopter, counter, inquirer, keeper, listener, planes, replyWatcher, sweeper,
// untracked, entries as routes were made or taken back, the agent as it reads its cluster and its
// own pod; and overrides, respondent, server and turnover where they are asked. It comes before
// all other locks. Nothing is waited for while it is held, but for wider maps to be put in place
// (Plane.Exchange), and at first for pods to be adopted.
type members struct {
	sync.Mutex
	*description                        // that the rest is in step with
	remote       map[string]*remoteHost // by host name
	pods         map[string]*pod        // local ones, by UID
	changes      int                    // counts pods and pairs that came or went
	woken        bool                   // a host without traffic for long has some
}

func newMembers() *members {
	return &members{description: &description{}, remote: map[string]*remoteHost{}, pods: map[string]*pod{}}
}

// pairs are all of them.
func (m *members) pairs() iter.Seq[*pair] {
	return func(yield func(*pair) bool) {
		for _, l := range m.pods {
			for _, p := range l.pairs {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// along are the pairs that a path between hosts is one of, and its place among theirs.
func (m *members) along(hp *hostPath) iter.Seq2[*pair, int] {
	return func(yield func(*pair, int) bool) {
		for p := range m.pairs() {
			if p.host != hp.host {
				continue
			}
			if i := p.routes.on(hp.network); i >= 0 && !yield(p, i) {
				return
			}
		}
	}
}

// path finds the host and its path by the address that probes go to.
func (m *members) path(network string, to netip.Addr) (*remoteHost, *hostPath) {
	for _, h := range m.remote {
		if hp := h.paths[network]; hp != nil && hp.to.Addr() == to {
			return h, hp
		}
	}
	return nil, nil
}

// knows reports whether the pair is still there.
func (m *members) knows(p *pair) bool {
	return m.pods[p.local.UID] == p.local && p.local.pairs[p.remote.UID] == p
}

// arrivals are when packets last came over a path between hosts, and by when others should have, of the traffic of
// late: the latest two of each, as one of them may be of the pair that asks.
type arrivals struct{ came, next [2]arrivedAt }

type arrivedAt struct {
	pair *pair
	at   time.Time
}

// add takes a pair's traffic on the path, which is its path i. A pair that sends nothing there, or whose echoes have
// found that nothing passes, does not count: what comes to it tells nothing of the other direction.
func (a *arrivals) add(p *pair, i int, now time.Time) {
	ln := &p.lines[i]
	if !ln.sends() || ln.Down() {
		return
	}
	later := func(latest *[2]arrivedAt, at time.Time) {
		switch {
		case at.After(latest[0].at):
			latest[0], latest[1] = arrivedAt{p, at}, latest[0]
		case at.After(latest[1].at):
			latest[1] = arrivedAt{p, at}
		}
	}
	later(&a.came, ln.silence.Came)
	later(&a.next, ln.silence.Came.Add(p.gapOn(i, false, now)))
}

// but is when a packet last came to another pair than this one, and by when the next one should have.
func (a *arrivals) but(p *pair) (came, next time.Time) {
	other := func(latest [2]arrivedAt) time.Time {
		if p != nil && latest[0].pair == p {
			return latest[1].at
		}
		return latest[0].at
	}
	return other(a.came), other(a.next)
}

// pass reports whether packets come to another pair than this one: within so long, or as soon as of the traffic of
// late.
func (a *arrivals) pass(p *pair, within time.Duration, now time.Time) bool {
	came, next := a.but(p)
	return now.Sub(came) < within || now.Before(next)
}

// arrivals are those of a path now.
func (m *members) arrivals(hp *hostPath, now time.Time) (a arrivals) {
	for p, i := range m.along(hp) {
		a.add(p, i, now)
	}
	return a
}

// passes reports whether packets come over the path to a pair but one.
func (m *members) passes(hp *hostPath, but *pair, within time.Duration, now time.Time) bool {
	a := m.arrivals(hp, now)
	return a.pass(but, within, now)
}

// dialect is the agent's own.
func (m *members) dialect() uint32 { return dialect(m.names, m.Cluster.Encapsulated) }

// pairsOf finds the pairs that telemetry means.
func (m *members) pairsOf(who telemetry.Pair) (out []*pair) {
	for _, l := range m.pods {
		if l.cookie != who.Netns {
			continue
		}
		for _, p := range l.pairs {
			if p.telemetryPair() == who {
				out = append(out, p)
			}
		}
	}
	return out
}

// pairOf finds the pair by its ends' identities.
func (m *members) pairOf(local, remote podID) *pair {
	who, ok := m.elsewhere.identified(remote)
	if !ok {
		return nil
	}
	for _, l := range m.pods {
		if p := l.pairs[who.UID]; p != nil && idBy(p.localUID()) == local {
			return p
		}
	}
	return nil
}

// netnsOf is the namespace of a pod, "" if none has that cookie.
func (m *members) netnsOf(cookie uint64) string {
	m.Lock()
	defer m.Unlock()
	for _, l := range m.pods {
		if l.cookie == cookie {
			return l.Netns
		}
	}
	return ""
}

// leftBehind is where the connections of the pairs are that are still there, by family.
func (m *members) leftBehind(looks []*pair) (families [2]tracked) {
	m.Lock()
	defer m.Unlock()
	for _, p := range looks {
		if !m.knows(p) {
			continue // it has gone
		}
		own, followed, err := p.flows()
		if err != nil {
			continue // the peer has just gone
		}
		for _, r := range p.routes {
			w := whereabouts{r.Index, own, followed}
			if r.Index != 0 && w.whole() {
				continue // nothing has left it, and nothing opens there
			}
			v6 := 0
			if r.Local.Addr.Is6() {
				v6 = 1
			}
			if families[v6] == nil {
				families[v6] = tracked{}
			}
			families[v6][ends{r.Local.Addr, r.Remote.Addr}] = w
		}
	}
	return families
}

// add adds a local pod.
func (m *members) add(l *pod) {
	m.pods[l.UID] = l
	m.changes++
}

// remove removes one, if it is the one of that UID.
func (m *members) remove(l *pod) {
	if m.pods[l.UID] == l {
		delete(m.pods, l.UID)
		m.changes++
	}
}

// enter adds a pair to its pod's.
func (m *members) enter(p *pair) {
	p.local.pairs[p.remote.UID] = p
	m.changes++
}

// leave removes one.
func (m *members) leave(p *pair) {
	delete(p.local.pairs, p.remote.UID)
	m.changes++
}

// some lists the local pods for which that holds. It takes the lock.
func (m *members) some(holds func(*pod) bool) (out []*pod) {
	m.Lock()
	defer m.Unlock()
	for _, l := range m.pods {
		if holds(l) {
			out = append(out, l)
		}
	}
	return out
}

// network is the one with that number in notices; "" if there is none.
func (m *members) network(number uint8) string {
	if number == noChoice || int(number) >= len(m.names) {
		return ""
	}
	return m.names[number]
}
