// Package conflist writes CNI configuration lists for the networks of the
// catalogue. It knows the plugins' fields, not what a network uses them for.
package conflist

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
)

// cniVersion is the newest version of the specification that the reference
// plugins v1.9 and Debian 12's v1.1 both speak.
const cniVersion = "1.0.0"

// Plugin is one plugin's part of a list.
type Plugin map[string]any

// List returns a configuration list.
func List(name string, plugins ...Plugin) (json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{"cniVersion": cniVersion, "name": name, "plugins": plugins})
	if err != nil {
		return nil, fmt.Errorf("encode CNI configuration list: %w", err)
	}
	return raw, nil
}

// Range is a part of a subnet from which addresses are given.
type Range struct {
	Subnet netip.Prefix
	// First and Last bound the addresses; the zero value means the subnet's own bounds.
	First, Last netip.Addr
	// Gateway is the subnet's router; the zero value leaves it to the plugin.
	Gateway netip.Addr
}

// Within returns the range of addresses of part inside the larger subnet.
func Within(subnet, part netip.Prefix) Range {
	last := part.Masked().Addr().As4()
	last[3] |= 0xfe
	return Range{Subnet: subnet, First: part.Masked().Addr().Next(), Last: netip.AddrFrom4(last)}
}

// HostLocal returns the IPAM part for host-local, which keeps its leases under
// dir; the pod gets a route to beyond, by the gateway, unless it is the zero value.
func HostLocal(dir string, r Range, beyond netip.Prefix) Plugin {
	one := map[string]any{"subnet": r.Subnet.Masked().String()}
	if r.First.IsValid() {
		one["rangeStart"], one["rangeEnd"] = r.First.String(), r.Last.String()
	}
	if r.Gateway.IsValid() {
		one["gateway"] = r.Gateway.String()
	}
	ipam := Plugin{"type": "host-local", "dataDir": filepath.Join(dir, "ipam"), "ranges": []any{[]any{one}}}
	if beyond.IsValid() {
		ipam["routes"] = []any{map[string]any{"dst": beyond.String()}}
	}
	return ipam
}
