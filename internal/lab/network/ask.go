package network

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// ask has the kernel itself answer, once, in a namespace that goes with the try:
// a list of modules would be a guess.
func (m *Machine) ask(n Need) error {
	if err, ok := m.asked[n]; ok {
		return err
	}
	err := netns.Throwaway(func() error {
		switch n.Kind {
		case Family:
			return tryFamily(n.Name)
		case Encap:
			return tryEncap(n.Name)
		case Socket:
			return trySocket(n.Name)
		default:
			return tryLink(n.Name)
		}
	})
	m.asked[n] = err
	return err
}

// tryFamily asks for the family, which also loads its module where there is one
// (net/netlink/genetlink.c, ctrl_getfamily).
func tryFamily(name string) error {
	if _, err := netlink.GenlFamilyGet(name); err != nil {
		return fmt.Errorf("genl ctrl get name %s: %w", name, err)
	}
	return nil
}

// trySocket opens a socket of the family.
func trySocket(name string) error {
	if name != "AF_XDP" {
		return fmt.Errorf("socket family %q is none that Pathwise can try", name)
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket %s: %w", name, err)
	}
	return unix.Close(fd)
}

// tryCongestion gives a socket the congestion control, which loads its module where there
// is one and the caller is root (net/ipv4/tcp_cong.c, tcp_set_congestion_control). One that
// is there and that this caller may not choose is not missing: in a namespace of his own
// he may.
func tryCongestion(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("setsockopt TCP_CONGESTION: %w", err)
	}
	return nil
}

// VLANFiltering is the device type of a bridge that tells VLANs apart.
const VLANFiltering = "bridge vlan_filtering"

// tryLink creates a device of the type. Some types want to know the other end,
// or what they stand on, before they say anything else.
func tryLink(kind string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "pw-try"
	local, remote := net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2) // RFC 5737
	var link netlink.Link
	switch kind {
	case "veth":
		link = &netlink.Veth{LinkAttrs: attrs, PeerName: "pw-try2"}
	case "vxlan":
		link = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 4789}
	case "geneve":
		link = &netlink.Geneve{LinkAttrs: attrs, ID: 1, Remote: remote}
	case "gre":
		link = &netlink.Gretun{LinkAttrs: attrs, Local: local, Remote: remote}
	case "gretap":
		link = &netlink.Gretap{LinkAttrs: attrs, Local: local, Remote: remote}
	case "ipip":
		link = &netlink.Iptun{LinkAttrs: attrs, Local: local, Remote: remote}
	case "vrf":
		link = &netlink.Vrf{LinkAttrs: attrs, Table: 7}
	case VLANFiltering:
		yes := true
		link = &netlink.Bridge{LinkAttrs: attrs, VlanFiltering: &yes}
	case "macvlan", "ipvlan", "vlan":
		return tryChild(kind, attrs)
	case "tun":
		f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	default:
		link = &netlink.GenericLink{LinkAttrs: attrs, LinkType: kind}
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("ip link add type %s: %w", kind, err)
	}
	return nil
}

// tryChild creates a device that is on another one.
func tryChild(kind string, attrs netlink.LinkAttrs) error {
	parent, err := tryParent()
	if err != nil {
		return err
	}
	attrs.ParentIndex = parent.Attrs().Index
	var link netlink.Link
	switch kind {
	case "macvlan":
		link = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	case "ipvlan":
		link = &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}
	default:
		link = &netlink.Vlan{LinkAttrs: attrs, VlanId: 7, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("ip link add type %s: %w", kind, err)
	}
	return nil
}

// tryParent makes a device for others to stand on.
func tryParent() (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "pw-parent"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "pw-peer"}); err != nil {
		return nil, fmt.Errorf("ip link add type veth: %w", err)
	}
	parent, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", attrs.Name, err)
	}
	if err := netlink.LinkSetUp(parent); err != nil {
		return nil, fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return parent, nil
}

// tryEncap adds a route with the encapsulation.
func tryEncap(name string) error {
	if name != "seg6" {
		return fmt.Errorf("route encapsulation %q is none that Pathwise can try", name)
	}
	parent, err := tryParent()
	if err != nil {
		return err
	}
	err = netlink.RouteAdd(&netlink.Route{LinkIndex: parent.Attrs().Index,
		Dst: &net.IPNet{IP: net.IPv4(192, 0, 2, 0).To4(), Mask: net.CIDRMask(24, 32)},
		Encap: &netlink.SEG6Encap{Mode: nl.SEG6_IPTUN_MODE_ENCAP,
			Segments: []net.IP{net.ParseIP("2001:db8::1")}}}) // RFC 3849
	if err != nil {
		return fmt.Errorf("ip route add encap %s: %w", name, err)
	}
	return nil
}
