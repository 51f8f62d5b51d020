// Package ovs holds the networks of Open vSwitch: a real ovsdb-server and
// ovs-vswitchd on each host, pods on ports of one of its bridges, of which the CNI
// plugin host-device gives them the other end, and bridges joined over the underlay's layer 2, in an 802.1Q VLAN, by
// VXLAN or by Geneve. It also is the ground for networks that program Open
// vSwitch themselves (packages openshift and ovn): see Fabric.
//
// The kernel's datapath forwards where the kernel has one, else ovs-vswitchd
// does; which of them it was is in the result. Bridges here learn addresses
// as any switch; nothing else controls them.
package ovs

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
	// Flat: pods stand on the underlay's layer 2, with addresses of its range.
	Flat Kind = iota
	// VLAN: pods stand in a VLAN of the underlay's layer 2.
	VLAN
	// VXLAN and Geneve: pods of all hosts share a layer 2 in tunnels.
	VXLAN
	Geneve
	// AFXDP is Flat with ports that ovs-vswitchd reads through AF_XDP.
	AFXDP
)

// New returns the network of that kind.
func New(kind Kind) network.Network { return ovs{kind} }

type ovs struct{ kind Kind }

const (
	// overhead is outer Ethernet, IPv4, UDP and VXLAN header (RFC 7348 section
	// 5), or a Geneve header without options (RFC 8926 section 3.4): as long.
	overhead = 14 + 20 + 8 + 8
	// key is the tunnels' virtual network, told apart from those of others that
	// share Open vSwitch's one UDP port on a host.
	key        = 7700
	vxlanPort  = 4789 // IANA's, RFC 7348 section 8
	genevePort = 6081 // IANA's, RFC 8926 section 3.3
	tag        = 77   // 802.1Q VLAN
)

// Info implements network.Network.
func (o ovs) Info() network.Info {
	info := network.Info{
		Family: "ovs", Families: network.Both(), Needs: append(Needs(), network.NeedPlugin("host-device")),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Open vSwitch", KeyValue: "no",
			Encryption: "no", Isolation: "moderate", ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
	wire := func() {
		info.Row.InterHost, info.Row.Outside = "the underlay's layer 2", "the underlay's layer 2"
		info.Row.ReachOwnHost, info.Row.ReachOutside = true, true
	}
	tunnel := func(name string) {
		info.Overhead, info.Needs = overhead, append(info.Needs, TunnelNeeds()...)
		info.Row.InterHost, info.Row.Outside, info.Row.KeyValue = name+" overlay", "-", "no (static peers)"
	}
	if !o.tunnels() {
		info.OneKernel = "its hosts have a second interface on the underlay, and a virtual machine has one"
	}
	switch o.kind {
	case Flat:
		info.Name, info.Summary = "ovs-flat", "Open vSwitch: pods and a port on the underlay on one bridge, pods with addresses of the underlay"
		wire()
	case VLAN:
		info.Name, info.Summary = "ovs-vlan", "Open vSwitch: pods on access ports of an 802.1Q VLAN, trunks between hosts"
		info.Row.InterHost, info.Row.Outside = "802.1Q VLAN on the underlay's layer 2", "- (a VLAN without a router)"
	case VXLAN:
		info.Name, info.Summary = "ovs-vxlan", "Open vSwitch: a bridge on each host, joined by VXLAN tunnels of its own; static peers"
		tunnel("VXLAN")
	case Geneve:
		info.Name, info.Summary = "ovs-geneve", "Open vSwitch: a bridge on each host, joined by Geneve tunnels of its own; static peers"
		tunnel("Geneve")
	case AFXDP:
		info.Name, info.Summary = "ovs-afxdp", "Open vSwitch in user space, as ovs-flat, with AF_XDP ports instead of packet sockets"
		info.Needs = append(info.Needs, network.NeedSocket("AF_XDP", "CONFIG_XDP_SOCKETS"),
			network.NeedMachineRoot("ovs-vswitchd loads an XDP program"))
		wire()
	}
	return info
}

// bridge is the name of the network's bridge on each host.
func (o ovs) bridge() string { return o.Info().Name }

// tunnels reports whether the bridges are joined by tunnels, not by the wire.
func (o ovs) tunnels() bool { return o.kind == VXLAN || o.kind == Geneve }

func (o ovs) datapath(site network.Site) Datapath {
	switch {
	case o.kind == AFXDP:
		return Netdev // AF_XDP gives packets to user space
	case site.Mixed:
		return Netdev // all ends of the tunnels must be of one kind, and every kernel has this one
	default:
		return Best()
	}
}

// Build implements network.Network.
func (o ovs) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI}
	if o.kind == AFXDP && site.MTU > maxXDP {
		return plug, fmt.Errorf("MTU %d is too large for AF_XDP: expected %d or less", site.MTU, maxXDP)
	}
	f, err := Open(ctx, site, o.datapath(site))
	if err != nil {
		return plug, err
	}
	switch o.kind {
	case VXLAN:
		err, plug.Crossing = f.PrepareTunnels(), f.Crossed("vxlan", vxlanPort)
	case Geneve:
		err, plug.Crossing = f.PrepareTunnels(), f.Crossed("genev", genevePort)
	default:
		err, plug.Crossing = f.plugPorts(ctx), f.ports()
	}
	if err != nil {
		return plug, err
	}
	plug.Conflist = func(ctx context.Context, pod topo.Pod) (json.RawMessage, error) { return o.conflist(ctx, f, pod) }
	if len(site.Hosts) > 0 {
		plug.Notes, plug.Datapath = []string{f.Note()}, f
	}
	plug.Attached = f.Attached
	if o.kind == AFXDP && len(site.Hosts) > 0 {
		plug.Notes = append(plug.Notes, "ports of type "+xdpPort)
	}
	plug.Ready = func(ctx context.Context) error { return o.ready(ctx, f) }
	return plug, nil
}

