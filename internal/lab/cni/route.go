package cni

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// ErrDefaultRoute: a network besides the default one wants everything sent to it.
var ErrDefaultRoute = errors.New("it gives the pod a default route, which is the first network's alone: leave it out of the configuration list")

// firstTable is the routing table before that of the pod's network number 1, and
// the priority of the rule for it; both lie far from what distributions use.
const firstTable = 7700

// Separate keeps network number n (from 1) of the pod apart: what comes from its
// address leaves by its interface dev, and nothing else leaves there but for the
// network's own ranges. Sockets bound to the address therefore never send by the
// default network, where that address means nothing, and the reverse path filter
// (RFC 3704 section 2.2) lets their answers in also when it is strict. Doing it
// twice changes nothing.
func Separate(nl *netlink.Handle, dev string, n int) error {
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	for _, family := range families() {
		addrs, err := netns.Whole(func() ([]netlink.Addr, error) { return nl.AddrList(link, family) })
		if err != nil {
			return fmt.Errorf("list addresses of %s: %w", dev, err)
		}
		if addrs = slices.DeleteFunc(addrs, ofLink); len(addrs) > 0 {
			if err := separate(nl, link, n, family, addrs); err != nil {
				return err
			}
		}
	}
	return nil
}

func families() []int { return []int{netlink.FAMILY_V4, netlink.FAMILY_V6} }

// ofLink reports whether an address means something on its link alone.
func ofLink(a netlink.Addr) bool { return a.IP.To4() == nil && a.IP.IsLinkLocalUnicast() }

// separate is Separate for the addresses of a family.
func separate(nl *netlink.Handle, link netlink.Link, n, family int, addrs []netlink.Addr) error {
	dev, all := link.Attrs().Name, everywhere(family)
	routes, err := routesOf(nl, link.Attrs().Index, family)
	if err != nil {
		return err
	}
	// One that is not there is unreachable, not the default network's.
	none := netlink.Route{Dst: all, Type: unix.RTN_UNREACHABLE}
	for _, r := range append(routes, none) {
		r.Table = firstTable + n
		if err := nl.RouteReplace(&r); err != nil {
			return fmt.Errorf("copy route %v of %s: %w", r.Dst, dev, err)
		}
	}
	for _, a := range addrs {
		r := rule(n, family)
		r.Src = &net.IPNet{IP: a.IP, Mask: net.CIDRMask(8*len(all.IP), 8*len(all.IP))}
		if err := nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add rule for %v: %w", a.IP, err)
		}
	}
	return nil
}

// everywhere is the range of all addresses of a family.
func everywhere(family int) *net.IPNet {
	if family == netlink.FAMILY_V6 {
		return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
}

// routesOf returns the interface's routes, those without a gateway first, as the
// others need them.
func routesOf(nl *netlink.Handle, index, family int) ([]netlink.Route, error) {
	all, err := netns.Whole(func() ([]netlink.Route, error) {
		return nl.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []netlink.Route
	for _, r := range all {
		ours := r.LinkIndex == index ||
			slices.ContainsFunc(r.MultiPath, func(h *netlink.NexthopInfo) bool { return h.LinkIndex == index })
		if !ours {
			continue
		}
		if r.Dst != nil && r.Dst.IP.To4() == nil && r.Dst.IP.IsLinkLocalUnicast() {
			continue // of each link, and asked for with its interface
		}
		if r.Dst == nil || len(r.Dst.Mask) > 0 && slices.Max(r.Dst.Mask) == 0 {
			return nil, ErrDefaultRoute
		}
		out = append(out, netlink.Route{LinkIndex: index, Dst: r.Dst, Gw: r.Gw, Src: r.Src, Scope: r.Scope,
			Flags: r.Flags & int(netlink.FLAG_ONLINK)})
	}
	slices.SortStableFunc(out, func(a, b netlink.Route) int { return len(a.Gw) - len(b.Gw) })
	return out, nil
}

// Rejoin takes away what Separate has made; the interface's own routes go with it.
func Rejoin(nl *netlink.Handle, n int) error {
	for _, family := range families() {
		if err := rejoin(nl, n, family); err != nil {
			return err
		}
	}
	return nil
}

func rejoin(nl *netlink.Handle, n, family int) error {
	rules, err := netns.Whole(func() ([]netlink.Rule, error) {
		return nl.RuleListFiltered(family, rule(n, family), netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, r := range rules {
		r.Family = family
		if err := nl.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete rule for %v: %w", r.Src, err)
		}
	}
	routes, err := netns.Whole(func() ([]netlink.Route, error) {
		return nl.RouteListFiltered(family, &netlink.Route{Table: firstTable + n}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if err := nl.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("delete route %v: %w", r.Dst, err)
		}
	}
	return nil
}

func rule(n, family int) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Table, r.Priority = family, firstTable+n, firstTable+n
	return r
}
