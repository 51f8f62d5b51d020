// Package route says which paths two pods have, and makes a pod's kernel ready
// for them: packet sizes, hardware addresses, timeouts.
//
// It chooses no path and moves no flow: that is said by package decide and done
// by package dataplane. What it makes are the ordinary routes and neighbours that an
// operator would see with ip(8).
package route

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/topo"
)

// Route is one path between two pods: both ends' attachments to a network.
type Route struct {
	Network string
	// Index is the path's number in the data plane; 0 is the default network.
	Index         int
	Local, Remote topo.Attachment
	// Encap: packets go in UDP there, as translation cannot cross the network.
	Encap bool
}

// MTU is how large the pod's packets may be on the path, in bytes: the smaller of
// its ends' MTU, less what encapsulation adds.
func (r Route) MTU() int {
	if r.Encap {
		return r.size() - dataplane.EncapOverhead
	}
	return r.size()
}

// size is how large packets may be on the network itself, in bytes.
func (r Route) size() int { return min(r.Local.MTU, r.Remote.MTU) }

// AddrIn is the attachment's address of an IP family, if it has one.
func AddrIn(at topo.Attachment, v6 bool) (netip.Addr, bool) {
	switch {
	case at.Addr.IsValid() && at.Addr.Is6() == v6:
		return at.Addr, true
	case v6 && at.Addr6.IsValid():
		return at.Addr6, true
	default:
		return netip.Addr{}, false
	}
}

// in is the attachment with its address of a family alone.
func in(at topo.Attachment, v6 bool) (topo.Attachment, bool) {
	addr, ok := AddrIn(at, v6)
	at.Addr, at.Addr6 = addr, netip.Addr{}
	return at, ok
}

// Between lists the paths between two pods, the default network first, then the
// others by name, without those that either pod's flows are barred from. They are of the IP
// family of the remote pod's stable address. It is empty for pods whose default networks
// differ: without agents they could not talk either.
func Between(local, remote topo.Pod) []Route {
	if len(local.Attachments) == 0 || len(remote.Attachments) == 0 ||
		local.Attachments[0].Network != remote.Attachments[0].Network {
		return nil
	}
	v6 := remote.Addr().Is6()
	here, ok := in(local.Attachments[0], v6)
	there, too := in(remote.Attachments[0], v6)
	if !ok || !too {
		return nil
	}
	out := []Route{{Network: here.Network, Local: here, Remote: there}}
	others := slices.Clone(local.Attachments[1:])
	slices.SortFunc(others, func(a, b topo.Attachment) int { return cmp.Compare(a.Network, b.Network) })
	for i, a := range others[:min(len(others), dataplane.MaxPaths-1)] {
		barred := slices.Contains(local.Barred, a.Network) || slices.Contains(remote.Barred, a.Network)
		b, ok := remote.On(a.Network)
		if !ok || barred {
			continue
		}
		here, ok := in(a, v6)
		if there, too := in(b, v6); ok && too {
			// Numbered by the local pod's networks, so that a network has one
			// number for all of its peers, as its interface has one program.
			out = append(out, Route{Network: a.Network, Index: i + 1, Local: here, Remote: there})
		}
	}
	return out
}

// Peer is what the local data plane is told of a remote pod. Only an open peer's
// paths are entered. hops holds their next hops by index, as far as known.
func Peer(remote topo.Pod, rs []Route, open bool, hops map[int]net.HardwareAddr,
	keys func(network string) dataplane.Keys) dataplane.Peer {
	if keys == nil {
		keys = func(string) dataplane.Keys { return dataplane.Keys{} }
	}
	peer := dataplane.Peer{UID: remote.UID, Keys: keys(rs[0].Network),
		Pairs: []dataplane.Pair{{Local: rs[0].Local.Addr, Remote: rs[0].Remote.Addr}}}
	if !open {
		return peer
	}
	for _, r := range rs[1:] {
		peer.Paths = append(peer.Paths, dataplane.Path{Index: r.Index, Dev: r.Local.Dev, MTU: r.size(), Encap: r.Encap,
			NextHop: hops[r.Index], Keys: keys(r.Network),
			Pairs: []dataplane.Pair{{Local: r.Local.Addr, Remote: r.Remote.Addr}}})
	}
	return peer
}
