// Package vxlan holds the kernel's VXLAN with a bridge on each host, as
// libnetwork's overlay driver builds it (Atici and Boluk 2020; Suo et al. 2018),
// without its control plane: the list of peers is static.
package vxlan

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/segment"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5).
	overhead = 14 + 20 + 8 + 8
	vni      = 42
	// port is Linux's own and not IANA's 4789 (RFC 7348 section 8): that is Open
	// vSwitch's, which may be on the same host and shares with no other receiver.
	port   = 8472
	device = "vxlan0"
)

// New returns the network.
func New() network.Network { return vxlan{} }

type vxlan struct{}

// Info implements network.Network.
func (vxlan) Info() network.Info {
	return network.Info{
		Name: "vxlan", Family: "vxlan", Summary: "kernel VXLAN and a bridge on each host, as Docker's overlay; static peers",
		Overhead: overhead, Families: network.Both(),
		Needs: append(segment.Needs(), network.NeedLink("vxlan", "CONFIG_VXLAN")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", InterHost: "VXLAN overlay",
			Outside: "- (Docker adds a second interface)", KeyValue: "no (static peers)", Encryption: "no",
			Isolation: "moderate", ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
}

// Build implements network.Network.
func (v vxlan) Build(_ context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	mtu := site.MTU - overhead
	var err error
	if plug.Conflists, err = segment.Conflists(v.Info().Name, site, mtu); err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := buildHost(site, h, mtu); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: device})
	}
	return plug, nil
}

// buildHost makes the host's bridge and tunnel. Frames for unknown and
// multicast addresses go to every peer; the rest is learnt.
func buildHost(site network.Site, h topo.Host, mtu int) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	uplink, err := nl.LinkByName(h.Dev)
	if err != nil {
		return fmt.Errorf("find uplink: %w", err)
	}
	br, err := segment.Make(site, h, mtu)
	if err != nil {
		return err
	}
	tun := &netlink.Vxlan{LinkAttrs: br.Attrs(device), VxlanId: vni, Port: port, Learning: true,
		SrcAddr: h.Addr.Addr().AsSlice(), VtepDevIndex: uplink.Attrs().Index}
	if err := br.Join(tun); err != nil {
		return err
	}
	for _, peer := range site.All() {
		if peer.Index == h.Index {
			continue
		}
		entry := &netlink.Neigh{LinkIndex: tun.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT,
			Flags: netlink.NTF_SELF, IP: peer.Addr.Addr().AsSlice(), HardwareAddr: make(net.HardwareAddr, 6)}
		if err := nl.NeighAppend(entry); err != nil {
			return fmt.Errorf("add peer %s: %w", peer.Name, err)
		}
	}
	return nil
}
