package ovs

import (
	"context"
	"fmt"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/topo"
)

// port is the name of the host's second interface on the underlay, the one that
// is given to a bridge. Hosts whose pods stand on the wire have such a one for
// them: an interface that is a port of a switch carries nothing of the host's own.
func (f *Fabric) port() string { return fmt.Sprintf("ovs-up%d", f.site.Index) }

// plugPorts makes each host's second interface on the underlay.
func (f *Fabric) plugPorts(ctx context.Context) error {
	for _, h := range f.site.Hosts {
		if err := f.plugPort(ctx, h); err != nil {
			return fmt.Errorf("configure host %s: %w", h.Name, err)
		}
	}
	return nil
}

func (f *Fabric) plugPort(ctx context.Context, h topo.Host) error {
	end := device.End{Netns: f.site.Underlay, Name: fmt.Sprintf("%s-up%d", h.Name, f.site.Index),
		Bridge: network.UnderlayBridge}
	if err := device.Pair(end, device.End{Netns: h.Netns, Name: f.port()}, f.site.MTU); err != nil {
		return fmt.Errorf("create second uplink: %w", err)
	}
	// What leaves the underlay's switch for this port must be whole, from every sender.
	if err := f.Whole(ctx, f.site.Underlay, end.Name); err != nil {
		return err
	}
	if err := silence(h.Netns, f.port()); err != nil {
		return err
	}
	link, err := f.links[h.Index].LinkByName(f.port())
	if err != nil {
		return fmt.Errorf("find second uplink: %w", err)
	}
	if err := f.links[h.Index].LinkSetUp(link); err != nil {
		return fmt.Errorf("set second uplink up: %w", err)
	}
	return nil
}

// ports lists the second interfaces, over which traffic between hosts passes.
func (f *Fabric) ports() []network.Device {
	var out []network.Device
	for _, h := range f.site.Hosts {
		out = append(out, network.Device{Netns: h.Netns, Name: f.port()})
	}
	return out
}
