// Package catalogue is the one table of all networks. A network is added by its
// package and a line here.
package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/bgp"
	"pathwise.dev/pathwise/internal/network/bridge"
	"pathwise.dev/pathwise/internal/network/custom"
	"pathwise.dev/pathwise/internal/network/flannel"
	"pathwise.dev/pathwise/internal/network/macvlan"
	"pathwise.dev/pathwise/internal/network/plain"
	"pathwise.dev/pathwise/internal/network/vxlan"
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
		vxlan.New(),
		bgp.New(),
		flannel.New("vxlan"),
		flannel.New("host-gw"),
		flannel.New("udp"),
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
// configuration list, called after the file.
func Find(name string) (network.Network, error) {
	if path, ok := strings.CutPrefix(name, "cni:"); ok {
		return custom.Load(name, path)
	}
	all := All()
	i := slices.IndexFunc(all, func(n network.Network) bool { return n.Info().Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown network %q: expected one of %s, or cni:FILE", name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}
