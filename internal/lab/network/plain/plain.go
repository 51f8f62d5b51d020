// Package plain holds the networks that attach pods to nothing of their own:
// none, host and container, the three modes that Suo et al. (2018) measure
// alongside the bridge. They need no daemon and, but for container, no plugin.
package plain

import (
	"context"
	"encoding/json"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bridge"
	"pathwise.dev/pathwise/internal/topo"
)

// None is the network without a network: its pods must not reach anything.
type None struct{}

// Info implements network.Network.
func (None) Info() network.Info {
	why := "the network carries no traffic: that is its purpose"
	return network.Info{
		Name: "none", Family: "plain", Families: network.Both(),
		Summary: "a namespace with nothing but its loopback: the isolation check",
		Cannot:  map[topo.Placement]string{topo.OneHost: why, topo.TwoHosts: why},
		Closed:  true, Alone: "it keeps pods without any network",
		Needs: []network.Need{network.NeedRoot()},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "-", InterHost: "-", Outside: "-",
			KeyValue: "no", Encryption: "no", Isolation: "high", OwnNamespace: true},
	}
}

// Build implements network.Network.
func (None) Build(context.Context, network.Site) (network.Plug, error) {
	return network.Plug{Mode: network.Closed}, nil
}

// Host puts pods into their host's own namespace: the baseline.
type Host struct{}

// Info implements network.Network.
func (Host) Info() network.Info {
	return network.Info{
		Name: "host", Family: "plain", Families: network.Both(),
		Summary: "pods share their host's network namespace: the baseline", Baseline: true,
		Alone: "its pods have no namespace of their own, but their host's",
		Needs: []network.Need{network.NeedRoot(), network.NeedLink("veth", "CONFIG_VETH"),
			network.NeedLink("bridge", "CONFIG_BRIDGE")},
		Row: network.Quality{Namespace: "shared with the host", IntraHost: "host network stack",
			InterHost: "host network stack", Outside: "host network stack", KeyValue: "no", Encryption: "no", Isolation: "low",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true},
	}
}

// Build implements network.Network.
func (Host) Build(_ context.Context, site network.Site) (network.Plug, error) {
	return network.Plug{Mode: network.ShareHost, Crossing: network.Uplinks(site)}, nil
}

// Container puts all pods of a host into one namespace, whose first pod is
// attached as on the network bridge.
type Container struct{}

// Info implements network.Network.
func (Container) Info() network.Info {
	leader := bridge.New(bridge.Private).Info()
	return network.Info{
		Name: "container", Family: "plain", Families: network.Both(),
		Summary: "pods share one namespace, its leader attached as on bridge",
		Cannot:  map[topo.Placement]string{topo.TwoHosts: "pods that share a namespace are on one host"},
		Alone:   "its pods share one namespace",
		Needs:   leader.Needs,
		Row: network.Quality{Namespace: "shared with the group leader", IntraHost: "loopback of the shared namespace",
			InterHost: "-", Outside: leader.Row.Outside, KeyValue: "no", Encryption: "no", Isolation: "medium",
			ReachIntra: true, ReachOwnHost: true, ReachOutside: true},
	}
}

// Build implements network.Network.
func (Container) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug, err := bridge.New(bridge.Private).Build(ctx, site)
	if err != nil {
		return network.Plug{}, err
	}
	return network.Plug{Mode: network.SharePod, Conflists: map[int]json.RawMessage(plug.Conflists)}, nil
}
