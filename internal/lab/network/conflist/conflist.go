// Package conflist writes CNI configuration lists for the networks of the
// catalogue. It knows the plugins' fields, not what a network uses them for.
package conflist

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"pathwise.dev/pathwise/internal/topo"
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
	// IPv6: of each address the IPv6 one that goes with it (topo.Addr6) is given too.
	IPv6 bool
}

// Within returns the range of addresses of part inside the larger subnet, without the
// part's first and last one.
func Within(subnet, part netip.Prefix) Range {
	last := part.Masked().Addr().As4()
	for bit := 1; bit < 32-part.Bits(); bit++ {
		last[3-bit/8] |= 1 << (bit % 8)
	}
	return Range{Subnet: subnet, First: part.Masked().Addr().Next(), Last: netip.AddrFrom4(last)}
}

// HostLocal returns the IPAM part for host-local, which keeps its leases under
// dir; the pod gets a route to beyond, by the gateway, unless it is the zero value.
func HostLocal(dir string, r Range, beyond netip.Prefix) Plugin {
	sets, routes := []any{[]any{r.entry()}}, []any{map[string]any{"dst": beyond.String()}}
	if r.IPv6 {
		sets = append(sets, []any{r.six().entry()})
		routes = append(routes, map[string]any{"dst": topo.Range6(beyond).String()})
	}
	ipam := Plugin{"type": "host-local", "dataDir": filepath.Join(dir, "ipam"), "ranges": sets}
	if beyond.IsValid() {
		ipam["routes"] = routes
	}
	return ipam
}

// entry is the range as host-local has it.
func (r Range) entry() map[string]any {
	one := map[string]any{"subnet": r.Subnet.Masked().String()}
	if r.First.IsValid() {
		one["rangeStart"], one["rangeEnd"] = r.First.String(), r.Last.String()
	}
	if r.Gateway.IsValid() {
		one["gateway"] = r.Gateway.String()
	}
	return one
}

// six is the range of IPv6 addresses that goes with r.
func (r Range) six() Range {
	out := Range{Subnet: topo.Subnet6(r.Subnet)}
	for to, from := range map[*netip.Addr]netip.Addr{&out.First: r.First, &out.Last: r.Last, &out.Gateway: r.Gateway} {
		if from.IsValid() {
			*to = topo.Addr6(netip.PrefixFrom(from, r.Subnet.Bits())).Addr()
		}
	}
	return out
}
