package lab

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/topo"
)

// nic is a virtual machine's interface on the lab's networks.
type nic struct {
	mac  string
	mtu  int
	wire *wiring
}

// take makes the machine's interface the host's uplink.
func (n nic) take(_ context.Context, host topo.Host) error {
	link, nl, err := findNIC(n.mac)
	if err != nil {
		return err
	}
	defer nl.Close()
	ns, err := netns.LinkFd(host.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := nl.LinkSetNsFd(link, int(ns.Fd())); err != nil {
		return fmt.Errorf("move interface to %s: %w", host.Name, err)
	}
	there, err := n.wire.Netlink(host.Netns)
	if err != nil {
		return err
	}
	if link, err = there.LinkByName(link.Attrs().Name); err != nil {
		return fmt.Errorf("find interface of %s: %w", host.Name, err)
	}
	if err := there.LinkSetName(link, host.Dev); err != nil {
		return fmt.Errorf("name interface of %s: %w", host.Name, err)
	}
	if err := there.LinkSetMTU(link, n.mtu); err != nil {
		return fmt.Errorf("set MTU of %s: %w", host.Name, err)
	}
	return nil
}

// findNIC looks for the interface in the machine's first namespace. The caller
// closes the handle.
func findNIC(mac string) (netlink.Link, *netlink.Handle, error) {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return nil, nil, fmt.Errorf("find interface: %w", err)
	}
	nl, err := netlink.NewHandle()
	if err != nil {
		return nil, nil, fmt.Errorf("open netlink: %w", err)
	}
	links, err := netns.Whole(nl.LinkList)
	if err != nil {
		nl.Close()
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		if l.Attrs().HardwareAddr.String() == want.String() {
			return l, nl, nil
		}
	}
	nl.Close()
	return nil, nil, fmt.Errorf("the virtual machine has no interface %s", mac)
}
