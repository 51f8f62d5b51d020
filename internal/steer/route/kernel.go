package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// protocol marks routes that this package made, so that it finds them again. It is
// in the range that rtnetlink.h leaves to users.
const protocol = 0x50

// Form is what a pod's own route to a peer is to be like. The zero Form is none.
type Form struct {
	// MTU bounds packets, in bytes; 0: the interface's.
	MTU int
	// RTOMin is the least retransmission timeout; 0: the kernel's, 200 ms.
	RTOMin time.Duration
	// Direct is the path's interface that the route leads straight to; "": it leads
	// where it would without us. For IPv4 alone: the data plane sends what must not go
	// that way by the route that there would be without us, which the kernel finds by
	// the interface, but for IPv6 it prefers the longer prefix (ip6_pol_route).
	Direct string
}

// nowhere is the gateway of direct routes, which is none (RFC 3927), and its hardware
// address. Neither is seen by anybody, as the data plane writes the path's addresses
// (steer.Plane.Direct); but the kernel sends nothing to a neighbour that it cannot
// resolve.
func nowhere() (net.IP, net.HardwareAddr) {
	return net.IPv4(169, 254, 80, 87), net.HardwareAddr{0x02, 'P', 'W', 0, 0, 1}
}

// Shape gives the pod a route of its own to a peer, like the one it uses now, but
// formed so; not where somebody else has made it one. TCP looks at its route again with
// each segment (tcp_current_mss), so connections follow.
func Shape(ns string, peer netip.Addr, f Form) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	dst := hostNet(peer)
	if f == (Form{}) {
		return unshape(h, peer)
	}
	now, err := look(h, peer)
	if err != nil {
		return err
	}
	if err := free(h, peer); err != nil {
		return err
	}
	if direct(now) && f.Direct == "" {
		if err := unshape(h, peer); err != nil {
			return err
		}
		if now, err = look(h, peer); err != nil {
			return err
		}
	}
	r := &netlink.Route{Dst: dst, LinkIndex: now.LinkIndex, Gw: now.Gw, Src: now.Src, MTU: f.MTU, Protocol: protocol}
	if f.RTOMin > 0 {
		// A route's minimum is heeded only if it is locked (tcp_rto_min).
		r.RtoMin, r.RtoMinLock = int(f.RTOMin.Milliseconds()), true
	}
	if f.Direct != "" {
		if err := lead(h, r, f.Direct); err != nil {
			return fmt.Errorf("lead %s to %s: %w", peer, f.Direct, err)
		}
	} else if r.Gw == nil {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := h.RouteReplace(r); err != nil {
		return fmt.Errorf("set MTU %d and least timeout %v towards %s: %w", f.MTU, f.RTOMin, peer, err)
	}
	return nil
}

// look asks the kernel which way it sends packets to the peer.
func look(h *netlink.Handle, peer netip.Addr) (netlink.Route, error) {
	now, err := h.RouteGet(peer.AsSlice())
	if err != nil || len(now) == 0 {
		return netlink.Route{}, fmt.Errorf("look up route to %s: %w", peer, errors.Join(err, errNoRoute))
	}
	return now[0], nil
}

// free is an error where somebody else has given the pod a route to the peer alone: Shape's would replace it.
func free(h *netlink.Handle, peer netip.Addr) error {
	all, err := h.RouteGetWithOptions(peer.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return fmt.Errorf("look up what leads to %s: %w", peer, err)
	}
	for _, r := range all {
		if bits(r.Dst) == peer.BitLen() && r.Protocol != protocol {
			return fmt.Errorf("%w: %s", errTaken, peer)
		}
	}
	return nil
}

var errTaken = errors.New("the pod has a route to this address alone, which somebody else has made")

func direct(r netlink.Route) bool {
	gateway, _ := nowhere()
	return r.Gw.Equal(gateway)
}

// lead has the route go by the gateway that is none on the interface.
func lead(h *netlink.Handle, r *netlink.Route, dev string) error {
	if r.Dst.IP.To4() == nil {
		return errIPv6
	}
	l, err := h.LinkByName(dev)
	if err != nil {
		return err
	}
	gateway, mac := nowhere()
	r.LinkIndex, r.Gw, r.Flags = l.Attrs().Index, gateway, int(netlink.FLAG_ONLINK)
	return h.NeighSet(&netlink.Neigh{LinkIndex: r.LinkIndex, IP: r.Gw, HardwareAddr: mac, State: netlink.NUD_PERMANENT})
}

var errIPv6 = errors.New("direct routes are for IPv4")

// unshape removes the pod's own route to a peer, if it has one.
func unshape(h *netlink.Handle, peer netip.Addr) error {
	// Of any scope: that of the route depends on whether there is a gateway.
	err := h.RouteDel(&netlink.Route{Dst: hostNet(peer), Protocol: protocol, Scope: netlink.SCOPE_NOWHERE})
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove route to %s: %w", peer, err)
	}
	return nil
}

// Undirect removes the direct routes that a predecessor has left: nobody knows any
// more whether the data plane still takes what they lead. The default network does.
func Undirect(ns string) error { return drop(ns, direct) }

