package lab

import (
	"context"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

// underlayPort is the way from the machine that stands for the underlay to the
// underlay's bridge, whose port has the machine's name and "u".
const underlayPort = "und0"

// openSwitches starts Open vSwitch on the physical machines, as networks of it do on
// hosts, and gives each machine's bridge its way out: the wire itself, or VXLAN
// ports over it.
func (l *Lab) openSwitches(ctx context.Context) error {
	needs := ovs.SwitchNeeds()
	if l.spec.Outside.Overlay() {
		needs = append(needs, ovs.TunnelNeeds()...)
	}
	if miss := network.NewMachine(l.opts.CNIPath).Missing(needs); len(miss) > 0 {
		return fmt.Errorf("outside %s: missing: %v", l.spec.Outside, miss[0])
	}
	dir, err := l.makeDir("outside")
	if err != nil {
		return err
	}
	site := network.Site{Underlay: l.underlay, MTU: l.spec.MTU, Dir: dir, Lab: l.rec.dir, Operator: l}
	for _, m := range l.made() {
		addr, err := l.spec.fabricAddr(m)
		if err != nil {
			return err
		}
		site.Hosts = append(site.Hosts, topo.Host{Index: m, Name: machineName(m), Netns: l.spec.machineNetns(m), Dev: wire,
			Addr: addr})
	}
	// Whichever datapath it is, it is that of all machines: they are on this kernel.
	if l.outside, err = ovs.Open(ctx, site, ovs.Best()); err != nil {
		return fmt.Errorf("outside %s: %w", l.spec.Outside, err)
	}
	if l.spec.Outside.Overlay() {
		err = l.openOverlay(ctx, site)
	} else {
		err = l.openWires(ctx, site)
	}
	if err != nil {
		return fmt.Errorf("outside %s: %w", l.spec.Outside, err)
	}
	return nil
}

// openWires makes each machine's bridge with the wire as its port.
func (l *Lab) openWires(ctx context.Context, site network.Site) error {
	for _, h := range site.Hosts {
		if err := l.quiet(h.Netns); err != nil {
			return err
		}
		if err := l.outside.Whole(ctx, l.underlay, h.Name); err != nil {
			return err
		}
	}
	return l.outside.Each(func(h topo.Host) error {
		return l.outside.Configure(ctx, h, append(l.addBridge(), "--", "add-port", machineBridge, wire)...)
	})
}

// openOverlay makes each machine's bridge with VXLAN ports to all others over the
// wire. The last machine is the underlay's: its bridge is a port there.
func (l *Lab) openOverlay(ctx context.Context, site network.Site) error {
	for _, h := range site.Hosts {
		if err := l.quiet(h.Netns); err != nil {
			return err
		}
		if _, err := l.address(h.Netns, wire, h.Index); err != nil {
			return err
		}
	}
	if err := l.outside.PrepareTunnels(); err != nil {
		return err
	}
	if err := l.outside.RaiseTunnels(ctx); err != nil {
		return err
	}
	err := l.outside.Each(func(h topo.Host) error {
		tunnels := l.outside.Tunnel(h, machineBridge, "vxlan", fmt.Sprintf("options:key=%d", outsideVNI))
		return l.outside.Configure(ctx, h, append(l.addBridge(), tunnels...)...)
	})
	if err != nil {
		return err
	}
	last := site.Hosts[len(site.Hosts)-1]
	near := last.Name + "u"
	if err := l.plug(cable{l.underlay, underlayBridge, near, last.Netns, underlayPort, l.spec.wireMTU()}); err != nil {
		return err
	}
	if err := l.outside.Whole(ctx, l.underlay, near); err != nil {
		return err
	}
	return l.joinMachine(ctx, last.Index, underlayPort)
}

func (l *Lab) addBridge() []string {
	return []string{"add-br", machineBridge, "--", "set", "Bridge", machineBridge,
		"datapath_type=" + string(l.outside.Datapath)}
}

// quiet keeps a machine's kernel, which sees what its switch's ports receive, from
// answering ARP at devices that do not have the address asked for.
func (l *Lab) quiet(ns string) error {
	return l.sysctl(ns, map[string]string{"net/ipv4/conf/all/arp_ignore": "1"})
}

// joinMachine makes dev, which is in the namespace of the machine, a port of the
// machine's bridge and sets it up.
func (l *Lab) joinMachine(ctx context.Context, m int, dev string) error {
	ns := l.spec.machineNetns(m)
	if l.outside == nil {
		return l.enslave(ns, dev, machineBridge)
	}
	if err := l.setUp(ns, dev); err != nil {
		return err
	}
	h, err := l.outside.Host(m)
	if err != nil {
		return err
	}
	if err := l.outside.Configure(ctx, h, "add-port", machineBridge, dev); err != nil {
		return fmt.Errorf("join %s to %s: %w", dev, machineBridge, err)
	}
	return nil
}

// joinTap is joinMachine for a virtual machine's tap device. Where Open vSwitch
// forwards in user space, the device is joined to it by a Linux bridge and a veth
// pair, as OpenStack's hybrid plug does for its own reasons: what a virtual machine
// sends may lack its checksum, which the pair fills in (see ovs.Fabric.Whole) and
// User-mode Linux does not: its interface's offload is fixed
// (arch/um/drivers/vector_transports.c).
func (l *Lab) joinTap(ctx context.Context, m int, tap string) error {
	if l.outside == nil || l.outside.Datapath == ovs.System {
		return l.joinMachine(ctx, m, tap)
	}
	ns, bridge, near, far := l.spec.machineNetns(m), "b-"+tap, "n-"+tap, "f-"+tap
	if err := l.makeBridge(ns, bridge, l.spec.wireMTU()); err != nil {
		return err
	}
	if err := l.enslave(ns, tap, bridge); err != nil {
		return err
	}
	if err := l.plug(cable{ns, bridge, near, ns, far, l.spec.wireMTU()}); err != nil {
		return err
	}
	if err := l.outside.Whole(ctx, ns, near); err != nil {
		return err
	}
	return l.joinMachine(ctx, m, far)
}

// Notes are facts of how the lab was built that its spec leaves open: those of the
// default network, and of what is outside.
func (l *Lab) Notes() []string {
	out := slices.Clone(l.nets[0].plug.Notes)
	if l.outside != nil {
		note := "outside: " + l.outside.Note()
		if l.outside.Datapath == ovs.Netdev {
			note += " (this machine's kernel has no datapath of Open vSwitch: " + ovs.KernelDatapath().From + ")"
		}
		if len(l.guests) > 0 && l.outside.Datapath == ovs.Netdev {
			note += ", with a Linux bridge before each virtual machine, which fills in checksums"
		}
		out = append(out, note)
	}
	return out
}
