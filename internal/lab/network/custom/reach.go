package custom

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// reference lists the reference plugins: what each of them does between hosts, and
// what it keeps, is known. Of others it is not, and they are tried.
func reference() []string {
	return []string{"bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan", "loopback",
		"macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"}
}

// main is the plugin that makes the pod's interface.
func (n *Network) main() (kind string, conf map[string]any) {
	p := n.first.Plugins[0]
	conf, err := decode(p.Bytes)
	if err != nil {
		conf = map[string]any{} // the CNI library has read it
	}
	return p.Network.Type, conf
}

// known reports whether all plugins of the list are reference plugins.
func (n *Network) known() bool {
	return !slices.ContainsFunc(n.first.Plugins,
		func(p *libcni.PluginConfig) bool { return !slices.Contains(reference(), p.Network.Type) })
}

// has reports whether the list has a plugin of the kind.
func (n *Network) has(kind string) bool {
	return slices.ContainsFunc(n.first.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Type == kind })
}

// cannot says where pods of the list do not reach each other, and why.
func (n *Network) cannot() map[topo.Placement]string {
	out := map[topo.Placement]string{}
	if why := n.nowhere(); why != "" {
		out[topo.OneHost], out[topo.TwoHosts] = why, why
		return out
	}
	if why := n.keptApart(); why != "" {
		out[topo.OneHost] = why
	}
	if why := n.keptOnHost(); why != "" {
		out[topo.TwoHosts] = why
	}
	return out
}

// nowhere says why pods reach one another neither on one host nor on two.
func (n *Network) nowhere() string {
	kind, conf := n.main()
	switch kind {
	case "dummy":
		return "its plugin dummy makes an interface that leads nowhere"
	case "loopback":
		return "its first plugin loopback makes no interface besides the pod's own loopback: expected one that does before it"
	case "tap":
		return "its plugin tap makes an interface for a program that reads frames, a hypervisor's, and pods have none"
	case "flannel":
		if file := flanneld(conf); file != "" {
			return fmt.Sprintf("its plugin flannel reads %s, which flanneld writes, and none runs for a list: expected flannel-vxlan, "+
				"flannel-host-gw or flannel-udp, networks that run it", file)
		}
	case "host-device":
		if conf["device"] == nil {
			return "its host-device names a card, and the lab has none: expected the key device, for which each pod gets an interface on the underlay"
		}
	}
	if master, _ := conf["master"].(string); master != "" && master != topo.HostDev && conf["linkInContainer"] != true {
		return fmt.Sprintf("its master %s is no interface that a host of the lab has: expected ${DEV}, that on the underlay", master)
	}
	for i, p := range n.first.Plugins {
		switch ipam := p.Network.IPAM.Type; ipam {
		case "dhcp":
			return "its IPAM plugin dhcp asks a DHCP server, and the lab has none: expected host-local or static"
		case "static":
			if len(prefixes(ipamOf(p.Bytes))) == 0 {
				return "its static has no addresses, and the lab gives none at run time: expected the key addresses"
			}
		case "":
			if i == 0 && slices.Contains(reference(), kind) {
				return fmt.Sprintf("its plugin %s has no ipam, so that pods get no addresses: expected the key ipam", kind)
			}
		}
	}
	return ""
}

// keptApart says why pods of one host do not reach each other.
func (n *Network) keptApart() string {
	kind, conf := n.main()
	mode, _ := conf["mode"].(string)
	switch {
	case n.fixed(n.second):
		return "its static gives every pod of a host the same address: expected ${POD} in it, the pod's number on its host"
	case (kind == "bridge" || kind == "macvlan") && n.twins(n.second):
		return "its key mac gives every pod of a host the same MAC address: expected ${POD} in it, or no mac"
	case kind == "macvlan" && mode == "private":
		return "macvlan's mode private keeps pods of one host apart"
	case kind == "macvlan" && mode == "vepa":
		return "macvlan's mode vepa sends all frames to the switch, and the lab's does not reflect them"
	case kind == "macvlan" && mode == "passthru":
		return "macvlan's mode passthru gives a host's interface to one pod alone"
	case kind == "vlan":
		return "its plugin vlan gives a VLAN of a host's interface to one pod alone"
	case kind == "bridge" && conf["portIsolation"] == true:
		return "its bridge keeps pods of one host apart (portIsolation)"
	default:
		return ""
	}
}

