package lab

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/topo"
)

// manyHosts is from how many hosts on they are told of each other's hardware
// addresses. The kernel has one table of neighbours for all namespaces, and 1024
// entries by default (gc_thresh3): daemons that all talk to each other, as BGP's in
// a full mesh do, fill it from 32 hosts on, and then packets are dropped all over
// the machine. Permanent entries do not count (neigh_alloc, Linux 5.0).
const manyHosts = 24

// acquaint enters the hosts' hardware addresses with each other.
func (l *Lab) acquaint() error {
	if len(l.hosts) < manyHosts || len(l.spec.VMs) > 0 {
		return nil
	}
	macs := map[int]net.HardwareAddr{}
	for _, h := range l.hosts {
		link, err := l.uplink(h)
		if err != nil {
			return err
		}
		macs[h.Index] = link.Attrs().HardwareAddr
	}
	for _, h := range l.hosts {
		link, err := l.uplink(h)
		if err != nil {
			return err
		}
		for _, peer := range l.hosts {
			if peer.Index == h.Index {
				continue
			}
			n := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: peer.Addr.Addr().AsSlice(), HardwareAddr: macs[peer.Index],
				State: netlink.NUD_PERMANENT}
			if err := l.handles[h.Netns].NeighSet(n); err != nil {
				return fmt.Errorf("tell %s of %s: %w", h.Name, peer.Name, err)
			}
		}
	}
	return nil
}

// uplink is a host's interface on the underlay.
func (l *Lab) uplink(host topo.Host) (netlink.Link, error) {
	nl, err := l.Netlink(host.Netns)
	if err != nil {
		return nil, err
	}
	link, err := nl.LinkByName(host.Dev)
	if err != nil {
		return nil, fmt.Errorf("find uplink of %s: %w", host.Name, err)
	}
	return link, nil
}
