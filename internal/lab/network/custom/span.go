package custom

import (
	"bytes"
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/lab/network"
)

// oneKernel says why hosts of the list cannot be virtual machines; "" where they can. Inside a virtual machine a plugin
// finds its own program, the host's uplink and nothing else: no daemon, no further
// interface, and no account of the addresses that other hosts have given.
func (n *Network) oneKernel() string {
	if n.list.Route != network.RouteNone && slices.Contains(n.families(), 6) {
		return "its IPv6 routes lead to addresses that only a host on this kernel tells"
	}
	for i, p := range n.first.Plugins {
		if !slices.Contains(selfContained(), p.Network.Type) {
			return fmt.Sprintf("its plugin %s is none that is known to need nothing besides its own program, and a virtual machine has no daemons and no interfaces of the machine's", p.Network.Type)
		}
		if i >= len(n.other.Plugins) {
			break
		}
		switch kind := p.Network.IPAM.Type; kind {
		case "":
		case "host-local", "static":
			if bytes.Equal(addresses(p.Bytes), addresses(n.other.Plugins[i].Bytes)) {
				return fmt.Sprintf("its %s gives the same addresses on every host, and each virtual machine keeps its own account of them: expected ${SUBNET} or ${HOST} in them", kind)
			}
		default:
			return fmt.Sprintf("its IPAM plugin %s is none that is known to need no daemon, and a virtual machine has none", kind)
		}
	}
	return ""
}

// selfContained lists the reference plugins without host-device, which hands out
// interfaces of the machine's.
func selfContained() []string {
	return []string{"bandwidth", "bridge", "dummy", "firewall", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr",
		"tap", "tuning", "vlan", "vrf"}
}
