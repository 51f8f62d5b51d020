// Package bgp holds routed-bgp: pods attached by routes, whose ranges BIRD
// distributes between the hosts, as Calico does without encapsulation (Atici
// and Boluk 2020; Suo et al. 2018). It is not Calico: its own daemon, Felix, and
// its policy are not there.
package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/conflist"
)

// asn is private (RFC 6996): one autonomous system, iBGP in a full mesh.
const asn = 64512

// New returns the network.
func New() network.Network { return bgp{} }

type bgp struct{}

// Info implements network.Network.
func (bgp) Info() network.Info {
	return network.Info{
		Name: "routed-bgp", Family: "bgp", Summary: "pod routes by BGP (BIRD 2) and no encapsulation, as Calico's BGP mode",
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("ptp"), network.NeedPlugin("host-local"),
			network.NeedProgram("bird", "bird2"), network.NeedLink("veth", "CONFIG_VETH")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "routes of the host", InterHost: "routes by BGP",
			Outside: "routes by BGP (the underlay's router is a peer)", KeyValue: "no (BGP)", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
}

// speaker is one BGP router: a host, or the underlay as the rack's switch.
type speaker struct {
	name, netns, dev string
	addr             netip.Addr
	// pods is what the speaker announces; the zero value for none.
	pods netip.Prefix
}

func speakers(site network.Site) []speaker {
	out := []speaker{{name: "u", netns: site.Underlay, dev: "br0", addr: site.Gateway.Addr()}}
	for _, h := range site.Hosts {
		out = append(out, speaker{h.Name, h.Netns, h.Dev, h.Addr.Addr(), h.Pods})
	}
	return out
}

// Build implements network.Network.
func (b bgp) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}, Crossing: network.Uplinks(site)}
	for _, h := range site.Hosts {
		list, err := conflist.List(b.Info().Name, conflist.Plugin{"type": "ptp", "mtu": site.MTU,
			"ipam": conflist.HostLocal(filepath.Join(site.Dir, h.Name), conflist.Range{Subnet: h.Pods}, site.Beyond(site.Pods))})
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
	}
	all := speakers(site)
	for i, s := range all {
		if err := start(ctx, site, s, i, all); err != nil {
			return plug, err
		}
	}
	plug.Ready = func(ctx context.Context) error { return converged(ctx, site, all) }
	return plug, nil
}

// start writes the speaker's configuration and starts its BIRD.
func start(ctx context.Context, site network.Site, s speaker, index int, all []speaker) error {
	conf := filepath.Join(site.Dir, "bird-"+s.name+".conf")
	if err := os.WriteFile(conf, []byte(config(s, index, all)), 0o644); err != nil {
		return fmt.Errorf("write BIRD configuration: %w", err)
	}
	base := strings.TrimSuffix(conf, ".conf")
	return site.Start(ctx, network.Daemon{Name: "bird-" + s.name, Netns: s.netns,
		Argv: []string{"bird", "-f", "-c", conf, "-s", base + ".ctl", "-P", base + ".pid"}})
}

// config is the speaker's BIRD configuration. Of each pair of speakers only the
// first calls, and it does so at once: two that call each other first collide
// and then wait out their timers (RFC 4271 section 6.8).
func config(s speaker, index int, all []speaker) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router id %v;\n", s.addr)
	b.WriteString("protocol device { scan time 10; }\n")
	// Next hops must resolve over the uplink, not over the default route.
	fmt.Fprintf(&b, "protocol direct { ipv4; interface \"%s\"; }\n", s.dev)
	if s.pods.IsValid() {
		fmt.Fprintf(&b, "protocol static { ipv4; route %v blackhole; }\n", s.pods)
	}
	b.WriteString("protocol kernel { ipv4 { import none; export filter { if source = RTS_BGP then accept; reject; }; }; }\n")
	for i, peer := range all {
		if i == index {
			continue
		}
		calls := ""
		if i < index {
			calls = "passive on; "
		}
		fmt.Fprintf(&b, "protocol bgp to_%s { local %v as %d; neighbor %v as %d; %sdirect; "+
			"connect delay time 1; connect retry time 1; error wait time 1, 2; "+
			"ipv4 { import all; export where source = RTS_STATIC; next hop self; }; }\n",
			peer.name, s.addr, asn, peer.addr, asn, calls)
	}
	return b.String()
}

// converged waits until every speaker's kernel routes every other's pods.
func converged(ctx context.Context, site network.Site, all []speaker) error {
	return network.Poll(ctx, 5*time.Millisecond, func() error {
		for _, s := range all {
			have, err := learnt(site, s)
			if err != nil {
				return err
			}
			for _, peer := range all {
				if peer.pods.IsValid() && peer.name != s.name && !have[peer.pods] {
					return fmt.Errorf("%s has no route to the pods of %s", s.name, peer.name)
				}
			}
		}
		return nil
	})
}

func learnt(site network.Site, s speaker) (map[netip.Prefix]bool, error) {
	nl, err := site.Netlink(s.netns)
	if err != nil {
		return nil, err
	}
	routes, err := nl.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: unix.RTPROT_BIRD}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("list routes of %s: %w", s.name, err)
	}
	out := map[netip.Prefix]bool{}
	for _, r := range routes {
		if r.Dst != nil {
			out[prefix(*r.Dst)] = true
		}
	}
	return out, nil
}

func prefix(n net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP.To4()) // the kernel gave an IPv4 route
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a, ones)
}