// AF_XDP ports. Of its two types "afxdp" takes a processor for each port that
// polls it without a pause, "afxdp-nonpmd" waits in the switch's main loop.
const (
	xdpPort = "afxdp-nonpmd"
	// maxXDP is what the veth driver takes with an XDP program: a page, less the
	// program's headroom, the Ethernet header and the buffer's own description
	// (linux, drivers/net/veth.c, veth_xdp_set).
	maxXDP = 3498
)

// conflist returns the pod's CNI configuration list.
func (o ovs) conflist(ctx context.Context, f *Fabric, pod topo.Pod) (json.RawMessage, error) {
	h, err := f.Host(pod.Host)
	if err != nil {
		return nil, err
	}
	r := conflist.Within(f.site.Pods, h.Pods)
	if !o.tunnels() && o.kind != VLAN {
		part, err := f.site.OnUnderlay(h)
		if err != nil {
			return nil, err
		}
		r = conflist.Within(h.Addr.Masked(), part)
		r.Gateway = f.site.Gateway.Addr()
	}
	r.IPv6 = f.site.IPv6
	info, beyond := o.Info(), netip.Prefix{}
	if info.Row.ReachOutside {
		beyond = f.site.Beyond(netip.Prefix{})
	}
	port := Port{Network: info.Name, Bridge: o.bridge(), MTU: f.site.MTU - info.Overhead,
		IPAM: conflist.HostLocal(filepath.Join(f.site.Dir, h.Name), r, beyond)}
	switch o.kind {
	case VLAN:
		port.Columns = []string{fmt.Sprintf("tag=%d", tag)}
	case AFXDP:
		port.Interface = []string{"type=" + xdpPort}
	}
	return f.Conflist(ctx, pod, port)
}

// ready makes the hosts' bridges and joins them.
func (o ovs) ready(ctx context.Context, f *Fabric) error {
	if o.tunnels() {
		if err := f.RaiseTunnels(ctx); err != nil {
			return err
		}
	}
	return f.Each(func(h topo.Host) error {
		args := []string{"add-br", o.bridge(), "--", "set", "Bridge", o.bridge(), "datapath_type=" + string(f.Datapath)}
		port := []string{"--", "add-port", o.bridge(), f.port()}
		switch o.kind {
		case VXLAN:
			args = append(args, f.Tunnel(h, o.bridge(), "vxlan", fmt.Sprintf("options:key=%d", key))...)
		case Geneve:
			args = append(args, f.Tunnel(h, o.bridge(), "geneve", fmt.Sprintf("options:key=%d", key))...)
		case VLAN:
			args = append(append(args, port...), "--", "set", "Port", f.port(), fmt.Sprintf("trunks=%d", tag))
		case AFXDP:
			args = append(append(args, port...), "--", "set", "Interface", f.port(), "type="+xdpPort)
		default:
			args = append(args, port...)
		}
		return f.Configure(ctx, h, args...)
	})
}
