// Package openshift holds openshift-sdn: OpenShift's first network on real Open
// vSwitch, with its pipeline of OpenFlow tables, connection tracking, tenants by
// number, and VXLAN between nodes, as Busch and Kammerer (2021) take it apart.
//
// It is not OpenShift's controller, which runs on Kubernetes alone: the rules
// that it would write are written here, the node's when the network is built
// and the pod's when a pod is attached. Services and egress policy are left out.
//
// The document's shortened pipelines are networks of their own: see Pipeline.
package openshift

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section 5).
	overhead = 14 + 20 + 8 + 8
	// udpPort is VXLAN's (RFC 7348 section 8).
	udpPort = 4789
	// OpenShift's names are br0, vxlan0 and tun0, which a lab's other networks may use.
	bridge   = "sdn-br0"
	tunnel   = "sdn-vxlan0"
	nodeSide = "sdn-tun0"
)

// Tenants gives each pod, by its name, the number of the tenant that it belongs
// to: pods of one tenant reach each other, and 0 reaches all.
type Tenants func(pod string) uint32

// OneTenant puts all pods into one.
func OneTenant(string) uint32 { return 1 }

// New returns the network with this pipeline and these tenants.
func New(p Pipeline, t Tenants) network.Network { return sdn{p, t} }

type sdn struct {
	pipeline Pipeline
	tenants  Tenants
}

// Info implements network.Network.
func (s sdn) Info() network.Info {
	info := network.Info{
		Name: "openshift-sdn", Family: "openshift", Overhead: overhead,
		OneKernel: "the lab writes the rules that OpenShift's controller would, and does so on one kernel",
		Summary:   "OpenShift SDN's pipeline on Open vSwitch: OpenFlow tables, connection tracking, tenants, VXLAN between nodes",
		Needs: append(append(ovs.Needs(), ovs.TunnelNeeds()...), network.NeedPlugin("host-device"),
			routed.NeedsOutside()),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Open vSwitch, OpenFlow pipeline",
			InterHost: "VXLAN overlay", Outside: "masquerade", KeyValue: "no (OpenShift: the Kubernetes API)", Encryption: "no",
			Isolation: "high (tenants)", ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true,
			OwnNamespace: true},
	}
	if s.pipeline != Whole {
		info.Name, info.Summary = s.pipeline.name(), s.pipeline.summary()
		info.Alone = "it takes openshift-sdn's pipeline apart, and has the names of its bridge and ports"
	}
	if !s.pipeline.Isolates() {
		info.Row.Isolation = "moderate (tenants are not told apart)"
	}
	return info
}

// services is OpenShift's default range of service addresses; there are none here.
func services() netip.Prefix { return netip.MustParsePrefix("172.30.0.0/16") }

// Build implements network.Network.
func (s sdn) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	f, err := ovs.Open(ctx, site, ovs.BestTracking())
	if err != nil {
		return plug, err
	}
	if err := f.PrepareTunnels(); err != nil {
		return plug, err
	}
	plug.Datapath = f
	plug.Crossing, plug.Notes = f.Crossed("vxlan", udpPort), []string{f.Note()}
	w := &writer{Fabric: f, pipeline: s.pipeline, hosts: map[int]*shortened{}}
	plug.Ready = func(ctx context.Context) error { return s.ready(ctx, site, w) }
	if s.pipeline == Shortened {
		plug.Settled = w.settled
	}
	plug.Conflist = func(ctx context.Context, pod topo.Pod) (json.RawMessage,
		error) {
		return s.conflist(ctx, site, f, pod)
	}
	plug.Attached = func(ctx context.Context, pod topo.Pod, a topo.Attachment) error { return s.attached(ctx, w, pod, a) }
	return plug, nil
}

// conflist returns the pod's CNI configuration list. Pods take the cluster's whole
// range for their own link, as OpenShift's do: they ask by ARP also for pods of
// other nodes (table 50).
func (s sdn) conflist(ctx context.Context, site network.Site, f *ovs.Fabric, pod topo.Pod) (json.RawMessage, error) {
	h, err := f.Host(pod.Host)
	if err != nil {
		return nil, err
	}
	r := conflist.Within(site.Pods, h.Pods)
	r.Gateway = gateway(h)
	return f.Conflist(ctx, pod, ovs.Port{Network: s.Info().Name, Bridge: bridge, MTU: site.MTU - overhead,
		IPAM: conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, site.Beyond(netip.Prefix{}))})
}

// gateway is the node's own address among its pods'.
func gateway(h topo.Host) netip.Addr { return h.Pods.Masked().Addr().Next() }

func (s sdn) ready(ctx context.Context, site network.Site, f *writer) error {
	if err := f.RaiseTunnels(ctx); err != nil {
		return err
	}
	return f.Each(func(h topo.Host) error {
		err := f.Configure(ctx, h, "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type="+string(f.Datapath),
			"fail_mode=secure", "--", "add-port", bridge, tunnel, "--", "set", "Interface", tunnel, "type=vxlan",
			"options:remote_ip=flow", "options:key=flow", fmt.Sprintf("ofport_request=%d", vxlanPort),
			"--", "add-port", bridge, nodeSide, "--", "set", "Interface", nodeSide, "type=internal",
			fmt.Sprintf("mtu_request=%d", site.MTU-overhead), fmt.Sprintf("ofport_request=%d", nodePort))
		if err != nil {
			return err
		}
		if err := join(ctx, site, f.Fabric, h); err != nil {
			return err
		}
		var self node
		var peers []node
		for _, p := range site.Hosts {
			n := node{f.Endpoint(p), p.Pods, gateway(p)}
			if p.Index == h.Index {
				self = n
			} else {
				peers = append(peers, n)
			}
		}
		return f.add(ctx, h, "node", s.pipeline.nodeRules(site.Pods, services(), self, peers))
	})
}

// join makes the host itself a part of the network, and the pods' way out.
func join(ctx context.Context, site network.Site, f *ovs.Fabric, h topo.Host) error {
	if err := f.Address(h, nodeSide, netip.PrefixFrom(gateway(h), h.Pods.Bits())); err != nil {
		return err
	}
	nl := f.Netlink(h)
	link, err := nl.LinkByName(nodeSide)
	if err != nil {
		return fmt.Errorf("find %s: %w", nodeSide, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: network.IPNet(site.Pods.Masked()), Scope: netlink.SCOPE_LINK}
	if err := nl.RouteReplace(r); err != nil {
		return fmt.Errorf("add route to pods: %w", err)
	}
	return routed.Masquerade(ctx, site, h)
}

// attached does for a pod what OpenShift's node does: the rules by which its
// packets pass.
func (s sdn) attached(ctx context.Context, f *writer, pod topo.Pod, a topo.Attachment) error {
	if err := f.Attached(ctx, pod, a); err != nil {
		return err
	}
	h, port, err := f.Number(ctx, pod)
	if err != nil {
		return err
	}
	return f.add(ctx, h, "pod-"+pod.Name, podRules(endpoint{a.Addr, a.MAC, port, s.tenants(pod.Name)}))
}