// Clear removes all of a pod's own routes to peers.
func Clear(ns string) error { return drop(ns, func(netlink.Route) bool { return true }) }

// Leave removes all that this package has made in a pod towards peers: its own routes, what they lead by, and the
// hardware addresses that are held on dev, of the peers with such addresses.
func Leave(ns, dev string, peer func(netip.Addr) bool) error {
	return errors.Join(Clear(ns), ReleaseNeighbours(ns, dev, peer), forgetNowhere(ns))
}

// forgetNowhere removes the gateway that is none from all interfaces.
func forgetNowhere(ns string) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	all, err := neighbours(h, 0)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	gateway, _ := nowhere()
	for _, n := range all {
		if !n.IP.Equal(gateway) {
			continue
		}
		if err := h.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove neighbour %s: %w", gateway, err)
		}
	}
	return nil
}

func drop(ns string, which func(netlink.Route) bool) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	all, err := netns.Whole(func() ([]netlink.Route, error) {
		return h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range all {
		if !which(r) {
			continue
		}
		if err := h.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route to %v: %w", r.Dst, err)
		}
	}
	return nil
}

var errNoRoute = errors.New("the kernel names none")

// HoldNeighbour keeps the peer's hardware address on the default network known
// while flows are on another path: packets are resolved before the data plane
// sees them, and a default network that has failed would answer no ARP. It is for
// peers on the pod's own link, and reports whether this one is; a gateway answers by
// itself. dev is the pod's interface there, as a direct route leads by another.
func HoldNeighbour(ns, dev string, peer netip.Addr, hardware string, hold bool) (onLink bool, err error) {
	mac, err := net.ParseMAC(hardware)
	if err != nil || len(mac) != 6 {
		return false, nil // the cluster does not tell it: the kernel asks
	}
	h, err := netns.Netlink(ns)
	if err != nil {
		return false, err
	}
	defer h.Close()
	now, err := h.RouteGetWithOptions(peer.AsSlice(), &netlink.RouteGetOptions{Oif: dev})
	if err != nil || len(now) == 0 {
		return false, fmt.Errorf("look up route to %s: %w", peer, errors.Join(err, errNoRoute))
	}
	if now[0].Gw != nil {
		return false, nil
	}
	n := &netlink.Neigh{LinkIndex: now[0].LinkIndex, IP: peer.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT}
	if !hold {
		n.State = netlink.NUD_STALE // the kernel asks again when it needs it
	}
	if err := h.NeighSet(n); err != nil {
		return true, fmt.Errorf("hold neighbour %s: %w", peer, err)
	}
	return true, nil
}

// ReleaseNeighbours ends what HoldNeighbour holds on dev for such peers, also of another agent:
// a peer's pod that is made again has another hardware address.
func ReleaseNeighbours(ns, dev string, peer func(netip.Addr) bool) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(dev)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil // and its neighbours went with it
	} else if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	all, err := neighbours(h, l.Attrs().Index)
	if err != nil {
		return fmt.Errorf("list neighbours on %s: %w", dev, err)
	}
	for _, n := range all {
		addr, ok := netip.AddrFromSlice(n.IP)
		if !ok || n.State&netlink.NUD_PERMANENT == 0 || !peer(addr.Unmap()) {
			continue
		}
		n.State = netlink.NUD_STALE // the kernel asks again when it needs it
		if err := h.NeighSet(&n); err != nil {
			return fmt.Errorf("release neighbour %s: %w", addr, err)
		}
	}
	return nil
}

// neighbours are those on the interface with that index, or on all for 0.
func neighbours(h *netlink.Handle, index int) ([]netlink.Neigh, error) {
	return netns.Whole(func() ([]netlink.Neigh, error) { return h.NeighList(index, netlink.FAMILY_ALL) })
}

func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// NextHops finds, for each path of a pair, the hardware address that its frames
// go to: the peer's own on the same link, or the gateway's as the kernel knows
// it. A path that is missing is left to the kernel, packet by packet, which costs
// a little more.
func NextHops(ns string, rs []Route) (map[int]net.HardwareAddr, error) {
	h, err := netns.Netlink(ns)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	out := map[int]net.HardwareAddr{}
	for _, r := range rs[1:] {
		found, err := h.RouteGetWithOptions(r.Remote.Addr.AsSlice(),
			&netlink.RouteGetOptions{Oif: r.Local.Dev, SrcAddr: r.Local.Addr.AsSlice()})
		if err != nil || len(found) == 0 {
			continue // no route now: the kernel would say so of each packet
		}
		if found[0].Gw == nil {
			if mac, err := net.ParseMAC(r.Remote.MAC); err == nil {
				out[r.Index] = mac
			}
			continue
		}
		all, err := neighbours(h, found[0].LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("list neighbours on %s: %w", r.Local.Dev, err)
		}
		const usable = netlink.NUD_PERMANENT | netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY |
			netlink.NUD_PROBE
		for _, n := range all {
			if n.IP.Equal(found[0].Gw) && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
				out[r.Index] = n.HardwareAddr
			}
		}
	}
	return out, nil
}
