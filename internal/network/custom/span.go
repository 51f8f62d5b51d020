package custom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/libcni"
)

// oneKernel says why hosts of the list cannot be virtual machines, given the list
// as it is for two hosts; "" where they can. Inside a virtual machine a plugin finds
// its own program, the host's uplink and nothing else: no daemon, no further
// interface, and no account of the addresses that other hosts have given.
func oneKernel(first, second *libcni.NetworkConfigList) string {
	for i, p := range first.Plugins {
		if !slices.Contains(selfContained(), p.Network.Type) {
			return fmt.Sprintf("its plugin %s is none that is known to need nothing beside its own program, and a virtual machine has no daemons and no interfaces of the machine's", p.Network.Type)
		}
		if i >= len(second.Plugins) {
			break
		}
		switch kind := p.Network.IPAM.Type; kind {
		case "":
		case "host-local", "static":
			if bytes.Equal(addresses(p.Bytes), addresses(second.Plugins[i].Bytes)) {
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
	return []string{"bandwidth", "bridge", "dummy", "firewall", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "tap", "tuning", "vlan", "vrf"}
}

// addresses is the plugin's part on addresses, in one order.
func addresses(plugin []byte) []byte {
	var p struct {
		IPAM map[string]any `json:"ipam"`
	}
	if json.Unmarshal(plugin, &p) != nil {
		return nil // libcni has read it, so it does not come to this
	}
	raw, err := json.Marshal(p.IPAM)
	if err != nil {
		return nil
	}
	return raw
}
