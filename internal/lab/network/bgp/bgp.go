// Package bgp holds the networks whose pods are attached by routes, and whose
// hosts learn of one another's pods by BGP, from BIRD, as Calico's do: routed-bgp,
// without encapsulation (Atici and Boluk 2020; Suo et al. 2018), and ipip-bgp,
// in IPIP (Suo et al. 2018). It is not Calico: its own daemon, Felix, and its
// policy are not there.
package bgp

import (
	"context"
	"net/netip"
	"slices"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
)

// New returns routed-bgp.
func New() network.Network { return bgp{} }

type bgp struct{}

// Info implements network.Network.
func (bgp) Info() network.Info {
	return network.Info{
		Name: "routed-bgp", Family: "bgp", Families: network.Both(), Extra: meet,
		Summary: "pod routes by BGP (BIRD 2) and no encapsulation, as Calico's BGP mode",
		Needs:   append(routed.Needs(), network.NeedProgram("bird", "bird2")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "routes of the host", InterHost: "routes by BGP",
			Outside: "routes by BGP (the underlay's router is a peer)", KeyValue: "no (BGP)", Encryption: "no",
			Isolation: "moderate", ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true,
			OwnNamespace: true},
	}
}

// Build implements network.Network. The underlay speaks BGP too, as the switch of
// a rack would.
func (b bgp) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Crossing: network.Uplinks(site)}
	var err error
	if plug.Conflists, err = routed.Conflists(b.Info().Name, site, site.MTU); err != nil {
		return plug, err
	}
	plug.Ready, err = Announce(ctx, site, nil)
	return plug, err
}

// Announce has hosts and underlay tell one another by BGP of the hosts' pods, or of
// the IPv4 ranges by host index where there are such; ready waits until they know.
func Announce(ctx context.Context, site network.Site, ranges map[int][]netip.Prefix) (
	ready func(context.Context) error, err error) {
	m := hosts(site, "")
	for i, h := range site.All() {
		if ranges != nil {
			m.speakers[i].pods = slices.DeleteFunc(slices.Clone(ranges[h.Index]),
				func(p netip.Prefix) bool { return !p.Addr().Is4() })
		}
	}
	underlay := speaker{name: "u", netns: site.Underlay, dev: network.UnderlayBridge, addr: site.Gateway.Addr()}
	m.speakers = append([]speaker{underlay}, m.speakers...)
	return m.converged, m.start(ctx)
}
