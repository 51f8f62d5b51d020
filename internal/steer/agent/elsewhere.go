package agent

import (
	"net/netip"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// elsewhere are the pods of other hosts that could be peers. Nothing else is kept of them
// until there is traffic. It is never changed: the next one has most of it in common.
type elsewhere struct {
	pods []topo.Pod
	// early are those that were there when all were last looked at, and late those that came since.
	early, late group
	filter      dataplane.Candidates
}

// group is pods that could be peers, and how they are found.
type group struct {
	peers  []candidate
	places []int32 // of the pods, by peer; -1 of one that has gone
	byUID  index[string]
	byID   index[podID]
	byAddr index[netip.Addr]
}

// candidate is a pod that could be a peer, as pairs of one family know it; in6 tells whether those
// are pairs of IPv6 of a pod that has both families.
type candidate struct {
	id  podID
	in6 bool
}

// newElsewhere finds the pods of other hosts among all.
func newElsewhere(pods []topo.Pod, host int) elsewhere {
	e := elsewhere{pods: pods}
	g := group{peers: make([]candidate, 0, len(pods)), places: make([]int32, 0, len(pods))}
	for i := range pods {
		g.add(pods, int32(i), host)
	}
	e.early = g.indexed(pods)
	e.filter = e.candidates()
	return e
}

// next is what it becomes when the pods are those that x tells from its own.
func (e elsewhere) next(pods []topo.Pod, host int, x changes) elsewhere {
	was := e.late
	e.pods, e.early = pods, e.early.moved(x)
	e.late = group{}
	for n, c := range was.peers {
		if at := was.places[n]; at >= 0 && x.to[at] >= 0 {
			e.late.peers, e.late.places = append(e.late.peers, c), append(e.late.places, x.to[at])
		}
	}
	for _, at := range x.came {
		e.late.add(pods, at, host)
	}
	gone := 0
	for _, at := range e.early.places {
		if at < 0 {
			gone++
		}
	}
	const few = 64
	if gone+len(e.late.peers) > few+len(e.early.peers)/8 {
		return newElsewhere(pods, host)
	}
	e.early.find(pods)
	e.late = e.late.indexed(pods)
	if len(x.gone)+len(x.came) > 0 {
		e.filter = e.candidates()
	}
	return e
}

// add enters a pod of several networks on another host, for each family.
func (g *group) add(pods []topo.Pod, at int32, host int) {
	p := &pods[at]
	if p.Host == host || p.Agent || p.UID == "" {
		return
	}
	enter := func(p topo.Pod, in6 bool) {
		if len(p.Attachments) > 1 {
			g.peers, g.places = append(g.peers, candidate{idOf(p), in6}), append(g.places, at)
		}
	}
	enter(*p, false)
	if dual(*p) {
		enter(in6(*p), true)
	}
}

// moved is the group after a change: what finds them is the same.
func (g group) moved(x changes) group {
	places := make([]int32, len(g.places))
	for n, at := range g.places {
		if places[n] = at; at >= 0 {
			places[n] = x.to[at]
		}
	}
	g.places = places
	return g
}

// indexed is the group with what finds them.
func (g group) indexed(pods []topo.Pod) group {
	g.byUID, g.byID, g.byAddr = newIndex[string](len(g.peers), nil), newIndex[podID](len(g.peers), nil),
		newIndex[netip.Addr](len(g.peers), nil)
	g.find(pods)
	for n := range g.peers {
		g.byUID.add(int32(n))
		g.byID.add(int32(n))
		g.byAddr.add(int32(n))
	}
	return g
}

// find has them be found as they are among the pods. What has gone has no key.
func (g *group) find(pods []topo.Pod) {
	peers, places := g.peers, g.places
	g.byUID.key = func(n int32) string {
		if places[n] < 0 {
			return ""
		}
		return uidIn(pods[places[n]], peers[n].in6)
	}
	g.byID.key = func(n int32) podID {
		if places[n] < 0 {
			return podID{}
		}
		return peers[n].id
	}
	g.byAddr.key = func(n int32) netip.Addr {
		if places[n] < 0 {
			return netip.Addr{}
		}
		return peers[n].addr(&pods[places[n]])
	}
}

// addr is the candidate's stable address, of its pod.
func (c candidate) addr(p *topo.Pod) netip.Addr {
	if !c.in6 {
		return p.Addr()
	}
	addr, _ := route.AddrIn(p.Attachments[0], true)
	return addr
}

// candidates are the addresses of all that could be peers.
func (e elsewhere) candidates() dataplane.Candidates {
	return dataplane.NewCandidates(func(yield func(netip.Addr) bool) {
		for _, g := range []group{e.early, e.late} {
			for n, at := range g.places {
				if at >= 0 && !yield(g.peers[n].addr(&e.pods[at])) {
					return
				}
			}
		}
	})
}

// named, identified and addressed find a pod that could be a peer.
func (e elsewhere) named(uid string) (topo.Pod, bool) {
	return e.found(func(g *group) (int32, bool) { return g.byUID.find(uid) })
}

func (e elsewhere) identified(id podID) (topo.Pod, bool) {
	return e.found(func(g *group) (int32, bool) { return g.byID.find(id) })
}

// hasAddress reports whether the address is such a pod's on its default network.
func (e elsewhere) hasAddress(addr netip.Addr) bool {
	_, ok := e.addressed(addr)
	return ok
}

func (e elsewhere) addressed(addr netip.Addr) (topo.Pod, bool) {
	return e.found(func(g *group) (int32, bool) { return g.byAddr.find(addr) })
}

// found is the pod that is found in either group.
func (e elsewhere) found(in func(*group) (int32, bool)) (topo.Pod, bool) {
	for _, g := range []*group{&e.early, &e.late} {
		n, ok := in(g)
		switch {
		case !ok || g.places[n] < 0:
		case g.peers[n].in6:
			return in6(e.pods[g.places[n]]), true
		default:
			return e.pods[g.places[n]], true
		}
	}
	return topo.Pod{}, false
}
