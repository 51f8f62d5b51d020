// Package vlan holds macvlan-vlan and ipvlan-vlan: pods in a VLAN of their own
// (IEEE 802.1Q) on the underlay, by macvlan or ipvlan on a VLAN device on each
// host's uplink. Sun et al. (draft-dcn-bmwg-containerized-infra-00) compare them
// with Open vSwitch's VLANs, which are not here.
package vlan

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

// Driver says how pods get onto the VLAN.
type Driver string

// Drivers, by the names of their CNI plugins.
const (
	Macvlan Driver = "macvlan"
	IPvlan  Driver = "ipvlan"
)

// firstID is the VLAN of a lab's network number 0.
const firstID = 100

// New returns the network with that driver.
func New(driver Driver) network.Network { return vlan{driver} }

type vlan struct{ driver Driver }

// Info implements network.Network. Frames in a VLAN reach their device before
// anything that receives the uplink's frames (net/core/dev.c,
// __netif_receive_skb_core), so Uplink is empty.
func (v vlan) Info() network.Info {
	info := network.Info{
		Name: string(v.driver) + "-vlan", Family: "vlan", Families: network.Both(),
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin(string(v.driver)), network.NeedPlugin("host-local"),
			network.NeedLink("vlan", "CONFIG_VLAN_8021Q")},
		Row: network.Quality{Namespace: "independent, isolated", InterHost: "a VLAN of the underlay",
			Outside: "the VLAN's router", KeyValue: "no", Encryption: "no", Isolation: "high (a VLAN of its own)",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
	switch v.driver {
	case Macvlan:
		info.Summary = "macvlan on an 802.1Q VLAN of the uplink; the underlay's router joins it with the rest"
		info.Needs = append(info.Needs, network.NeedLink("macvlan", "CONFIG_MACVLAN"))
		info.Row.IntraHost = "in the macvlan driver"
	case IPvlan:
		info.Summary = "ipvlan l2 on an 802.1Q VLAN of the uplink; the underlay's router joins it with the rest"
		info.Needs = append(info.Needs, network.NeedLink("ipvlan", "CONFIG_IPVLAN"))
		info.Row.IntraHost = "in the ipvlan driver"
	}
	return info
}

// Build implements network.Network.
func (v vlan) Build(_ context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}}
	// The first part of the pods' range is no host's.
	router := netip.PrefixFrom(site.Pods.Masked().Addr().Next(), site.Pods.Bits())
	if !site.Within {
		addrs := []netip.Prefix{router}
		if site.IPv6 {
			addrs = append(addrs, topo.Addr6(router))
		}
		if _, err := tag(site, site.Underlay, network.UnderlayBridge, addrs...); err != nil {
			return plug, fmt.Errorf("configure underlay: %w", err)
		}
	}
	mode := map[Driver]string{Macvlan: "bridge", IPvlan: "l2"}[v.driver]
	for _, h := range site.Hosts {
		dev, err := tag(site, h.Netns, h.Dev)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		r := conflist.Within(site.Pods, h.Pods)
		r.Gateway, r.IPv6 = router.Addr(), site.IPv6
		list, err := conflist.List(v.Info().Name, conflist.Plugin{"type": string(v.driver), "master": dev, "mode": mode,
			"mtu": site.MTU, "ipam": conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, site.Beyond(netip.Prefix{}))})
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: dev})
	}
	return plug, nil
}

// tag makes the VLAN's device on dev and sets it up, with the addresses.
func tag(site network.Site, netns, dev string, addrs ...netip.Prefix) (string, error) {
	nl, err := site.Netlink(netns)
	if err != nil {
		return "", err
	}
	parent, err := nl.LinkByName(dev)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dev, err)
	}
	id := firstID + site.Index
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = fmt.Sprintf("%s.%d", dev, id), site.MTU, parent.Attrs().Index
	link := &netlink.Vlan{LinkAttrs: attrs, VlanId: id, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	if err := nl.LinkAdd(link); err != nil {
		return "", fmt.Errorf("create VLAN device %s: %w", attrs.Name, err)
	}
	for _, a := range addrs {
		if err := nl.AddrAdd(link, &netlink.Addr{IPNet: network.IPNet(a)}); err != nil {
			return "", fmt.Errorf("set address of %s: %w", attrs.Name, err)
		}
	}
	if err := nl.LinkSetUp(link); err != nil {
		return "", fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return attrs.Name, nil
}
