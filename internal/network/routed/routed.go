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

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/conflist"
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
		ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), conflist.Range{Subnet: h.Pods}, site.Beyond(site.Pods))
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
	rule := []string{"nft", fmt.Sprintf("add table ip pathwise; "+
		"add chain ip pathwise out { type nat hook postrouting priority srcnat; }; "+
		"add rule ip pathwise out ip saddr %v ip daddr != %v oifname %q masquerade", h.Pods, site.Pods, h.Dev)}
	if network.Firewall(ctx, site, h.Netns) == network.IPTables {
		// Without nftables in the kernel, iptables is only of use as it was before.
		rule = []string{"iptables-legacy", "-w", "-t", "nat", "-A", "POSTROUTING",
			"-s", h.Pods.String(), "!", "-d", site.Pods.String(), "-o", h.Dev, "-j", "MASQUERADE"}
	}
	if _, err := site.Run(ctx, h.Netns, rule...); err != nil {
		return fmt.Errorf("masquerade pods: %w", err)
	}
	return nil
}

// Through brings the host's tunnel up and routes the pods of all other hosts into it.
func Through(nl *netlink.Handle, tunnel netlink.Link, site network.Site, h topo.Host) error {
	if err := Up(nl, tunnel, h); err != nil {
		return err
	}
	for _, peer := range site.All() {
		if peer.Index == h.Index {
			continue
		}
		r := &netlink.Route{LinkIndex: tunnel.Attrs().Index, Dst: network.IPNet(peer.Pods), Scope: netlink.SCOPE_LINK}
		if err := nl.RouteAdd(r); err != nil {
			return fmt.Errorf("route pods of %s: %w", peer.Name, err)
		}
	}
	return nil
}

// Up brings the host's tunnel up and gives it the first address of the host's
// pods, which ptp gives to the host's end of each pod's veth pair as well: what
// the host itself sends to other hosts' pods must come from an address to which
// they can answer through the tunnel.
func Up(nl *netlink.Handle, tunnel netlink.Link, h topo.Host) error {
	addr := netip.PrefixFrom(h.Pods.Masked().Addr().Next(), h.Pods.Addr().BitLen())
	if err := nl.AddrAdd(tunnel, &netlink.Addr{IPNet: network.IPNet(addr)}); err != nil {
		return fmt.Errorf("set address of %s: %w", tunnel.Attrs().Name, err)
	}
	if err := nl.LinkSetUp(tunnel); err != nil {
		return fmt.Errorf("set %s up: %w", tunnel.Attrs().Name, err)
	}
	return nil
}
