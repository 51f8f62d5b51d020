package openshift

import (
	"net/netip"
	"slices"
	"strings"
)

// Pod is one of a host's, as its rules know it.
type Pod struct {
	Addr      netip.Addr
	MAC, Port string
	Tenant    uint32
}

// HostRules are a host's with these pods; peers are other hosts' ranges by tunnel address.
func HostRules(p Pipeline, cluster, own netip.Prefix, peers map[netip.Addr]netip.Prefix, pods []Pod) string {
	gateway := func(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }
	var others []node
	for addr, r := range peers {
		others = append(others, node{addr, r, gateway(r)})
	}
	rules := p.nodeRules(cluster, services(), node{pods: own, gateway: gateway(own)}, others)
	for _, e := range pods {
		for _, r := range podRules(endpoint{e.Addr, e.MAC, e.Port, e.Tenant}) {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	return strings.Join(rules, "\n") + "\n"
}
