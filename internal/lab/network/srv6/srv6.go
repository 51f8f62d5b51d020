// Package srv6 holds srv6: packets of pods in IPv6 with a segment routing
// header (RFC 8754, RFC 8986) between hosts, by the kernel's route encapsulation
// and no device. The underlay of a lab need not have IPv6; the addresses by which hosts
// send to one another are the network's own. Routes and segments are static.
package srv6

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// overhead is the outer IPv6 header and a segment routing header with one
// segment (RFC 8754 section 2).
const overhead = 40 + 8 + 16

// New returns the network.
func New() network.Network { return srv6{} }

type srv6 struct{}

// Info implements network.Network.
func (srv6) Info() network.Info {
	return network.Info{
		Name: "srv6", Family: "srv6", Summary: "pod routes with SRv6 encapsulation (H.Encaps, End.DX4 and DX6) between hosts; static segments",
		Overhead: overhead, Families: network.Both(),
		Needs: append(routed.Needs(), routed.NeedsOutside(), network.NeedEncap("seg6", "CONFIG_IPV6_SEG6_LWTUNNEL")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "routes of the host", InterHost: "SRv6 overlay",
			Outside: "masquerade", KeyValue: "no (static segments)", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
}

// Build implements network.Network.
func (s srv6) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Crossing: network.Uplinks(site)}
	var err error
	if plug.Conflists, err = routed.Conflists(s.Info().Name, site, site.MTU-overhead); err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := buildHost(site, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		if err := routed.Masquerade(ctx, site, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
	}
	return plug, nil
}

func buildHost(site network.Site, h topo.Host) error {
	if err := forward(h); err != nil {
		return err
	}
	handle, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	uplink, err := handle.LinkByName(h.Dev)
	if err != nil {
		return fmt.Errorf("find uplink: %w", err)
	}
	// Without duplicate address detection, which takes a second (RFC 4862 section 5.4).
	addr := &netlink.Addr{IPNet: network.IPNet(netip.PrefixFrom(address(site, h), 64)), Flags: unix.IFA_F_NODAD}
	if err := handle.AddrAdd(uplink, addr); err != nil {
		return fmt.Errorf("set IPv6 address of %s: %w", h.Dev, err)
	}
	dev := uplink.Attrs().Index
	for _, r := range routes(site, h) {
		r.LinkIndex = dev
		if err := handle.RouteAdd(&r); err != nil {
			return fmt.Errorf("add route to %v: %w", r.Dst, err)
		}
	}
	return nil
}

// routes are the host's: its own segments, at which packets leave the tunnel, and
// for each other host the way to its segments and the pods that lie behind them. Each IP
// family has a segment of its own.
func routes(site network.Site, h topo.Host) (out []netlink.Route) {
	for _, own := range routed.Ranges(site, h) {
		out = append(out, netlink.Route{Dst: single(segment(site, h, own)), Encap: end(own)})
	}
	for _, peer := range site.All() {
		if peer.Index == h.Index {
			continue
		}
		for _, pods := range routed.Ranges(site, peer) {
			seg := segment(site, peer, pods)
			out = append(out,
				netlink.Route{Dst: single(seg), Gw: address(site, peer).AsSlice()},
				netlink.Route{Dst: network.IPNet(pods), Scope: netlink.SCOPE_LINK,
					Encap: &netlink.SEG6Encap{Mode: nl.SEG6_IPTUN_MODE_ENCAP, Segments: []net.IP{seg.AsSlice()}}})
		}
	}
	return out
}

// end is what is done at the segment of such pods: what is inside goes where its own
// destination says (RFC 8986 sections 4.4 and 4.5, with no next hop).
func end(pods netip.Prefix) *netlink.SEG6LocalEncap {
	out := &netlink.SEG6LocalEncap{Action: nl.SEG6_LOCAL_ACTION_END_DX4, InAddr: net.IPv4zero.To4()}
	next := nl.SEG6_LOCAL_NH4
	if !pods.Addr().Is4() {
		out = &netlink.SEG6LocalEncap{Action: nl.SEG6_LOCAL_ACTION_END_DX6, In6Addr: net.IPv6zero}
		next = nl.SEG6_LOCAL_NH6
	}
	out.Flags[nl.SEG6_LOCAL_ACTION], out.Flags[next] = true, true
	return out
}

// forward has the host route IPv6: a packet of a pod has become one when it is
// sent on its way (net/ipv6/seg6_iptunnel.c, seg6_input_core).
func forward(h topo.Host) error {
	return netns.Do(h.Netns, func() error {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644); err != nil {
			return fmt.Errorf("forward IPv6: %w", err)
		}
		return nil
	})
}

// address is the host's on the underlay, and segment the one at which its pods of a range
// are reached: of a unique local range (RFC 4193) that no other network uses.
func address(site network.Site, h topo.Host) netip.Addr { return ula(site, 0, h) }
func segment(site network.Site, h topo.Host, pods netip.Prefix) netip.Addr {
	if pods.Addr().Is4() {
		return ula(site, 1, h)
	}
	return ula(site, 2, h)
}

func ula(site network.Site, part byte, h topo.Host) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 'p', 'a', 't', 'h', 'w', byte(site.Index), part, 14: byte(h.Index >> 8),
		15: byte(h.Index)})
}

func single(a netip.Addr) *net.IPNet { return network.IPNet(netip.PrefixFrom(a, a.BitLen())) }
