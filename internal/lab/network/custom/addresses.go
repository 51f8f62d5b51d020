package custom

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"pathwise.dev/pathwise/internal/topo"
)

// prefixes are the ranges that an IPAM part gives addresses from: the subnets of
// host-local, and those that addresses of static are in.
func prefixes(ipam map[string]any) (out []netip.Prefix) {
	add := func(v any) {
		text, _ := v.(string)
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	switch ipam["type"] {
	case "host-local":
		add(ipam["subnet"])
		sets, _ := ipam["ranges"].([]any)
		for _, raw := range sets {
			set, _ := raw.([]any)
			for _, r := range set {
				one, _ := r.(map[string]any)
				add(one["subnet"])
			}
		}
	case "static":
		addresses, _ := ipam["addresses"].([]any)
		for _, raw := range addresses {
			one, _ := raw.(map[string]any)
			add(one["address"])
		}
	}
	return out
}

// ipamOf is a plugin's part on addresses; nil where it has none.
func ipamOf(plugin []byte) map[string]any {
	p, err := decode(plugin)
	if err != nil {
		return nil // the CNI library has read it, so it does not come to this
	}
	ipam, _ := p["ipam"].(map[string]any)
	return ipam
}

// rangesOf are the ranges of all plugins of a list.
func rangesOf(list *libcni.NetworkConfigList) (out []netip.Prefix) {
	for _, p := range list.Plugins {
		out = append(out, prefixes(ipamOf(p.Bytes))...)
	}
	return out
}

// equalAddresses reports whether two lists say the same of addresses.
func equalAddresses(a, b *libcni.NetworkConfigList) bool {
	return slices.EqualFunc(a.Plugins, b.Plugins, func(p, q *libcni.PluginConfig) bool {
		return bytes.Equal(addresses(p.Bytes), addresses(q.Bytes))
	})
}

// addresses is the plugin's part on addresses, in one order.
func addresses(plugin []byte) []byte {
	raw, err := json.Marshal(ipamOf(plugin))
	if err != nil {
		return nil // it was JSON
	}
	return raw
}

// familiesOf lists the families of ranges, each once.
func familiesOf(ranges []netip.Prefix) (out []int) {
	for _, p := range ranges {
		if f := topo.FamilyOf(p.Addr()); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}
