package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/topo"
)

// A lab with virtual machines has physical ones too: each is a namespace with a
// bridge, Linux's or Open vSwitch's (switch.go), to which the hosts on it are joined,
// by a veth pair or a tap device, and from which one wire leads to the underlay. So
// hosts on one machine meet there, and hosts on different ones on the underlay. Where
// the outside is an overlay, the wire has addresses of its own, and the underlay's
// bridge is one more end of it.

const (
	// machineBridge joins the hosts of a machine, wire is its way out.
	machineBridge = "vmbr0"
	wire          = "up0"
	// fabricBridge is the switch between the machines where the outside is an
	// overlay; tunnel is an end of that.
	fabricBridge = "fab0"
	tunnel       = "seg0"
	outsideVNI   = 4242
	outsidePort  = 8472 // Linux's own; networks inside have kernels or namespaces of their own
)

// checkVMs wants each virtual machine to be a host of the lab, once.
func (s Spec) checkVMs() error {
	seen := map[int]bool{}
	for i, v := range s.VMs {
		key := fmt.Sprintf("vms[%d]", i)
		switch {
		case v.Host < 1 || v.Host > s.Hosts:
			return badField(key+".host", "%d is out of range: expected 1 to %d", v.Host, s.Hosts)
		case v.On < 1 || v.On > s.Hosts:
			return badField(key+".on", "%d is out of range: expected the number of a machine, 1 to %d", v.On, s.Hosts)
		case seen[v.Host]:
			return badField(key+".host", "host %d is given twice", v.Host)
		}
		seen[v.Host] = true
	}
	if len(s.VMs) > 0 && s.Agents {
		return badField("agents", "agents do not run in virtual machines: expected agents: false")
	}
	if s.Outside == "" {
		return nil
	}
	if _, err := topo.ParseOutside(string(s.Outside)); err != nil {
		return &FieldError{"outside", err}
	}
	if left := s.wireMTU(); left < topo.MinMTU {
		return badField("mtu", "%d leaves %d bytes inside the outside %s: expected %d or more", s.MTU, left, s.Outside,
			topo.MinMTU)
	}
	return nil
}

// wireMTU is what hosts have of the underlay's MTU.
func (s Spec) wireMTU() int { return s.MTU - s.Outside.Overhead() }

// machines lists the numbers of the lab's physical machines.
func (f *fabric) machines() []int {
	var out []int
	for _, h := range f.Hosts {
		if h.Machine != 0 && !slices.Contains(out, h.Machine) {
			out = append(out, h.Machine)
		}
	}
	slices.Sort(out)
	return out
}

// machineName is the name of a physical machine, and of its port on the underlay.
func machineName(machine int) string { return fmt.Sprintf("m%d", machine) }

// machineNetns is the namespace of a physical machine.
func (s Spec) machineNetns(machine int) string { return s.netns(machineName(machine)) }

// fabricAddr is a machine's address on the wire where the outside is an overlay:
// of the half of RFC 2544's range that hosts do not have.
func (s Spec) fabricAddr(machine int) (netip.Prefix, error) {
	fabric := netip.MustParsePrefix("198.19.0.0/16")
	if s.Underlay.Overlaps(fabric) {
		fabric = netip.MustParsePrefix("198.18.0.0/16")
	}
	return topo.UnderlayAddr(fabric, machine)
}

// buildMachines makes the physical machines, and the outside between them.
func (f *fabric) buildMachines(ctx context.Context) error {
	if f.Spec.Outside == "" {
		return nil
	}
	near := underlayBridge
	if f.Spec.Outside.Overlay() {
		near = fabricBridge
		if err := f.op.makeBridge(f.underlay(), fabricBridge, f.Spec.MTU); err != nil {
			return err
		}
	}
	if f.Spec.Outside == topo.OutsideVXLAN {
		// The underlay is one more machine, the last.
		if err := f.openTunnel(f.underlay(), fabricBridge, underlayBridge, f.underlayMachine()); err != nil {
			return fmt.Errorf("outside of the underlay: %w", err)
		}
	}
	for _, m := range f.made() {
		if err := f.buildMachine(m, near); err != nil {
			return fmt.Errorf("machine m%d: %w", m, err)
		}
	}
	if f.Spec.Outside.OpenVSwitch() {
		return f.openSwitches(ctx)
	}
	return nil
}

