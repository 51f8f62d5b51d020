// Package macvlan holds the networks whose pods have a MAC address of their own
// on the underlay, in the modes bridge, private and VEPA that Claassen (2015)
// describes. Pods take addresses of the underlay's range.
package macvlan

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

// Mode is a macvlan mode.
type Mode string

// Modes. Passthru is left out: it gives the uplink to a single pod.
const (
	Bridge  Mode = "bridge"
	Private Mode = "private"
	VEPA    Mode = "vepa"
)

// New returns the network of that mode.
func New(mode Mode) network.Network { return macvlan{mode} }

type macvlan struct{ mode Mode }

// Info implements network.Network.
func (m macvlan) Info() network.Info {
	info := network.Info{
		Name: "macvlan-" + string(m.mode), Family: "macvlan", Families: network.Both(), Uplink: "macvlan",
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("macvlan"), network.NeedPlugin("host-local"),
			network.NeedLink("macvlan", "CONFIG_MACVLAN")},
		Row: network.Quality{Namespace: "independent, isolated", InterHost: "the underlay's layer 2",
			Outside: "the underlay's layer 2", KeyValue: "no", Encryption: "no", Isolation: "moderate",
			ReachInter: true, ReachOutside: true, OwnNamespace: true},
	}
	switch m.mode {
	case Bridge:
		info.Name = "macvlan"
		info.Summary = "a MAC address on the underlay for each pod; pods of a host meet in the driver, their own host they do not reach"
		info.Row.IntraHost, info.Row.ReachIntra = "in the macvlan driver", true
	case Private:
		info.Summary = "macvlan, pods of a host kept apart"
		info.Row.IntraHost, info.Row.Isolation = "-", "high"
		info.Cannot = map[topo.Placement]string{topo.OneHost: "private mode keeps pods of one host apart"}
	case VEPA:
		info.Summary = "macvlan, traffic between pods of a host sent to the switch, which must reflect it"
		info.Row.IntraHost = "only over a switch that reflects frames (hairpin)"
		info.Cannot = map[topo.Placement]string{topo.OneHost: "VEPA mode sends all frames to the switch, and the lab's does not reflect them"}
	}
	return info
}

// Build implements network.Network.
func (m macvlan) Build(_ context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}, Crossing: network.Uplinks(site)}
	for _, h := range site.Hosts {
		part, err := site.OnUnderlay(h)
		if err != nil {
			return plug, err
		}
		r := conflist.Within(h.Addr.Masked(), part)
		r.Gateway, r.IPv6 = site.Gateway.Addr(), site.IPv6
		list, err := conflist.List(m.Info().Name, conflist.Plugin{"type": "macvlan", "master": h.Dev, "mode": string(m.mode),
			"mtu": site.MTU, "ipam": conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, site.Beyond(netip.Prefix{}))})
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
	}
	return plug, nil
}
