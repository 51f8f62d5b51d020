// Package ipvlan holds the networks whose pods share the MAC address of their
// host's uplink and are told apart by their IP address, in the modes l2, l3 and
// l3s (Claassen 2015 measures l3; Sun et al., draft-dcn-bmwg-containerized-infra-00,
// name the solution). Modes are the CNI plugin's and the kernel's; the flags
// private and vepa are left out.
package ipvlan

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

// Mode is an ipvlan mode.
type Mode string

// Modes (Documentation/networking/ipvlan.rst of the kernel, section 4).
const (
	// L2: pods take addresses of the underlay's range and resolve their peers'.
	L2 Mode = "l2"
	// L3: the driver hands packets to the host's routing, and nothing else.
	L3 Mode = "l3"
	// L3S: as L3, and packets pass the host's netfilter both ways.
	L3S Mode = "l3s"
)

// New returns the network of that mode.
func New(mode Mode) network.Network { return ipvlan{mode} }

type ipvlan struct{ mode Mode }

// Uplink is what the driver in that mode is called as the receiver of the
// uplink's frames: all of an uplink's ipvlan devices have one mode
// (drivers/net/ipvlan/ipvlan_main.c, ipvlan_set_port_mode).
func Uplink(mode Mode) string { return "ipvlan " + string(mode) }

// Info implements network.Network.
func (v ipvlan) Info() network.Info {
	info := network.Info{
		Name: "ipvlan-" + string(v.mode), Family: "ipvlan", Families: network.Both(), Uplink: Uplink(v.mode),
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("ipvlan"), network.NeedPlugin("host-local"),
			network.NeedLink("ipvlan", "CONFIG_IPVLAN")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "in the ipvlan driver",
			KeyValue: "no", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOutside: true, OwnNamespace: true},
	}
	switch v.mode {
	case L2:
		info.Summary = "ipvlan l2: pods on the underlay under their host's MAC address; their own host they do not reach"
		info.Row.InterHost, info.Row.Outside = "the underlay's layer 2", "the underlay's layer 2"
	case L3:
		info.Summary = "ipvlan l3: pods under their host's MAC address, routed by their host past its netfilter; the underlay has routes to them"
	case L3S:
		info.Summary = "ipvlan l3s: as l3, through their host's netfilter"
	}
	if v.mode != L2 {
		info.Row.InterHost, info.Row.Outside = "routes of host and underlay", "routes of the underlay"
		info.Row.ReachOwnHost = true
	}
	return info
}

// Build implements network.Network.
func (v ipvlan) Build(_ context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}, Crossing: network.Uplinks(site)}
	for _, h := range site.Hosts {
		ipam, err := v.ipam(site, h)
		if err != nil {
			return plug, err
		}
		list, err := conflist.List(v.Info().Name, conflist.Plugin{"type": "ipvlan", "master": h.Dev, "mode": string(v.mode),
			"mtu": site.MTU, "ipam": ipam})
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
	}
	if v.mode == L2 {
		return plug, nil
	}
	return plug, routes(site)
}

// ipam gives pods addresses of the underlay, or, where they are routed, of the
// host's own range.
func (v ipvlan) ipam(site network.Site, h topo.Host) (conflist.Plugin, error) {
	dir := filepath.Join(site.Dir, h.Name)
	if v.mode != L2 {
		return conflist.HostLocal(dir, conflist.Range{Subnet: h.Pods, IPv6: site.IPv6}, site.Beyond(site.Pods)), nil
	}
	part, err := site.OnUnderlay(h)
	if err != nil {
		return nil, err
	}
	r := conflist.Within(h.Addr.Masked(), part)
	r.Gateway, r.IPv6 = site.Gateway.Addr(), site.IPv6
	return conflist.HostLocal(dir, r, site.Beyond(netip.Prefix{})), nil
}

// routes tells the underlay's router, and each host, where the pods are: l3 pods
// answer no ARP, nor does their host for them.
func routes(site network.Site) error {
	if !site.Within {
		if err := routesOf(site, site.Underlay, network.UnderlayBridge, 0); err != nil {
			return fmt.Errorf("configure underlay: %w", err)
		}
	}
	for _, h := range site.Hosts {
		if err := routesOf(site, h.Netns, h.Dev, h.Index); err != nil {
			return fmt.Errorf("configure host %s: %w", h.Name, err)
		}
	}
	return nil
}

// routesOf adds routes to the pods of all hosts but the one with index self.
func routesOf(site network.Site, netns, dev string, self int) error {
	nl, err := site.Netlink(netns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	for _, h := range site.All() {
		if h.Index == self {
			continue
		}
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network.IPNet(h.Pods), Gw: h.Addr.Addr().AsSlice()}
		if err := nl.RouteAdd(r); err != nil {
			return fmt.Errorf("route pods of %s: %w", h.Name, err)
		}
		if !site.IPv6 {
			continue
		}
		r = &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network.IPNet(topo.Range6(h.Pods)),
			Gw: h.Addr6.Addr().AsSlice()}
		if err := nl.RouteAdd(r); err != nil {
			return fmt.Errorf("route IPv6 pods of %s: %w", h.Name, err)
		}
	}
	return nil
}
