// Package bridge holds the single-host networks that the CNI plugins bridge and
// ptp build, and nat: the bridge with ports published at the host's address.
package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

// Kind says which of the package's networks it is.
type Kind int

// Kinds.
const (
	// Private: pods on a bridge, behind their host's address.
	Private Kind = iota
	// Published: as Private, and each pod's service port is mapped to one of the host.
	Published
	// PointToPoint: a veth pair to each pod and a route, no bridge.
	PointToPoint
)

// New returns the network of that kind.
func New(kind Kind) network.Network { return bridge{kind} }

type bridge struct{ kind Kind }

const behindHost = "pods have private addresses behind their host: publish a port (network nat) or use an overlay or routes"

// Info implements network.Network.
func (b bridge) Info() network.Info {
	info := network.Info{
		Family: "bridge", Families: network.Both(),
		Cannot: map[topo.Placement]string{topo.TwoHosts: behindHost},
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("host-local"), network.NeedProgram("nft", "nftables"),
			network.NeedLink("veth", "CONFIG_VETH")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", InterHost: "-",
			Outside: "masquerade", KeyValue: "no", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
	bridged := []network.Need{network.NeedPlugin("bridge"), network.NeedLink("bridge", "CONFIG_BRIDGE")}
	switch b.kind {
	case Private:
		info.Name, info.Summary = "bridge", "CNI bridge plugin: pods on a Linux bridge, masqueraded to the outside"
		info.Needs = append(info.Needs, bridged...)
	case Published:
		info.Name, info.Summary = "nat", "CNI bridge and portmap: pods reached at their host's address and a published port"
		info.Needs = append(append(info.Needs, bridged...), network.NeedPlugin("portmap"))
		info.Cannot = nil
		info.Alone = "its pods are reached at a published port of their host, not at an address on each network"
		info.Row.InterHost, info.Row.ReachInter = "published port (DNAT)", true
	case PointToPoint:
		info.Name, info.Summary = "ptp", "CNI ptp plugin: a veth pair and a host route for each pod, no bridge"
		info.Needs = append(info.Needs, network.NeedPlugin("ptp"))
		info.Row.IntraHost = "routes of the host"
	}
	return info
}

// Build implements network.Network.
func (b bridge) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}}
	if b.kind == Published {
		plug.Publish, plug.Crossing = true, network.Uplinks(site)
	}
	for _, h := range site.Hosts {
		rules, err := network.Firewall(ctx, site, h.Netns)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		list, err := conflist.List(b.Info().Name, b.plugins(site, h, rules)...)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
	}
	return plug, nil
}

// plugins returns the host's plugin chain. Rules are nftables' where the kernel
// has it: the iptables backend runs a dozen programs for each pod, which would be most of its start-up.
func (b bridge) plugins(site network.Site, h topo.Host, rules string) []conflist.Plugin {
	ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), conflist.Range{Subnet: h.Pods, IPv6: site.IPv6},
		site.Beyond(netip.Prefix{}))
	main := conflist.Plugin{"type": "bridge", "bridge": site.Bridge(), "isGateway": true, "hairpinMode": true,
		"ipMasq": true, "ipMasqBackend": rules, "mtu": site.MTU, "ipam": ipam}
	switch b.kind {
	case PointToPoint:
		return []conflist.Plugin{{"type": "ptp", "ipMasq": true, "ipMasqBackend": rules, "mtu": site.MTU, "ipam": ipam}}
	case Published:
		return []conflist.Plugin{main, {"type": "portmap", "backend": rules, "snat": true,
			"capabilities": map[string]bool{"portMappings": true}}}
	default:
		return []conflist.Plugin{main}
	}
}
