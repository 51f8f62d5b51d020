package agent

import (
	"net"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// pod is a local pod on several networks.
type pod struct {
	topo.Pod
	// listed is the pod as the cluster has it by now; replugging is since when its flows have been
	// home as it is to be taken up with other networks.
	listed     topo.Pod
	replugging time.Time
	plane      *dataplane.Plane
	cookie     uint64
	// mayDirect: nothing forbade direct routes at directCheckedAt. checkDirect: it is to be
	// checked again.
	mayDirect, checkDirect bool
	directCheckedAt        time.Time
	pairs                  map[string]*pair // by the remote pod's UID
	// census is of the flows, when they were swept; full counts those without room;
	// former are the data planes of other versions that are still there.
	census dataplane.Census
	swept  time.Time
	full   uint64
	// replies are to its flows of datagrams that peers answer.
	replies map[datagramFlow]*detect.Replies
	former  int
	// rejoining: the peers that a predecessor has left are being entered. Flows with those that are not are kept.
	rejoining bool
	// wanted are peers that the pod has begun to speak with, to be entered.
	wanted []netip.Addr
	// leaving are the addresses of peers that are about to be left: no other pod is entered
	// by them until then.
	leaving map[netip.Addr]bool
	// withdrawing: pairs were taken home to be left at the next look at the cluster.
	withdrawing bool
	// narrow is when room for more peers could not be made.
	narrow time.Time
	// hops are the next hops of the paths to peers that a predecessor has left, by address.
	hops map[netip.Addr]map[int]net.HardwareAddr
	// inode identifies the namespace that the pod was taken up in. keeper keeps what
	// leads out of it, nil where nothing is to be changed.
	inode  uint64
	keeper *route.Keeper
	// askers ask peers from the pod's own addresses, of IPv4 and of IPv6.
	askers [2]asker
}

// sync brings data planes and pairs in step with the cluster. What it cannot do now it
// tries again the next time.
func (a *Agent) sync(d *description) error {
	other := a.members.description != d
	if other {
		a.members.description, a.wires.self = d, idOf(d.self)
		for _, l := range a.members.pods {
			l.plane.SetCandidates(d.filter)
		}
	}
	a.prober.syncHosts(d, a.cfg.Now())
	err := a.adopter.syncPods(d, other, !a.turned.IsZero())
	a.readings.observe()
	return err
}

// findHops finds the next hops of the paths to the peers that a predecessor has left.
func (l *pod) findHops(others elsewhere) error {
	l.hops = map[netip.Addr]map[int]net.HardwareAddr{}
	for _, addr := range l.plane.Entered() {
		remote, _ := others.addressed(addr)
		rs := route.Between(l.Pod, remote)
		if len(rs) < 2 {
			continue
		}
		var err error
		if l.hops[addr], err = route.NextHops(l.Netns, rs); err != nil {
			return err
		}
	}
	return nil
}
