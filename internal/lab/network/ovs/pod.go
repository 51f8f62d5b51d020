package ovs

import (
	"context"
	"encoding/json"
	"fmt"

	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/topo"
)

// Port is how a pod is plugged into a bridge of its host.
type Port struct {
	// Network names the pod's CNI configuration list.
	Network, Bridge string
	MTU             int
	IPAM            conflist.Plugin
	// Columns and Interface are settings of the port in the database, in the
	// tables Port and Interface.
	Columns, Interface []string
}

// Conflist makes a port for the pod and returns the list by which the pod gets
// the port's other end. The plugin is host-device, as of the reference plugins
// none knows Open vSwitch: bridge is for those of Linux. The port itself is made by
// ovs-vsctl, as Open vSwitch's own script for containers does (utilities/ovs-docker).
func (f *Fabric) Conflist(ctx context.Context, pod topo.Pod, p Port) (json.RawMessage, error) {
	d := f.supply.Next(pod)
	name := fmt.Sprintf("ovs%d-%d", f.site.Index, d.Number)
	if err := d.Make(device.End{Netns: d.Host.Netns, Name: name}, p.MTU); err != nil {
		return nil, fmt.Errorf("make a port for pod %s: %w", pod.Name, err)
	}
	if f.Datapath == Netdev {
		if err := silence(d.Host.Netns, name); err != nil {
			return nil, err
		}
	}
	args := append([]string{"add-port", p.Bridge, name}, p.Columns...)
	if len(p.Interface) > 0 {
		args = append(append(args, "--", "set", "Interface", name), p.Interface...)
	}
	if err := f.Configure(ctx, d.Host, args...); err != nil {
		return nil, fmt.Errorf("add the port of pod %s: %w", pod.Name, err)
	}
	f.plugged[d.Host.Index][pod.Name] = name
	return d.Conflist(p.Network, p.IPAM)
}

// Attached makes a pod's interface do without the help of a card that nobody is:
// see Whole.
func (f *Fabric) Attached(ctx context.Context, pod topo.Pod, a topo.Attachment) error {
	return f.Whole(ctx, pod.Netns, a.Dev)
}

// Whole has frames be whole before dev sends them, which are to reach a port of a
// bridge: the user-space datapath of Open vSwitch 3 reads them from a socket and
// never learns that the kernel has left a checksum to be filled in, so the receiver
// would drop every segment (Documentation/topics/userspace-checksum-offloading).
// The kernel's datapath knows, and keeps offloads.
func (f *Fabric) Whole(ctx context.Context, ns, dev string) error {
	if f.Datapath == System {
		return nil
	}
	if _, err := f.site.Run(ctx, ns, "ethtool", "-K", dev, "tx", "off"); err != nil {
		return fmt.Errorf("switch checksum offload of %s off: %w", dev, err)
	}
	return nil
}

// Number returns the host that a pod is on and the OpenFlow number that its
// port has there.
func (f *Fabric) Number(ctx context.Context, pod topo.Pod) (topo.Host, string, error) {
	h, err := f.Host(pod.Host)
	if err != nil {
		return h, "", err
	}
	port := f.plugged[h.Index][pod.Name]
	number, err := f.database(ctx, h, "get", "Interface", port, "ofport")
	if err != nil {
		return h, "", fmt.Errorf("ask for the number of port %s of pod %s: %w", port, pod.Name, err)
	}
	return h, number, nil
}
