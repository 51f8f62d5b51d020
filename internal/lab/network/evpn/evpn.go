// Package evpn holds evpn-vxlan: the kernel's VXLAN and a bridge on each host,
// joined by BGP EVPN (RFC 8365), spoken by FRR: hosts tell one another where they
// are and which addresses are behind them, in place of flooding to a static list
// and learning from what comes back, as network vxlan does. It is one layer 2;
// routing between several (L3VNI) is not here.
package evpn

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/segment"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5).
	overhead = 14 + 20 + 8 + 8
	// firstVNI is the identifier of a lab's network number 0; network vxlan's is another.
	firstVNI = 100
	// port is Linux's own and not IANA's 4789 (RFC 7348 section 8): that is Open
	// vSwitch's, which may be on the same host and shares with no other receiver.
	port = 8472
)

// New returns the network.
func New() network.Network { return evpn{} }

type evpn struct{}

// Info implements network.Network.
func (evpn) Info() network.Info {
	return network.Info{
		Name: "evpn-vxlan", Family: "evpn", Summary: "kernel VXLAN and a bridge on each host; peers and addresses by BGP EVPN (FRR)",
		Overhead: overhead, Families: network.Both(),
		Needs: append(segment.Needs(), network.NeedLink("vxlan", "CONFIG_VXLAN"),
			network.Need{Kind: network.File, Name: program("zebra"), From: "apt-get install frr"},
			network.Need{Kind: network.File, Name: program("bgpd"), From: "apt-get install frr"}),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", InterHost: "VXLAN overlay",
			Outside: "-", KeyValue: "no (BGP)", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
}

// device is the host's end of all tunnels.
func device(site network.Site) string { return fmt.Sprintf("evpn%d", site.Index) }

// Build implements network.Network.
func (e evpn) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	mtu := site.MTU - overhead
	var err error
	if plug.Conflists, err = segment.Conflists(e.Info().Name, site, mtu); err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := buildHost(site, h, mtu); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		if err := startRouter(ctx, site, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: device(site)})
	}
	plug.Ready = func(ctx context.Context) error { return converged(ctx, site) }
	return plug, nil
}

// buildHost makes the host's bridge and tunnel, which learns nothing by itself.
func buildHost(site network.Site, h topo.Host, mtu int) error {
	br, err := segment.Make(site, h, mtu)
	if err != nil {
		return err
	}
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	tun := &netlink.Vxlan{LinkAttrs: br.Attrs(device(site)), VxlanId: firstVNI + site.Index, Port: port,
		SrcAddr: h.Addr.Addr().AsSlice()}
	if err := br.Join(tun); err != nil {
		return err
	}
	if err := nl.LinkSetLearning(tun, false); err != nil {
		return fmt.Errorf("keep the bridge from learning from %s: %w", device(site), err)
	}
	return nil
}

// converged waits until every host floods to every other one, which FRR tells the
// kernel when it has the other's route for that (RFC 7432 section 11, type 3).
func converged(ctx context.Context, site network.Site) error {
	return network.Poll(ctx, 5*time.Millisecond, func() error {
		for _, h := range site.Hosts {
			have, err := floodsTo(site, h)
			if err != nil {
				return fmt.Errorf("host %s: %w", h.Name, err)
			}
			for _, peer := range site.All() {
				if peer.Index != h.Index && !have[peer.Addr.Addr()] {
					return fmt.Errorf("host %s has no EVPN route to %s", h.Name, peer.Name)
				}
			}
		}
		return nil
	})
}

// floodsTo returns the hosts to which this one sends frames for all.
func floodsTo(site network.Site, h topo.Host) (map[netip.Addr]bool, error) {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return nil, err
	}
	link, err := nl.LinkByName(device(site))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", device(site), err)
	}
	entries, err := netns.Whole(func() ([]netlink.Neigh, error) {
		return nl.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
	})
	if err != nil {
		return nil, fmt.Errorf("list forwarding entries of %s: %w", device(site), err)
	}
	out := map[netip.Addr]bool{}
	for _, e := range entries {
		if a, ok := netip.AddrFromSlice(e.IP.To4()); ok && e.HardwareAddr.String() == "00:00:00:00:00:00" {
			out[a] = true
		}
	}
	return out, nil
}
