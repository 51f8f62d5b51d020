package lab

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// openUnbound lets programs that bind to no address and no VRF use the pod's
// interface, as those of workloads do: routes of it that plugins have moved to other
// tables are in the main one too, and sockets of no VRF take what arrives in one
// (Documentation/networking/vrf.rst). With its address known, a packet goes by the
// plugins' own rules and tables.
func openUnbound(ns, dev string) error {
	nl, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netns.Whole(func() ([]netlink.Route, error) {
			return nl.RouteListFiltered(family,
				&netlink.Route{Table: unix.RT_TABLE_UNSPEC, LinkIndex: link.Attrs().Index},
				netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
		})
		if err != nil {
			return fmt.Errorf("list routes of %s: %w", dev, err)
		}
		// Routes to neighbours first, as those by a gateway need them.
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return len(a.Gw) - len(b.Gw) })
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_MAIN || r.Type != unix.RTN_UNICAST || r.Protocol == unix.RTPROT_KERNEL &&
				family == netlink.FAMILY_V6 && r.Dst != nil && r.Dst.IP.IsLinkLocalUnicast() {
				continue
			}
			r.Table = unix.RT_TABLE_MAIN
			if link.Attrs().MasterIndex != 0 {
				r.Src = nil // it is none of this table's, says fib_valid_prefsrc of net/ipv4/fib_semantics.c
			}
			if err := nl.RouteReplace(&r); err != nil {
				return fmt.Errorf("route %v by %s in the main table: %w", r.Dst, dev, err)
			}
		}
	}
	return sysctl(ns, map[string]string{"net/ipv4/tcp_l3mdev_accept": "1", "net/ipv4/udp_l3mdev_accept": "1"})
}
