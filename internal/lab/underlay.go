package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/network"
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
	if err := l.sysctl(l.underlay, map[string]string{"net/bridge/bridge-nf-call-iptables": "0", "net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	h, err := l.Netlink(l.underlay)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = underlayBridge, l.spec.MTU
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.LinkAdd(br); err != nil {
		return fmt.Errorf("create underlay bridge: %w", err)
	}
	if err := h.AddrAdd(br, &netlink.Addr{IPNet: ipNet(l.gateway)}); err != nil {
		return fmt.Errorf("set underlay address: %w", err)
	}
	if err := h.LinkSetUp(br); err != nil {
		return fmt.Errorf("set underlay bridge up: %w", err)
	}
	return nil
}

// buildHost makes a host's namespace and plugs its uplink into the underlay.
func (l *Lab) buildHost(host topo.Host) error {
	if err := l.makeNetns(host.Netns); err != nil {
		return err
	}
	if err := l.sysctl(host.Netns, map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	if err := l.plugUplink(host); err != nil {
		return err
	}
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
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set uplink of %s up: %w", host.Name, err)
	}
	// Without a default route proxy ARP does not answer, and masquerading has nowhere to go.
	err = h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: l.gateway.Addr().AsSlice()})
	if err != nil {
		return fmt.Errorf("set default route of %s: %w", host.Name, err)
	}
	return nil
}

// plugUplink makes the veth pair between a host and the underlay's bridge.
func (l *Lab) plugUplink(host topo.Host) error {
	h, err := l.Netlink(l.underlay)
	if err != nil {
		return err
	}
	ns, err := netns.LinkFd(host.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	br, err := h.LinkByName(underlayBridge)
	if err != nil {
		return fmt.Errorf("find underlay bridge: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = host.Name, l.spec.MTU, br.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: host.Dev, PeerMTU: uint32(l.spec.MTU), PeerNamespace: netlink.NsFd(ns.Fd())}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("create uplink of %s: %w", host.Name, err)
	}
	if err := h.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set uplink of %s up: %w", host.Name, err)
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
