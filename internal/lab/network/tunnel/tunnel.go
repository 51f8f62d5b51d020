// Package tunnel holds networks of point-to-point tunnels of the kernel, one
// between every two hosts, that carry Ethernet frames from a bridge to a bridge:
// gre (gretap: Ethernet in GRE) and geneve (the kernel's, without Open vSwitch).
// VXLAN, whose single device knows many peers, is package vxlan's.
package tunnel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/segment"
	"pathwise.dev/pathwise/internal/topo"
)

// Kind is a kind of tunnel.
type Kind string

// Kinds.
const (
	GRE    Kind = "gre"
	Geneve Kind = "geneve"
)

const (
	ethernet, ipv4, udp = 14, 20, 8
	greHeader           = 4 // without key, checksum and sequence number: RFC 2784 section 2.1
	geneveHeader        = 8 // without options: RFC 8926 section 3.1

	vni = 43
	// genevePort is not IANA's 6081 (RFC 8926 section 3.3): OVN, which may be on
	// the same hosts, has a device there for all identifiers, and then the kernel
	// refuses another (drivers/net/geneve.c, geneve_configure).
	genevePort = 6082
)

// New returns the network of that kind.
func New(kind Kind) network.Network { return tunnel{kind} }

type tunnel struct{ kind Kind }

// Info implements network.Network.
func (t tunnel) Info() network.Info {
	info := network.Info{
		Name: string(t.kind), Family: "tunnel", Families: network.Both(), Needs: segment.Needs(),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", Outside: "-",
			KeyValue: "no (static peers)", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
	switch t.kind {
	case GRE:
		info.Summary = "gretap: Ethernet in GRE between every two hosts, and a bridge on each; static peers"
		info.Overhead = ethernet + ipv4 + greHeader
		info.Needs = append(info.Needs, network.NeedLink("gretap", "CONFIG_NET_IPGRE"))
		info.Row.InterHost = "GRE overlay"
	case Geneve:
		info.Summary = "kernel Geneve between every two hosts, and a bridge on each; static peers"
		info.Overhead = ethernet + ipv4 + udp + geneveHeader
		info.Needs = append(info.Needs, network.NeedLink("geneve", "CONFIG_GENEVE"))
		info.Row.InterHost = "Geneve overlay"
	}
	return info
}

// Build implements network.Network.
func (t tunnel) Build(_ context.Context, site network.Site) (network.Plug, error) {
	info := t.Info()
	mtu := site.MTU - info.Overhead
	plug := network.Plug{Mode: network.ByCNI}
	var err error
	if plug.Conflists, err = segment.Conflists(info.Name, site, mtu); err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		br, err := segment.Make(site, h, mtu)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		for _, peer := range site.All() {
			if peer.Index == h.Index {
				continue
			}
			link := t.link(br, site.Index, h, peer)
			if err := br.Join(link); err != nil {
				return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
			}
			if err := br.Isolate(link); err != nil {
				return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
			}
			plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: link.Attrs().Name})
		}
	}
	return plug, nil
}

// link is the host's end of the tunnel to peer.
func (t tunnel) link(br segment.Bridge, index int, h, peer topo.Host) netlink.Link {
	attrs := br.Attrs(fmt.Sprintf("%s%d-%d", t.kind, index, peer.Index))
	remote := peer.Addr.Addr().AsSlice()
	if t.kind == Geneve {
		return &netlink.Geneve{LinkAttrs: attrs, ID: vni, Remote: remote, Dport: genevePort}
	}
	return &netlink.Gretap{LinkAttrs: attrs, Local: h.Addr.Addr().AsSlice(), Remote: remote, PMtuDisc: 1}
}
