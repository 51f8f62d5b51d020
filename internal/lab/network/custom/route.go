package custom

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// conf is the list as it is for the host's first pod.
func (n *Network) conf(site network.Site, h topo.Host) (*libcni.NetworkConfigList, error) {
	filled, err := n.fill(place{site: site, host: h, pod: 1})
	if err != nil {
		return nil, fmt.Errorf("configure host %s: %s: %w", h.Name, n.list.Path, err)
	}
	list, err := libcni.ConfListFromBytes(filled)
	if err != nil {
		return nil, fmt.Errorf("configure host %s: %s: %w", h.Name, n.list.Path, err)
	}
	return list, nil
}

// ranges are those of each host's pods, by the host's index.
func (n *Network) ranges(site network.Site) (map[int][]netip.Prefix, error) {
	out := map[int][]netip.Prefix{}
	for _, h := range site.All() {
		list, err := n.conf(site, h)
		if err != nil {
			return nil, err
		}
		out[h.Index] = rangesOf(list)
	}
	return out, nil
}

// routes makes the static routes to the hosts' ranges: from each host to those of
// the others, and from the underlay, as a rack's switch has them.
func routes(site network.Site, ranges map[int][]netip.Prefix, v4 bool) error {
	for _, peer := range site.All() {
		for _, r := range ranges[peer.Index] {
			if r.Addr().Is4() && !v4 {
				continue
			}
			via := net.IP(peer.Addr.Addr().AsSlice())
			if !r.Addr().Is4() {
				var err error
				if via, err = linkLocal(site, peer); err != nil {
					return err
				}
			}
			for _, h := range site.Hosts {
				if h.Index == peer.Index {
					continue
				}
				if err := route(site, h.Netns, h.Dev, r, via); err != nil {
					return fmt.Errorf("route pods of %s on %s: %w", peer.Name, h.Name, err)
				}
			}
			if site.Within {
				continue
			}
			if err := route(site, site.Underlay, network.UnderlayBridge, r, via); err != nil {
				return fmt.Errorf("route pods of %s on the underlay: %w", peer.Name, err)
			}
		}
	}
	return nil
}

func route(site network.Site, ns, dev string, dst netip.Prefix, via net.IP) error {
	nl, err := site.Netlink(ns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	return nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: network.IPNet(dst), Gw: via})
}

// linkLocal is the host's link-local address on the underlay, the only one that
// it is sure to have there in IPv6 (RFC 4291 section 2.1).
func linkLocal(site network.Site, h topo.Host) (net.IP, error) {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return nil, err
	}
	link, err := nl.LinkByName(h.Dev)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", h.Dev, err)
	}
	addrs, err := netns.Whole(func() ([]netlink.Addr, error) { return nl.AddrList(link, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", h.Dev, err)
	}
	for _, a := range addrs {
		if a.Scope == unix.RT_SCOPE_LINK {
			return a.IP, nil
		}
	}
	return nil, fmt.Errorf("host %s has no IPv6 on %s: IPv6 is turned off", h.Name, h.Dev)
}
