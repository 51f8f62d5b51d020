package lab

import (
	"context"
	"fmt"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

// underlayPort is the way from the machine that represents the underlay to the
// underlay's bridge, whose port has the machine's name and "u".
const underlayPort = "und0"

// openSwitches starts Open vSwitch on the physical machines, as networks of it do on
// hosts, and gives each machine's bridge its way out: the wire itself, or VXLAN
// ports over it.
func (f *fabric) openSwitches(ctx context.Context) error {
	needs := ovs.SwitchNeeds()
	if f.Spec.Outside.Overlay() {
		needs = append(needs, ovs.TunnelNeeds()...)
	}
	if miss := network.NewMachine(f.cniPath).Missing(needs); len(miss) > 0 {
		return fmt.Errorf("outside %s: missing: %v", f.Spec.Outside, miss[0])
	}
	dir, err := f.op.rec.makeDir("outside")
	if err != nil {
		return err
	}
	site := network.Site{Underlay: f.underlay(), MTU: f.Spec.MTU, Dir: dir, Lab: f.op.rec.dir, Operator: f.op}
	for _, m := range f.made() {
		addr, err := f.Spec.fabricAddr(m)
		if err != nil {
			return err
		}
		site.Hosts = append(site.Hosts, topo.Host{Index: m, Name: machineName(m), Netns: f.Spec.machineNetns(m), Dev: wire,
			Addr: addr})
	}
	// Whichever datapath it is, it is that of all machines: they are on this kernel.
	if f.outside, err = ovs.Open(ctx, site, ovs.Best()); err != nil {
		return fmt.Errorf("outside %s: %w", f.Spec.Outside, err)
	}
	if f.Spec.Outside.Overlay() {
		err = f.openOverlay(ctx, site)
	} else {
		err = f.openWires(ctx, site)
	}
	if err != nil {
		return fmt.Errorf("outside %s: %w", f.Spec.Outside, err)
	}
	return nil
}

// openWires makes each machine's bridge with the wire as its port.
func (f *fabric) openWires(ctx context.Context, site network.Site) error {
	for _, h := range site.Hosts {
		if err := f.quiet(h.Netns); err != nil {
			return err
		}
		if err := f.outside.Whole(ctx, f.underlay(), h.Name); err != nil {
			return err
		}
	}
	return f.outside.Each(func(h topo.Host) error {
		return f.outside.Configure(ctx, h, append(f.addBridge(), "--", "add-port", machineBridge, wire)...)
	})
}

// openOverlay makes each machine's bridge with VXLAN ports to all others over the
// wire. The last machine is the underlay's: its bridge is a port there.
func (f *fabric) openOverlay(ctx context.Context, site network.Site) error {
	for _, h := range site.Hosts {
		if err := f.quiet(h.Netns); err != nil {
			return err
		}
		if _, err := f.address(h.Netns, wire, h.Index); err != nil {
			return err
		}
	}
	if err := f.outside.PrepareTunnels(); err != nil {
		return err
	}
	if err := f.outside.RaiseTunnels(ctx); err != nil {
		return err
	}
	err := f.outside.Each(func(h topo.Host) error {
		tunnels := f.outside.Tunnel(h, machineBridge, "vxlan", fmt.Sprintf("options:key=%d", outsideVNI))
		return f.outside.Configure(ctx, h, append(f.addBridge(), tunnels...)...)
	})
	if err != nil {
		return err
	}
	last := site.Hosts[len(site.Hosts)-1]
	near := last.Name + "u"
	c := cable{f.underlay(), underlayBridge, near, last.Netns, underlayPort, f.Spec.wireMTU()}
	if err := f.op.plug(c); err != nil {
		return err
	}
	if err := f.outside.Whole(ctx, f.underlay(), near); err != nil {
		return err
	}
	return f.joinMachine(ctx, last.Index, underlayPort)
}

func (f *fabric) addBridge() []string {
	return []string{"add-br", machineBridge, "--", "set", "Bridge", machineBridge,
		"datapath_type=" + string(f.outside.Datapath)}
}

// quiet keeps a machine's kernel, which sees what its switch's ports receive, from
// answering ARP at devices that do not have the address asked for.
func (f *fabric) quiet(ns string) error {
	return sysctl(ns, map[string]string{"net/ipv4/conf/all/arp_ignore": "1"})
}

// joinMachine makes dev, which is in the namespace of the machine, a port of the
// machine's bridge and sets it up.
func (f *fabric) joinMachine(ctx context.Context, m int, dev string) error {
	ns := f.Spec.machineNetns(m)
	if f.outside == nil {
		return f.op.enslave(ns, dev, machineBridge)
	}
	if err := f.op.setUp(ns, dev); err != nil {
		return err
	}
	h, err := f.outside.Host(m)
	if err != nil {
		return err
	}
	if err := f.outside.Configure(ctx, h, "add-port", machineBridge, dev); err != nil {
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
func (f *fabric) joinTap(ctx context.Context, m int, tap string) error {
	if f.outside == nil || f.outside.Datapath == ovs.System {
		return f.joinMachine(ctx, m, tap)
	}
	ns, bridge, near, far := f.Spec.machineNetns(m), "b-"+tap, "n-"+tap, "f-"+tap
	if err := f.op.makeBridge(ns, bridge, f.Spec.wireMTU()); err != nil {
		return err
	}
	if err := f.op.enslave(ns, tap, bridge); err != nil {
		return err
	}
	if err := f.op.plug(cable{ns, bridge, near, ns, far, f.Spec.wireMTU()}); err != nil {
		return err
	}
	if err := f.outside.Whole(ctx, ns, near); err != nil {
		return err
	}
	return f.joinMachine(ctx, m, far)
}
