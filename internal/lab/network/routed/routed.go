// Package routed attaches pods by a veth pair and a route of their host (the CNI
// plugin ptp), for networks whose hosts reach one another's pods by routes, with
// or without a tunnel. How those routes come about is the networks' own.
package routed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

// Needs is what this package needs of the machine.
func Needs() []network.Need {
	return []network.Need{network.NeedRoot(), network.NeedPlugin("ptp"), network.NeedPlugin("host-local"),
		network.NeedLink("veth", "CONFIG_VETH")}
}

// Conflists returns each host's CNI configuration list by host index.
func Conflists(name string, site network.Site, mtu int) (map[int]json.RawMessage, error) {
	out := map[int]json.RawMessage{}
	for _, h := range site.Hosts {
		ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), conflist.Range{Subnet: h.Pods, IPv6: site.IPv6},
			site.Beyond(site.Pods))
		list, err := conflist.List(name, conflist.Plugin{"type": "ptp", "mtu": mtu, "ipam": ipam})
		if err != nil {
			return nil, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		out[h.Index] = list
	}
	return out, nil
}

// NeedsOutside is what Masquerade needs of the machine.
func NeedsOutside() network.Need { return network.NeedProgram("nft", "nftables") }

// Masquerade lets the host's pods out as their host, where what is outside has no
// route to them. Only the default network's leave at all.
func Masquerade(ctx context.Context, site network.Site, h topo.Host) error {
	if !site.Default() {
		return nil
	}
	if err := masquerade(ctx, site, h, "ip", h.Pods, site.Pods); err != nil || !site.IPv6 {
		return err
	}
	// Pods of one segment have addresses of the whole range.
	return masquerade(ctx, site, h, "ip6", topo.Range6(site.Pods), topo.Range6(site.Pods))
}

// masquerade makes the rule of a family, ip or ip6, for what goes from one range to
// anything but all pods.
func masquerade(ctx context.Context, site network.Site, h topo.Host, family string, own, all netip.Prefix) error {
	rule := []string{"nft", fmt.Sprintf("add table %[1]s pathwise; "+
		"add chain %[1]s pathwise out { type nat hook postrouting priority srcnat; }; "+
		"add rule %[1]s pathwise out %[1]s saddr %[2]v %[1]s daddr != %[3]v oifname %[4]q masquerade", family, own, all, h.Dev)}
	rules, err := network.Firewall(ctx, site, h.Netns)
	if err != nil {
		return fmt.Errorf("masquerade pods: %w", err)
	}
	if rules == network.IPTables {
		// Without nftables in the kernel, iptables is only of use as it was before.
		rule = []string{family + "tables-legacy", "-w", "-t", "nat", "-A", "POSTROUTING",
			"-s", own.String(), "!", "-d", all.String(), "-o", h.Dev, "-j", "MASQUERADE"}
	}
	if _, err := site.Run(ctx, h.Netns, rule...); err != nil {
		return fmt.Errorf("masquerade pods: %w", err)
	}
	return nil
}

// Ranges are those of the host's pods, of each IP family that they have addresses of.
func Ranges(site network.Site, h topo.Host) []netip.Prefix {
	if site.IPv6 {
		return []netip.Prefix{h.Pods, topo.Range6(h.Pods)}
	}
	return []netip.Prefix{h.Pods}
}

// Through brings the host's tunnel up and routes the pods of all other hosts into it.
func Through(nl *netlink.Handle, tunnel netlink.Link, site network.Site, h topo.Host) error {
	if err := Up(nl, tunnel, site, h); err != nil {
		return err
	}
	for _, peer := range site.All() {
		if peer.Index == h.Index {
			continue
		}
		for _, pods := range Ranges(site, peer) {
			r := &netlink.Route{LinkIndex: tunnel.Attrs().Index, Dst: network.IPNet(pods), Scope: netlink.SCOPE_LINK}
			if err := nl.RouteAdd(r); err != nil {
				return fmt.Errorf("route pods of %s: %w", peer.Name, err)
			}
		}
	}
	return nil
}

// Up brings the host's tunnel up and gives it the first address of the host's
// pods, which ptp gives to the host's end of each pod's veth pair as well: what
// the host itself sends to other hosts' pods must come from an address to which
// they can answer through the tunnel.
func Up(nl *netlink.Handle, tunnel netlink.Link, site network.Site, h topo.Host) error {
	for _, pods := range Ranges(site, h) {
		addr := netip.PrefixFrom(pods.Masked().Addr().Next(), pods.Addr().BitLen())
		if err := nl.AddrAdd(tunnel, &netlink.Addr{IPNet: network.IPNet(addr)}); err != nil {
			return fmt.Errorf("set address of %s: %w", tunnel.Attrs().Name, err)
		}
	}
	if err := nl.LinkSetUp(tunnel); err != nil {
		return fmt.Errorf("set %s up: %w", tunnel.Attrs().Name, err)
	}
	return nil
}
