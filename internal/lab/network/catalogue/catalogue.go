// Package catalogue is the one table of all networks. A network is added by its
// package and a line here.
package catalogue

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bgp"
	"pathwise.dev/pathwise/internal/lab/network/bridge"
	"pathwise.dev/pathwise/internal/lab/network/custom"
	"pathwise.dev/pathwise/internal/lab/network/docker"
	"pathwise.dev/pathwise/internal/lab/network/evpn"
	"pathwise.dev/pathwise/internal/lab/network/flannel"
	"pathwise.dev/pathwise/internal/lab/network/hostdevice"
	"pathwise.dev/pathwise/internal/lab/network/ipvlan"
	"pathwise.dev/pathwise/internal/lab/network/macvlan"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/lab/network/ovn"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/sriov"
	"pathwise.dev/pathwise/internal/lab/network/srv6"
	"pathwise.dev/pathwise/internal/lab/network/tinc"
	"pathwise.dev/pathwise/internal/lab/network/tunnel"
	"pathwise.dev/pathwise/internal/lab/network/vlan"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/lab/network/weave"
	"pathwise.dev/pathwise/internal/lab/network/wireguard"
)

// All returns every network that needs no file of the user, in the order in
// which they are listed.
func All() []network.Network {
	return []network.Network{
		plain.None{},
		plain.Host{},
		plain.Container{},
		bridge.New(bridge.Private),
		bridge.New(bridge.Published),
		bridge.New(bridge.PointToPoint),
		macvlan.New(macvlan.Bridge),
		macvlan.New(macvlan.Private),
		macvlan.New(macvlan.VEPA),
		vlan.New(vlan.Macvlan),
		ipvlan.New(ipvlan.L2),
		ipvlan.New(ipvlan.L3),
		ipvlan.New(ipvlan.L3S),
		vlan.New(vlan.IPvlan),
		hostdevice.New(),
		sriov.New(),
		vxlan.New(),
		evpn.New(),
		tunnel.New(tunnel.GRE),
		tunnel.New(tunnel.Geneve),
		bgp.New(),
		bgp.NewIPIP(),
		srv6.New(),
		wireguard.New(wireguard.Kernel),
		wireguard.New(wireguard.UserSpace),
		flannel.New("vxlan"),
		flannel.New("host-gw"),
		flannel.New("udp"),
		docker.New(docker.None),
		docker.New(docker.Host),
		docker.New(docker.Container),
		docker.New(docker.Bridge),
		docker.New(docker.NAT),
		docker.New(docker.Macvlan),
		docker.New(docker.IPvlan),
		docker.New(docker.Overlay),
		tinc.New(),
		ovs.New(ovs.Flat),
		ovs.New(ovs.VLAN),
		ovs.New(ovs.VXLAN),
		ovs.New(ovs.Geneve),
		ovs.New(ovs.AFXDP),
		openshift.New(openshift.Whole, openshift.OneTenant),
		openshift.New(openshift.Shortcut1, openshift.OneTenant),
		openshift.New(openshift.Shortcut2, openshift.OneTenant),
		openshift.New(openshift.Shortcut3, openshift.OneTenant),
		openshift.New(openshift.Untracked, openshift.OneTenant),
		openshift.New(openshift.Shortcut3Untracked, openshift.OneTenant),
		openshift.New(openshift.Shortened, openshift.OneTenant),
		ovn.New(),
		weave.New(),
	}
}

// Names lists the names of All.
func Names() []string {
	var out []string
	for _, n := range All() {
		out = append(out, n.Info().Name)
	}
	return out
}

// Baseline is the name of the network that the others are compared with.
func Baseline() string { return plain.Host{}.Info().Name }

// Find returns the network called name. "cni:FILE" is the user's own CNI
// configuration list, with "?route=static" or "?route=bgp" one that is routed.
func Find(name string) (network.Network, error) {
	if l, ok, err := network.ParseList(name); ok {
		if err != nil {
			return nil, err
		}
		return custom.Load(name, l)
	}
	all := All()
	i := slices.IndexFunc(all, func(n network.Network) bool { return n.Info().Name == name })
	if i < 0 {
		if near := config.Nearest(name, Names()); near != "" {
			return nil, fmt.Errorf("unknown network %q: did you mean %q? \"pathwise networks\" lists all", name, near)
		}
		return nil, fmt.Errorf("unknown network %q: \"pathwise networks\" lists what there is, and cni:FILE is a list of yours", name)
	}
	return all[i], nil
}
