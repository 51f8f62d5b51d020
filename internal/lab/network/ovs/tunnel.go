package ovs

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

// Tunnels in user space need a stand of their own: ovs-vswitchd reads and writes
// the outer packets itself, by a bridge that has a port on the underlay and the
// tunnels' address. The port is a macvlan device on the host's uplink, which so
// stays what it is to the host and to the lab's other networks. Handing the
// uplink itself to the bridge, as manuals show it, would take it from them.
const (
	vtepBridge = "ovs-phy"
	vtepDev    = "ovs-vtep"
)

// vtepBits is the size of the range of the tunnels' addresses: the upper half of
// the underlay's first /24, of which the hosts have the lower. Open vSwitch 3.1
// finds the address to send from by its prefix alone, so it must be of a range
// that the peers' are in (ovs, lib/ovs-router.c, get_src_addr).
const vtepBits = 25

// vtep returns the tunnel address of the host in user space.
func vtep(h topo.Host) netip.Prefix {
	a := h.Addr.Masked().Addr().As4()
	a[3] = byte(1<<(32-vtepBits) + h.Index)
	return netip.PrefixFrom(netip.AddrFrom4(a), vtepBits)
}

// MAC is an address of hardware that is nobody else's in the lab: it is made of an
// IP address as ovn-kubernetes does it, under a prefix of local use.
func MAC(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// Endpoint is the address that the host's tunnels have on the underlay.
func (f *Fabric) Endpoint(h topo.Host) netip.Addr {
	if f.Datapath == System {
		return h.Addr.Addr()
	}
	return vtep(h).Addr()
}

// TunnelNeeds are needs besides Needs: the macvlan device of tunnels in user space.
func TunnelNeeds() []network.Need {
	return []network.Need{network.NeedLink("macvlan", "CONFIG_MACVLAN")}
}

// PrepareTunnels makes the devices that tunnels need before there is a bridge.
func (f *Fabric) PrepareTunnels() error {
	if f.Datapath == System {
		return nil
	}
	for _, h := range f.site.Hosts {
		if err := f.prepareTunnel(h); err != nil {
			return fmt.Errorf("configure host %s: %w", h.Name, err)
		}
	}
	return nil
}

func (f *Fabric) prepareTunnel(h topo.Host) error {
	nl := f.links[h.Index]
	if _, err := nl.LinkByName(vtepDev); err == nil {
		return nil // another network of the lab has
	}
	uplink, err := nl.LinkByName(h.Dev)
	if err != nil {
		return fmt.Errorf("find uplink: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.MTU = vtepDev, uplink.Attrs().Index, f.site.MTU
	attrs.HardwareAddr = MAC(vtep(h).Addr())
	dev := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := nl.LinkAdd(dev); err != nil {
		return fmt.Errorf("create tunnels' device: %w", err)
	}
	if err := silence(h.Netns, h.Dev, vtepDev); err != nil {
		return err
	}
	if err := nl.LinkSetUp(dev); err != nil {
		return fmt.Errorf("set tunnels' device up: %w", err)
	}
	return nil
}

// silence keeps the host's kernel from answering ARP at devices that do not have
// the address asked for: it sees what the switch's ports receive, too.
func silence(ns string, devs ...string) error {
	return netns.Do(ns, func() error {
		for _, dev := range devs {
			err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4/conf", dev, "arp_ignore"), []byte("1"), 0o644)
			if err != nil {
				return fmt.Errorf("silence %s: %w", dev, err)
			}
		}
		return nil
	})
}

// RaiseTunnels makes the bridge that tunnels in user space stand on.
func (f *Fabric) RaiseTunnels(ctx context.Context) error {
	if f.Datapath == System {
		return nil
	}
	return f.Each(func(h topo.Host) error { return f.raiseTunnel(ctx, h) })
}

func (f *Fabric) raiseTunnel(ctx context.Context, h topo.Host) error {
	err := f.Configure(ctx, h, "--may-exist", "add-br", vtepBridge, "--", "set", "Bridge", vtepBridge,
		"datapath_type="+string(Netdev), fmt.Sprintf("other_config:hwaddr=%q", MAC(vtep(h).Addr())), "--", "--may-exist",
		"add-port", vtepBridge, vtepDev)
	if err != nil {
		return fmt.Errorf("create tunnels' bridge: %w", err)
	}
	if err := f.Address(h, vtepBridge, vtep(h)); err != nil {
		return err
	}
	return f.introduce(ctx, h)
}

// Address gives a bridge's own device an address and sets it up.
func (f *Fabric) Address(h topo.Host, dev string, addr netip.Prefix) error {
	nl := f.links[h.Index]
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	if err := nl.AddrReplace(link, &netlink.Addr{IPNet: network.IPNet(addr)}); err != nil {
		return fmt.Errorf("set address of %s: %w", dev, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}

// acquainted bounds the hosts that introduce does its work for: it runs a program
// for each pair.
const acquainted = 24

// introduce tells the host's switch the hardware addresses of all others. Left to
// ask for one (RFC 826) it drops the packet that made it ask, which would cost a
// trial's first connection a second. After a quarter of an hour it asks itself.
func (f *Fabric) introduce(ctx context.Context, h topo.Host) error {
	if len(f.site.All()) > acquainted {
		return nil
	}
	for _, peer := range f.site.All() {
		if peer.Index == h.Index {
			continue
		}
		a := vtep(peer).Addr()
		if _, err := f.Control(ctx, h, "tnl/neigh/set", vtepBridge, a.String(), MAC(a).String()); err != nil {
			return fmt.Errorf("introduce host %s: %w", peer.Name, err)
		}
	}
	return nil
}

// Tunnel returns the part of an ovs-vsctl command that adds to the bridge a
// tunnel from the host to each other one. Frames that came out of one tunnel are
// not sent into another, as all hosts are joined to all others: else a broadcast
// would circle for ever.
func (f *Fabric) Tunnel(h topo.Host, bridge, kind string, options ...string) []string {
	var out []string
	for _, peer := range f.site.All() {
		if peer.Index == h.Index {
			continue
		}
		port := bridge + "-" + peer.Name
		out = append(out, "--", "add-port", bridge, port, "--", "set", "Port", port, "protected=true",
			"--", "set", "Interface", port, "type="+kind,
			fmt.Sprintf("options:remote_ip=%v", f.Endpoint(peer)), fmt.Sprintf("options:local_ip=%v", f.Endpoint(h)))
		out = append(out, options...)
	}
	return out
}

// Crossed lists the devices that packets between hosts pass: the tunnels' own in
// user space, in the kernel the device that it makes for the kind and UDP port
// of tunnel (ovs, lib/dpif-netlink-rtnl.c).
func (f *Fabric) Crossed(kind string, port int) []network.Device {
	var out []network.Device
	for _, h := range f.site.Hosts {
		dev := vtepDev
		if f.Datapath == System {
			dev = fmt.Sprintf("%s_sys_%d", kind, port)
		}
		out = append(out, network.Device{Netns: h.Netns, Name: dev})
	}
	return out
}