// underlayMachine is the number by which the underlay has an address on the wire.
func (f *fabric) underlayMachine() int { return f.Spec.Hosts + 1 }

// made lists the machines that have a namespace. Open vSwitch's VXLAN has one for
// the underlay, too, whose own bridge is Linux's as networks expect it.
func (f *fabric) made() []int {
	if f.Spec.Outside == topo.OutsideOVSVXLAN {
		return append(f.machines(), f.underlayMachine())
	}
	return f.machines()
}

// buildMachine makes a machine's namespace with its wire to the underlay's bridge
// near, and its own bridge where that is Linux's.
func (f *fabric) buildMachine(m int, near string) error {
	ns := f.Spec.machineNetns(m)
	if err := f.op.makeNetns(ns); err != nil {
		return err
	}
	if err := sysctl(ns, map[string]string{"net/bridge/bridge-nf-call-iptables": "0",
		"net/bridge/bridge-nf-call-ip6tables": "0"}); err != nil {
		return err
	}
	if err := f.op.plug(cable{f.underlay(), near, machineName(m), ns, wire, f.Spec.MTU}); err != nil {
		return err
	}
	if err := f.op.setUp(ns, wire); err != nil {
		return err
	}
	if f.Spec.Outside.OpenVSwitch() {
		return nil
	}
	if err := f.op.makeBridge(ns, machineBridge, f.Spec.wireMTU()); err != nil {
		return err
	}
	if f.Spec.Outside == topo.OutsideVXLAN {
		return f.openTunnel(ns, wire, machineBridge, m)
	}
	return f.op.enslave(ns, wire, machineBridge)
}

// address gives dev the machine's address on the wire.
func (f *fabric) address(ns, dev string, m int) (netip.Prefix, error) {
	local, err := f.Spec.fabricAddr(m)
	if err != nil {
		return local, err
	}
	nl, err := f.op.Netlink(ns)
	if err != nil {
		return local, err
	}
	link, err := nl.LinkByName(dev)
	if err != nil {
		return local, fmt.Errorf("find %s: %w", dev, err)
	}
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: ipNet(local)}); err != nil {
		return local, fmt.Errorf("set address of %s: %w", dev, err)
	}
	return local, nil
}

// openTunnel gives dev the machine's address on the wire and joins the bridge to
// those of all other machines by VXLAN over it. What a bridge does not know the
// place of goes to all of them; the rest is learnt.
func (f *fabric) openTunnel(ns, dev, bridge string, m int) error {
	nl, err := f.op.Netlink(ns)
	if err != nil {
		return err
	}
	under, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	local, err := f.address(ns, dev, m)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = tunnel, f.Spec.wireMTU()
	tun := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: outsideVNI, Port: outsidePort, Learning: true,
		SrcAddr: local.Addr().AsSlice(), VtepDevIndex: under.Attrs().Index}
	if err := nl.LinkAdd(tun); err != nil {
		return fmt.Errorf("create outside's VXLAN device: %w", err)
	}
	for _, peer := range append(f.machines(), f.underlayMachine()) {
		if peer == m {
			continue
		}
		remote, err := f.Spec.fabricAddr(peer)
		if err != nil {
			return err
		}
		entry := &netlink.Neigh{LinkIndex: tun.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT,
			Flags: netlink.NTF_SELF, IP: remote.Addr().AsSlice(), HardwareAddr: make(net.HardwareAddr, 6)}
		if err := nl.NeighAppend(entry); err != nil {
			return fmt.Errorf("add machine %d to the outside: %w", peer, err)
		}
	}
	return f.op.enslave(ns, tunnel, bridge)
}
