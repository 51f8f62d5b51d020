package lab

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/topo"
)

// buildHost makes a host's namespace and plugs its uplink into the underlay.
func (l *local) buildHost(ctx context.Context, host topo.Host) error {
	if err := l.op.makeNetns(host.Netns); err != nil {
		return err
	}
	if err := sysctl(host.Netns, map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	if err := l.openIPv6(host.Netns, true); err != nil {
		return err
	}
	if err := l.uplink(ctx, host); err != nil {
		return err
	}
	return l.configureUplink(host)
}

// configureUplink gives the host its address and its default route.
func (l *local) configureUplink(host topo.Host) error {
	h, link, err := l.uplinkOf(host)
	if err != nil {
		return err
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(host.Addr)}); err != nil {
		return fmt.Errorf("set address of %s: %w", host.Name, err)
	}
	if err := l.address6(h, link, host.Addr); err != nil {
		return err
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set uplink of %s up: %w", host.Name, err)
	}
	// Without a default route proxy ARP does not answer, and masquerading has nowhere to go.
	err = h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: l.Gateway.Addr().AsSlice()})
	if err != nil {
		return fmt.Errorf("set default route of %s: %w", host.Name, err)
	}
	if g := l.gateway6(); g.IsValid() {
		if err := h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: g.Addr().AsSlice()}); err != nil {
			return fmt.Errorf("set IPv6 default route of %s: %w", host.Name, err)
		}
	}
	return nil
}

// manyHosts is from how many hosts on they are told of each other's hardware
// addresses. The kernel has one table of neighbours for all namespaces, and 1024
// entries by default (gc_thresh3): daemons that all talk to each other, as BGP's in
// a full mesh do, fill it from 32 hosts on, and then packets are dropped all over
// the machine. Permanent entries do not count (neigh_alloc, Linux 5.0).
const manyHosts = 24

// acquaint enters the hosts' hardware addresses with each other.
func (l *local) acquaint() error {
	if len(l.hosts) < manyHosts || len(l.Spec.VMs) > 0 {
		return nil
	}
	macs := map[int]net.HardwareAddr{}
	for _, h := range l.hosts {
		_, link, err := l.uplinkOf(h)
		if err != nil {
			return err
		}
		macs[h.Index] = link.Attrs().HardwareAddr
	}
	for _, h := range l.hosts {
		nl, link, err := l.uplinkOf(h)
		if err != nil {
			return err
		}
		for _, peer := range l.hosts {
			if peer.Index == h.Index {
				continue
			}
			n := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: peer.Addr.Addr().AsSlice(), HardwareAddr: macs[peer.Index],
				State: netlink.NUD_PERMANENT}
			if err := nl.NeighSet(n); err != nil {
				return fmt.Errorf("tell %s of %s: %w", h.Name, peer.Name, err)
			}
		}
	}
	return nil
}

// uplinkOf returns a host's interface on the underlay, with the handle to change it by.
func (l *local) uplinkOf(host topo.Host) (*netlink.Handle, netlink.Link, error) {
	nl, err := l.op.Netlink(host.Netns)
	if err != nil {
		return nil, nil, err
	}
	link, err := nl.LinkByName(host.Dev)
	if err != nil {
		return nil, nil, fmt.Errorf("find uplink of %s: %w", host.Name, err)
	}
	return nl, link, nil
}
