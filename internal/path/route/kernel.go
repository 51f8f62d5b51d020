package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/netns"
)

// protocol marks routes that this package made, so that it finds them again. It is
// in the range that rtnetlink.h leaves to users.
const protocol = 0x50

// Shape gives the pod a route of its own to a peer, like the one it uses now, but
// with packets of at most mtu bytes (0: the interface's) and a least
// retransmission timeout (0: the kernel's, 200 ms). TCP looks at its route again
// with each segment (tcp_current_mss), so connections follow.
func Shape(ns string, peer netip.Addr, mtu int, rto time.Duration) error {
	h, err := netns.Netlink(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	dst := hostNet(peer)
	if mtu == 0 && rto == 0 {
		// Of any scope: that of the route depends on whether there is a gateway.
		err := h.RouteDel(&netlink.Route{Dst: dst, Protocol: protocol, Scope: netlink.SCOPE_NOWHERE})
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route to %s: %w", peer, err)
		}
		return nil
	}
	now, err := h.RouteGet(peer.AsSlice())
	if err != nil || len(now) == 0 {
		return fmt.Errorf("look up route to %s: %w", peer, errors.Join(err, errNoRoute))
	}
	r := &netlink.Route{Dst: dst, LinkIndex: now[0].LinkIndex, Gw: now[0].Gw, Src: now[0].Src, MTU: mtu, Protocol: protocol}
	if rto > 0 {
		// A route's minimum is heeded only if it is locked (tcp_rto_min).
		r.RtoMin, r.RtoMinLock = int(rto.Milliseconds()), true
	}
	if r.Gw == nil {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := h.RouteReplace(r); err != nil {
		return fmt.Errorf("set MTU %d and least timeout %v towards %s: %w", mtu, rto, peer, err)
	}
	return nil
}

var errNoRoute = errors.New("the kernel names none")

// HoldNeighbour keeps the peer's hardware address on the default network known
// while flows are on another path: packets are resolved before the data plane
// sees them, and a default network that has failed would answer no ARP. It is for
// peers on the pod's own link, and reports whether this one is; a gateway answers by
// itself.
func HoldNeighbour(ns string, peer netip.Addr, hardware string, hold bool) (onLink bool, err error) {
	mac, err := net.ParseMAC(hardware)
	if err != nil || len(mac) != 6 {
		return false, nil // the cluster does not tell it: the kernel asks
	}
	h, err := netns.Netlink(ns)
	if err != nil {
		return false, err
	}
	defer h.Close()
	now, err := h.RouteGet(peer.AsSlice())
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
		found, err := h.RouteGetWithOptions(r.Remote.Addr.AsSlice(), &netlink.RouteGetOptions{Oif: r.Local.Dev, SrcAddr: r.Local.Addr.AsSlice()})
		if err != nil || len(found) == 0 {
			continue // no route now: the kernel would say so of each packet
		}
		if found[0].Gw == nil {
			if mac, err := net.ParseMAC(r.Remote.MAC); err == nil {
				out[r.Index] = mac
			}
			continue
		}
		neighbours, err := h.NeighList(found[0].LinkIndex, netlink.FAMILY_V4)
		if err != nil {
			return nil, fmt.Errorf("list neighbours on %s: %w", r.Local.Dev, err)
		}
		const usable = netlink.NUD_PERMANENT | netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
		for _, n := range neighbours {
			if n.IP.Equal(found[0].Gw) && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
				out[r.Index] = n.HardwareAddr
			}
		}
	}
	return out, nil
}
