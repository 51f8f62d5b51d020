// Package weave holds weave-fastdp-like: the shape of Weave Net's fast datapath,
// of which the project has ended. On each host a Linux bridge with the pods, a
// veth pair from it to a bridge of the kernel's Open vSwitch, and VXLAN on
// Weave's port to the other hosts, at Weave's MTU.
//
// It is not Weave: its router, which finds peers by gossip and programs the
// datapath flow by flow, is not there; ovs-vswitchd does so from static peers.
// What a packet passes is the same.
package weave

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is what Weave leaves for encapsulation: its default MTU is 1376,
	// so that an encrypted packet, too, fits into one of 1500 bytes.
	overhead = 124
	// port of VXLAN, and the virtual network, are Weave's.
	port = 6784
	key  = 1
	// Devices by Weave's names.
	bridge   = "weave"
	datapath = "datapath"
	near     = "vethwe-bridge"
	far      = "vethwe-datapath"
)

// New returns the network.
func New() network.Network { return fastdp{} }

type fastdp struct{}

// Info implements network.Network.
func (fastdp) Info() network.Info {
	return network.Info{
		Name: "weave-fastdp-like", Family: "weave", Overhead: overhead, Families: network.Both(),
		Summary: "the shape of Weave's fast datapath: a Linux bridge, kernel Open vSwitch and VXLAN on each host; static peers",
		Needs: append(ovs.Needs(), ovs.KernelDatapath(), network.NeedPlugin("bridge"), routed.NeedsOutside(),
			network.NeedLink("bridge", "CONFIG_BRIDGE"), network.NeedLink("vxlan", "CONFIG_VXLAN")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge", InterHost: "VXLAN overlay",
			Outside: "masquerade", KeyValue: "no (static peers)", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
}

// Build implements network.Network.
func (w fastdp) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}}
	f, err := ovs.Open(ctx, site, ovs.System)
	if err != nil {
		return plug, err
	}
	for _, h := range site.Hosts {
		if err := buildHost(site, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		if err := routed.Masquerade(ctx, site, h); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		list, err := w.conflist(site, h)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
	}
	plug.Crossing = f.Crossed("vxlan", port)
	if len(site.Hosts) > 0 {
		plug.Notes, plug.Datapath = []string{f.Note()}, f
	}
	plug.Ready = func(ctx context.Context) error {
		return f.Each(func(h topo.Host) error {
			args := []string{"add-br", datapath, "--", "set", "Bridge", datapath, "datapath_type=" + string(ovs.System), "--",
				"add-port", datapath, far}
			tunnel := f.Tunnel(h, datapath, "vxlan", fmt.Sprintf("options:key=%d", key),
				fmt.Sprintf("options:dst_port=%d", port))
			return f.Configure(ctx, h, append(args, tunnel...)...)
		})
	}
	return plug, nil
}

// buildHost makes the host's bridge and its way into the datapath.
func buildHost(site network.Site, h topo.Host) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = bridge, site.MTU-overhead
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := nl.LinkAdd(br); err != nil {
		return fmt.Errorf("create bridge: %w", err)
	}
	if err := nl.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge up: %w", err)
	}
	if err := device.Pair(device.End{Netns: h.Netns, Name: near, Bridge: bridge}, device.End{Netns: h.Netns, Name: far},
		site.MTU-overhead); err != nil {
		return fmt.Errorf("create way into the datapath: %w", err)
	}
	peer, err := nl.LinkByName(far)
	if err != nil {
		return fmt.Errorf("find %s: %w", far, err)
	}
	if err := nl.LinkSetUp(peer); err != nil {
		return fmt.Errorf("set %s up: %w", far, err)
	}
	return nil
}

// conflist returns the host's CNI configuration list. All pods are of one
// subnet, in which each host's bridge has the first address of the host's part.
func (w fastdp) conflist(site network.Site, h topo.Host) (json.RawMessage, error) {
	r := conflist.Within(site.Pods, h.Pods)
	r.Gateway, r.IPv6 = h.Pods.Masked().Addr().Next(), site.IPv6
	ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, site.Beyond(netip.Prefix{}))
	return conflist.List(w.Info().Name, conflist.Plugin{"type": "bridge", "bridge": bridge, "mtu": site.MTU - overhead,
		"isGateway": true, "hairpinMode": true, "ipam": ipam})
}
