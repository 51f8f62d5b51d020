package agent

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"net"
	"slices"

	"pathwise.dev/pathwise/internal/path/steer"
	"pathwise.dev/pathwise/internal/topo"
)

// Cluster is what an agent is told of hosts and pods.
type Cluster struct {
	Hosts []topo.Host `json:"hosts"`
	Pods  []topo.Pod  `json:"pods"`
	// Equal lists the networks whose policy is known to equal that of the
	// default network. Flows are never moved to another one.
	Equal []string `json:"equal"`
}

// host returns the host called name.
func (c Cluster) host(name string) (topo.Host, bool) {
	i := slices.IndexFunc(c.Hosts, func(h topo.Host) bool { return h.Name == name })
	if i < 0 {
		return topo.Host{}, false
	}
	return c.Hosts[i], true
}

// agentPod returns the pod that the agent of host index keeps for itself.
func (c Cluster) agentPod(index int) (topo.Pod, bool) {
	i := slices.IndexFunc(c.Pods, func(p topo.Pod) bool { return p.Agent && p.Host == index })
	if i < 0 {
		return topo.Pod{}, false
	}
	return c.Pods[i], true
}

// steerable lists the host's pods that have more than one network.
func (c Cluster) steerable(index int) []topo.Pod {
	var out []topo.Pod
	for _, p := range c.Pods {
		if p.Host == index && !p.Agent && p.UID != "" && len(p.Attachments) > 1 {
			out = append(out, p)
		}
	}
	return out
}

// names lists the cluster's networks in the order that gives them their
// numbers in notices; every agent derives the same.
func (c Cluster) names() []string {
	var out []string
	for _, p := range c.Pods {
		for _, a := range p.Attachments {
			out = append(out, a.Network)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namesHash tells whether two agents number the networks alike.
func namesHash(names []string) uint32 {
	h := fnv.New32a()
	for _, n := range names {
		fmt.Fprintf(h, "%s\x00", n) // never fails
	}
	return h.Sum32()
}

// podID is a pod's identity in notices.
type podID [16]byte

func idOf(p topo.Pod) podID {
	sum := sha256.Sum256([]byte(p.UID))
	return podID(sum[:16])
}

// route is one path of a pair: a network that both pods are on.
type route struct {
	network string
	// index in the data plane; 0 is the default network.
	index         int
	local, remote topo.Attachment
}

// routes lists the paths between two pods, the default network first, then the
// others by name. It is empty for pods whose default networks differ: without
// agents they could not talk either.
func routes(local, remote topo.Pod) []route {
	if len(local.Attachments) == 0 || len(remote.Attachments) == 0 ||
		local.Attachments[0].Network != remote.Attachments[0].Network {
		return nil
	}
	out := []route{{network: local.Attachments[0].Network, local: local.Attachments[0], remote: remote.Attachments[0]}}
	others := slices.Clone(local.Attachments[1:])
	slices.SortFunc(others, func(a, b topo.Attachment) int { return cmp.Compare(a.Network, b.Network) })
	for i, a := range others {
		if i+1 >= steer.MaxPaths {
			break
		}
		j := slices.IndexFunc(remote.Attachments[1:], func(b topo.Attachment) bool { return b.Network == a.Network })
		if j >= 0 {
			// Numbered by the local pod's networks, so that a network has one
			// number for all of its peers, as its interface has one program.
			out = append(out, route{network: a.Network, index: i + 1, local: a, remote: remote.Attachments[j+1]})
		}
	}
	return out
}

// peerOf is what the data plane of local is told of remote.
func peerOf(remote topo.Pod, rs []route, open bool, hops map[int]net.HardwareAddr) steer.Peer {
	peer := steer.Peer{UID: remote.UID, Pairs: []steer.Pair{{Local: rs[0].local.Addr, Remote: rs[0].remote.Addr}}}
	if !open {
		return peer
	}
	for _, r := range rs[1:] {
		peer.Paths = append(peer.Paths, steer.Path{Index: r.index, Dev: r.local.Dev, MTU: min(r.local.MTU, r.remote.MTU), NextHop: hops[r.index],
			Pairs: []steer.Pair{{Local: r.local.Addr, Remote: r.remote.Addr}}})
	}
	return peer
}
