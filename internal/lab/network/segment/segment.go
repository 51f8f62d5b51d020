// Package segment makes one layer 2 of all hosts, for networks that carry
// Ethernet frames between them: a bridge on each host, to which pods are attached
// by the CNI plugin bridge. What joins the bridges is the networks' own.
package segment

import (
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
	return []network.Need{network.NeedRoot(), network.NeedPlugin("bridge"), network.NeedPlugin("host-local"),
		network.NeedLink("veth", "CONFIG_VETH"), network.NeedLink("bridge", "CONFIG_BRIDGE")}
}

// Conflists returns each host's CNI configuration list by host index.
func Conflists(name string, site network.Site, mtu int) (map[int]json.RawMessage, error) {
	out := map[int]json.RawMessage{}
	for _, h := range site.Hosts {
		r := conflist.Within(site.Pods, h.Pods)
		r.IPv6 = site.IPv6
		ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, netip.Prefix{})
		list, err := conflist.List(name, conflist.Plugin{"type": "bridge", "bridge": site.Bridge(), "mtu": mtu, "ipam": ipam})
		if err != nil {
			return nil, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		out[h.Index] = list
	}
	return out, nil
}

// Bridge is a host's part of the segment.
type Bridge struct {
	nl   *netlink.Handle
	link *netlink.Bridge
	mtu  int
}

// Make makes the host's bridge.
func Make(site network.Site, h topo.Host, mtu int) (Bridge, error) {
	b := Bridge{mtu: mtu}
	var err error
	if b.nl, err = site.Netlink(h.Netns); err != nil {
		return b, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = site.Bridge(), mtu
	b.link = &netlink.Bridge{LinkAttrs: attrs}
	if err := b.nl.LinkAdd(b.link); err != nil {
		return b, fmt.Errorf("create bridge: %w", err)
	}
	if err := b.nl.LinkSetUp(b.link); err != nil {
		return b, fmt.Errorf("set bridge up: %w", err)
	}
	return b, nil
}

// Attrs are those of a tunnel that is to be a port of the bridge.
func (b Bridge) Attrs(name string) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = name, b.mtu, b.link.Attrs().Index
	return attrs
}

// Join makes the tunnel, whose attributes are from Attrs, and sets it up.
func (b Bridge) Join(tunnel netlink.Link) error {
	if err := b.nl.LinkAdd(tunnel); err != nil {
		return fmt.Errorf("create %s device: %w", tunnel.Type(), err)
	}
	if err := b.nl.LinkSetUp(tunnel); err != nil {
		return fmt.Errorf("set %s up: %w", tunnel.Attrs().Name, err)
	}
	return nil
}

// Isolate keeps what comes in by the tunnel from leaving by another isolated one.
// With a tunnel from each host to each other, a frame for all would go round for
// ever: the bridges' split horizon, as in a VPLS (RFC 4762 section 4.4).
func (b Bridge) Isolate(tunnel netlink.Link) error {
	if err := b.nl.LinkSetIsolated(tunnel, true); err != nil {
		return fmt.Errorf("isolate %s: %w", tunnel.Attrs().Name, err)
	}
	return nil
}
