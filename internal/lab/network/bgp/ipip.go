package bgp

import (
	"context"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// ipipOverhead is the outer IPv4 header (RFC 2003 section 3.1).
const ipipOverhead = 20

// NewIPIP returns ipip-bgp.
func NewIPIP() network.Network { return ipip{} }

type ipip struct{}

// Info implements network.Network.
func (ipip) Info() network.Info {
	return network.Info{
		Name: "ipip-bgp", Family: "bgp", Summary: "pod routes by BGP (BIRD 2) into an IPIP tunnel device, as Calico's IPIP mode",
		Overhead: ipipOverhead, Extra: meet,
		Needs: append(routed.Needs(), network.NeedProgram("bird", "bird2"), routed.NeedsOutside(),
			network.NeedLink("ipip", "CONFIG_NET_IPIP")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "routes of the host",
			InterHost: "IPIP overlay, routes by BGP", Outside: "masquerade", KeyValue: "no (BGP)", Encryption: "no",
			Isolation: "moderate", ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true,
			OwnNamespace: true},
	}
}

// Build implements network.Network. The underlay takes no part: it need not know
// of pods, which is what the tunnel is for.
func (n ipip) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	var err error
	if plug.Conflists, err = routed.Conflists(n.Info().Name, site, site.MTU-ipipOverhead); err != nil {
		return plug, err
	}
	dev := fmt.Sprintf("ipip%d", site.Index)
	for _, h := range site.Hosts {
		if err := makeTunnel(ctx, site, h, dev); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: dev})
	}
	m := hosts(site, dev)
	plug.Ready = m.converged
	return plug, m.start(ctx)
}

// makeTunnel makes the host's one device to all other hosts: it has no remote
// address, and sends a packet to the next hop of the packet's route
// (net/ipv4/ip_tunnel.c, ip_tunnel_xmit).
func makeTunnel(ctx context.Context, site network.Site, h topo.Host, dev string) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = dev, site.MTU-ipipOverhead
	link := &netlink.Iptun{LinkAttrs: attrs, Local: h.Addr.Addr().AsSlice(), PMtuDisc: 1}
	if err := nl.LinkAdd(link); err != nil {
		return fmt.Errorf("create IPIP device: %w", err)
	}
	if err := routed.Up(nl, link, site, h); err != nil {
		return err
	}
	return routed.Masquerade(ctx, site, h)
}

// hostsTable is BIRD's table of the ways to the other hosts.
const hostsTable = "hosts"

// tunnelled tells the speaker's BIRD that the other hosts are reached by the
// tunnel, in a table by which next hops are resolved and nothing else: sessions
// themselves go outside the tunnel. Calico patches its BIRD to the same end
// (krt_tunnel); the kernel gets the same routes, "via HOST dev TUNNEL onlink".
func (m mesh) tunnelled(s speaker) string {
	if s.tunnel == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ipv4 table %s;\nprotocol static { ipv4 { table %s; };", hostsTable, hostsTable)
	for _, peer := range m.speakers {
		if peer.addr != s.addr {
			fmt.Fprintf(&b, " route %v/32 via %v%%%s onlink;", peer.addr, peer.addr, s.tunnel)
		}
	}
	b.WriteString(" }\n")
	return b.String()
}

// resolve is how the speaker finds the way to a next hop.
func resolve(s speaker) string {
	if s.tunnel == "" {
		return ""
	}
	return "gateway recursive; igp table " + hostsTable + "; "
}
