package lab

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

// underlayBridge is the switch between the hosts.
const underlayBridge = network.UnderlayBridge

// fabric is what joins the hosts: the underlay, and the physical machines on it.
type fabric struct {
	*plan
	op      *operator
	cniPath []string
	// outside is Open vSwitch on the physical machines, where that joins their hosts.
	outside *ovs.Fabric
}

// buildUnderlay makes the switch's namespace with its bridge and gateway address.
func (f *fabric) buildUnderlay(context.Context) error {
	if err := f.op.makeNetns(f.underlay()); err != nil {
		return err
	}
	// A switch does not run the hosts' firewall rules; new namespaces start with 1.
	if err := sysctl(f.underlay(), map[string]string{"net/bridge/bridge-nf-call-iptables": "0",
		"net/bridge/bridge-nf-call-ip6tables": "0", "net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	if err := f.openIPv6(f.underlay(), true); err != nil {
		return err
	}
	if err := f.op.makeBridge(f.underlay(), underlayBridge, f.Spec.wireMTU()); err != nil {
		return err
	}
	h, err := f.op.Netlink(f.underlay())
	if err != nil {
		return err
	}
	br, err := h.LinkByName(underlayBridge)
	if err != nil {
		return fmt.Errorf("find underlay bridge: %w", err)
	}
	if err := h.AddrAdd(br, &netlink.Addr{IPNet: ipNet(f.Gateway)}); err != nil {
		return fmt.Errorf("set underlay address: %w", err)
	}
	return f.address6(h, br, f.Gateway)
}

// plugUplink plugs a host into the underlay, or into its machine's bridge.
func (f *fabric) plugUplink(ctx context.Context, host topo.Host) error {
	c := cable{f.underlay(), underlayBridge, host.Name, host.Netns, host.Dev, f.Spec.wireMTU()}
	if host.Machine != 0 {
		c.ns, c.bridge = f.Spec.machineNetns(host.Machine), ""
	}
	err := f.op.plug(c)
	if err == nil && host.Machine != 0 {
		err = f.joinMachine(ctx, host.Machine, host.Name)
	}
	if err == nil && f.outside != nil {
		err = f.outside.Whole(ctx, host.Netns, host.Dev)
	}
	if err != nil {
		return fmt.Errorf("uplink of %s: %w", host.Name, err)
	}
	return nil
}

// note says what is outside, where that is Open vSwitch, of a lab that may have virtual machines.
func (f *fabric) note() string {
	note := "outside: " + f.outside.Note()
	if f.outside.Datapath != ovs.Netdev {
		return note
	}
	note += " (this machine's kernel has no datapath of Open vSwitch: " + ovs.KernelDatapath().From + ")"
	if len(f.Spec.VMs) > 0 {
		note += ", with a Linux bridge before each virtual machine, which fills in checksums"
	}
	return note
}

// links are those of the underlay and the machines, and the virtual machines' taps there.
func (f *fabric) links() links {
	out := links{names: []string{f.underlay()}}
	for _, m := range f.made() {
		out.add(f.Spec.machineNetns(m))
	}
	for _, v := range f.Spec.VMs {
		out.must = append(out.must, network.Device{Netns: f.Spec.machineNetns(v.On), Name: f.Hosts[v.Host-1].Name})
	}
	return out
}
