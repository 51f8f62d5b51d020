// Package wireguard holds the networks that carry packets between hosts encrypted
// by WireGuard (Donenfeld 2017): wireguard, by the kernel's device, and
// wireguard-go, by the same protocol in user space. Each host's peers, and what
// addresses are whose, are known to it from the start; there is no control plane.
//
// The user-space daemon is tools/wireguard-go of this repository: wireguard-go's
// own packages under a main of ours.
package wireguard

import (
	"context"
	"fmt"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// Kind says what encrypts.
type Kind int

// Kinds.
const (
	// Kernel: the kernel's device, in Linux since 5.6.
	Kernel Kind = iota
	// UserSpace: wireguard-go and a tun device.
	UserSpace
)

// overhead is what WireGuard's own tools (wg-quick) take from the underlay's MTU:
// outer IPv6 40, UDP 8, WireGuard's header 16 and tag 16. Over IPv4, as here, 20
// bytes are left over.
const overhead = 40 + 8 + 16 + 16

// New returns the network of that kind.
func New(kind Kind) network.Network { return wireguard{kind} }

type wireguard struct{ kind Kind }

// Info implements network.Network.
func (w wireguard) Info() network.Info {
	info := network.Info{
		Family: "wireguard", Overhead: overhead, Families: network.Both(),
		Needs: append(routed.Needs(), routed.NeedsOutside()),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "routes of the host", Outside: "masquerade",
			KeyValue: "no (static peers)", Encryption: "yes (ChaCha20-Poly1305)", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
	switch w.kind {
	case Kernel:
		info.Name, info.Summary = "wireguard", "pod routes into the kernel's WireGuard device; static peers"
		info.Needs = append(info.Needs, network.NeedLink("wireguard", "CONFIG_WIREGUARD"),
			network.NeedProgram("wg", "wireguard-tools"))
		info.Row.InterHost = "WireGuard tunnel"
	case UserSpace:
		info.Name, info.Summary = "wireguard-go", "pod routes into wireguard-go, WireGuard in user space; static peers"
		info.Needs = append(info.Needs, network.NeedLink("tun", "CONFIG_TUN"),
			network.Need{Kind: network.Program, Name: daemon, From: "make plugins"})
		info.Row.InterHost = "WireGuard tunnel in user space"
	}
	return info
}

// Build implements network.Network.
func (w wireguard) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	var err error
	if plug.Conflists, err = routed.Conflists(w.Info().Name, site, site.MTU-overhead); err != nil {
		return plug, err
	}
	ring, err := newRing(site)
	if err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := w.buildHost(ctx, site, h, ring); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: device(site)})
	}
	if w.kind == UserSpace {
		plug.Ready = func(ctx context.Context) error { return ready(ctx, site) }
	}
	return plug, nil
}

func (w wireguard) buildHost(ctx context.Context, site network.Site, h topo.Host, ring ring) error {
	if err := routed.Masquerade(ctx, site, h); err != nil {
		return err
	}
	if w.kind == UserSpace {
		return startDaemon(ctx, site, h, ring)
	}
	return makeDevice(ctx, site, h, ring)
}

// device is the name of the tunnel's device on each host.
func device(site network.Site) string { return fmt.Sprintf("wg%d", site.Index) }

// port is the usual one; a host's second device takes another.
func port(site network.Site) uint16 { return 51820 + uint16(site.Index) }