// fixed reports whether the list's static addresses are the same in another one.
func (n *Network) fixed(other *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(n.first.Plugins,
		func(p *libcni.PluginConfig) bool { return p.Network.IPAM.Type == "static" }) &&
		equalAddresses(n.first, other)
}

// twins reports whether the list sets a MAC address that is the same in another one.
func (n *Network) twins(other *libcni.NetworkConfigList) bool {
	for i, p := range n.first.Plugins {
		if mac := macOf(p.Bytes); mac != "" && mac == macOf(other.Plugins[i].Bytes) {
			return true
		}
	}
	return false
}

// macOf is the MAC address that a plugin sets; "" where it sets none.
func macOf(plugin []byte) string {
	conf, err := decode(plugin)
	if err != nil {
		return "" // the CNI library has read it
	}
	mac, _ := conf["mac"].(string)
	return mac
}

// flanneld is the file of flanneld's that the plugin flannel lacks; "" where it is there.
func flanneld(conf map[string]any) string {
	file, _ := conf["subnetFile"].(string)
	file = cmp.Or(file, "/run/flannel/subnet.env")
	if _, err := os.Stat(file); err == nil {
		return ""
	}
	return file
}

// keptOnHost says why pods of two hosts do not reach each other.
func (n *Network) keptOnHost() string {
	kind, conf := n.main()
	mode, _ := conf["mode"].(string)
	layer3 := kind == "ipvlan" && (mode == "l3" || mode == "l3s")
	switch {
	case n.fixed(n.other):
		return "its static gives pods of every host the same addresses: expected ${HOST} in them, the host's number"
	case kind == "macvlan" && n.twins(n.other):
		return "its key mac gives pods of every host the same MAC address: expected ${HOST} in it, or no mac"
	case n.list.Route == network.RouteNone && n.known() && (kind == "bridge" || kind == "ptp" || layer3):
		return fmt.Sprintf("its plugin %s makes no way to other hosts: ask for routes by cni:FILE?route=static or ?route=bgp", kind)
	case n.list.Route != network.RouteNone && kind == "bridge" && conf["isGateway"] != true &&
		conf["isDefaultGateway"] != true:
		return "its bridge has no address by which hosts could route: expected isGateway: true"
	default:
		return ""
	}
}

// routable returns an error for a list that hosts have no routes for.
func (n *Network) routable() error {
	switch kind, _ := n.main(); kind {
	case "macvlan", "vlan", "host-device":
		return fmt.Errorf("its plugin %s puts pods on the underlay itself, where hosts have no routes to them: leave route out", kind)
	}
	for _, p := range n.first.Plugins {
		if ipam := p.Network.IPAM.Type; ipam != "" && ipam != "host-local" && ipam != "static" {
			return fmt.Errorf("its addresses are given by %s: expected host-local or static, of which it is known which addresses a host has", ipam)
		}
	}
	if len(rangesOf(n.first)) == 0 {
		return errors.New("it has no ipam that names ranges of addresses: expected host-local or static")
	}
	if equalAddresses(n.first, n.other) { // hosts get ranges of their own
		return nil
	}
	for _, a := range rangesOf(n.first) {
		for _, b := range rangesOf(n.other) {
			if a.Overlaps(b) {
				return fmt.Errorf("hosts have overlapping ranges %v and %v: expected ${SUBNET}, a range of the host's own", a, b)
			}
		}
	}
	return nil
}

// families are those that pods get addresses of, as far as the list says.
func (n *Network) families() []int { return familiesOf(rangesOf(n.first)) }

// speaks are the families that are tried: those of the list, and both where its IPAM
// plugin knows alone.
func (n *Network) speaks() []int {
	if known := n.families(); len(known) > 0 {
		return known
	}
	return network.Both()
}

// takesDevice reports whether each pod takes a device of the host's.
func (n *Network) takesDevice() bool {
	kind, conf := n.main()
	return kind == "host-device" && conf["device"] != nil
}

// notes are what the result says of the list.
func (n *Network) notes() []string {
	var out []string
	for _, kind := range []string{"sbr", "vrf"} {
		if n.has(kind) {
			out = append(out, "pods have the routes that its plugin "+kind+
				" moves in the main table too, as workloads bind to no address and no VRF")
		}
	}
	if n.replace {
		out = append(out, "hosts have ranges of their own in place of the list's, as they are routed to")
	}
	if n.list.Route == network.RouteBGP && slices.Contains(n.families(), 6) {
		out = append(out, "BIRD announces the IPv4 ranges; the IPv6 ranges are routed by static routes")
	}
	return out
}
