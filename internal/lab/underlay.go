package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// underlayBridge is the switch between the hosts.
const underlayBridge = network.UnderlayBridge

// buildUnderlay makes the switch's namespace with its bridge and gateway address.
func (l *Lab) buildUnderlay() error {
	if err := l.makeNetns(l.underlay); err != nil {
		return err
	}
	// A switch does not run the hosts' firewall rules; new namespaces start with 1.
	if err := l.sysctl(l.underlay, map[string]string{"net/bridge/bridge-nf-call-iptables": "0",
		"net/bridge/bridge-nf-call-ip6tables": "0", "net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	if err := l.openIPv6(l.underlay, true); err != nil {
		return err
	}
	if err := l.makeBridge(l.underlay, underlayBridge, l.spec.wireMTU()); err != nil {
		return err
	}
	h, err := l.Netlink(l.underlay)
	if err != nil {
		return err
	}
	br, err := h.LinkByName(underlayBridge)
	if err != nil {
		return fmt.Errorf("find underlay bridge: %w", err)
	}
	if err := h.AddrAdd(br, &netlink.Addr{IPNet: ipNet(l.gateway)}); err != nil {
		return fmt.Errorf("set underlay address: %w", err)
	}
	return l.address6(h, br, l.gateway)
}

// makeBridge makes a bridge and sets it up.
func (l *Lab) makeBridge(ns, name string, mtu int) error {
	h, err := l.Netlink(ns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.LinkAdd(br); err != nil {
		return fmt.Errorf("create bridge %s: %w", name, err)
	}
	if err := h.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge %s up: %w", name, err)
	}
	return nil
}

// buildHost makes a host's namespace and plugs its uplink into the underlay.
func (l *Lab) buildHost(ctx context.Context, host topo.Host) error {
	if err := l.makeNetns(host.Netns); err != nil {
		return err
	}
	if err := l.sysctl(host.Netns, map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	if err := l.openIPv6(host.Netns, true); err != nil {
		return err
	}
	if err := l.plugUplink(ctx, host); err != nil {
		return err
	}
	return l.configureUplink(host)
}

// configureUplink gives the host its address and its default route.
func (l *Lab) configureUplink(host topo.Host) error {
	h, err := l.Netlink(host.Netns)
	if err != nil {
		return err
	}
	link, err := h.LinkByName(host.Dev)
	if err != nil {
		return fmt.Errorf("find uplink of %s: %w", host.Name, err)
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(host.Addr)}); err != nil {
		return fmt.Errorf("set address of %s: %w", host.Name, err)
	}
	if err := l.address6(h, link, host.Addr); err != nil {
		return err
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set uplink of %s up: %w", host.Name, err)
	}
	// Without a default route proxy ARP does not answer, and masquerading has nowhere to go.
	err = h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: l.gateway.Addr().AsSlice()})
	if err != nil {
		return fmt.Errorf("set default route of %s: %w", host.Name, err)
	}
	if g := l.Gateway6(); g.IsValid() {
		if err := h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: g.Addr().AsSlice()}); err != nil {
			return fmt.Errorf("set IPv6 default route of %s: %w", host.Name, err)
		}
	}
	return nil
}

// plugUplink plugs a host into the underlay, or into its machine's bridge. In a
// virtual machine the uplink is the machine's own interface.
func (l *Lab) plugUplink(ctx context.Context, host topo.Host) error {
	if l.share != nil {
		return l.takeNIC(host)
	}
	c := cable{l.underlay, underlayBridge, host.Name, host.Netns, host.Dev, l.spec.wireMTU()}
	if host.Machine != 0 {
		c.ns, c.bridge = l.spec.machineNetns(host.Machine), ""
	}
	err := l.plug(c)
	if err == nil && host.Machine != 0 {
		err = l.joinMachine(ctx, host.Machine, host.Name)
	}
	if err == nil && l.outside != nil {
		err = l.outside.Whole(ctx, host.Netns, host.Dev)
	}
	if err != nil {
		return fmt.Errorf("uplink of %s: %w", host.Name, err)
	}
	return nil
}

// cable is a veth pair: its near end is a port of a bridge, or of nothing yet.
type cable struct {
	ns, bridge, name string
	peer, dev        string
	mtu              int
}

// plug makes the cable and sets its near end up.
func (l *Lab) plug(c cable) error {
	h, err := l.Netlink(c.ns)
	if err != nil {
		return err
	}
	ns, err := netns.LinkFd(c.peer)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = c.name, c.mtu
	if c.bridge != "" {
		br, err := h.LinkByName(c.bridge)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", c.bridge, err)
		}
		attrs.MasterIndex = br.Attrs().Index
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: c.dev, PeerMTU: uint32(c.mtu), PeerNamespace: netlink.NsFd(ns.Fd())}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("create %s: %w", c.dev, err)
	}
	if err := h.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", c.name, err)
	}
	return nil
}

func (l *Lab) makeNetns(name string) error {
	if err := l.rec.intend(kindNetns, name); err != nil {
		return err
	}
	return netns.Create(name)
}

// sysctl sets values by their path under /proc/sys in the namespace; keys that
// the kernel does not have are left out.
func (l *Lab) sysctl(ns string, values map[string]string) error {
	return netns.Do(ns, func() error {
		for key, value := range values {
			err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0o644)
			if err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("set sysctl %s: %w", key, err)
			}
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
