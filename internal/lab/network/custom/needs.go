package custom

import (
	"slices"

	"pathwise.dev/pathwise/internal/lab/network"
)

// needs is what the list needs of the machine.
func (n *Network) needs() []network.Need {
	out := []network.Need{network.NeedRoot()}
	add := func(need network.Need) {
		if !slices.Contains(out, need) {
			out = append(out, need)
		}
	}
	for _, p := range n.first.Plugins {
		for _, kind := range []string{p.Network.Type, p.Network.IPAM.Type} {
			if kind != "" {
				add(pluginNeed(kind))
			}
		}
		conf, err := decode(p.Bytes)
		if err != nil {
			continue // the CNI library has read it
		}
		for _, need := range kernelNeeds(p.Network.Type, conf) {
			add(need)
		}
	}
	if n.list.Route == network.RouteBGP {
		add(network.NeedProgram("bird", "bird2"))
	}
	return out
}

// pluginNeed needs a CNI plugin, one of the reference plugins or another.
func pluginNeed(kind string) network.Need {
	if slices.Contains(reference(), kind) || kind == "flannel" {
		return network.NeedPlugin(kind)
	}
	return network.Need{Kind: network.Plugin, Name: kind, From: "install the plugin into /opt/cni/bin"}
}

// kernelNeeds is what a reference plugin needs of the kernel.
func kernelNeeds(kind string, conf map[string]any) []network.Need {
	switch kind {
	case "ptp":
		return []network.Need{network.NeedLink("veth", "CONFIG_VETH")}
	case "bridge":
		needs := []network.Need{network.NeedLink("veth", "CONFIG_VETH"), network.NeedLink("bridge", "CONFIG_BRIDGE")}
		if conf["vlan"] != nil || conf["vlanTrunk"] != nil {
			needs = append(needs, vlanFiltering())
		}
		return needs
	case "macvlan":
		return []network.Need{network.NeedLink("macvlan", "CONFIG_MACVLAN")}
	case "ipvlan":
		return []network.Need{network.NeedLink("ipvlan", "CONFIG_IPVLAN")}
	case "vlan":
		return []network.Need{network.NeedLink("vlan", "CONFIG_VLAN_8021Q")}
	case "vrf":
		return []network.Need{vrf()}
	case "bandwidth":
		return []network.Need{ifb()}
	default:
		return nil
	}
}

// OfKernel lists what lists of reference plugins may need of a kernel.
func OfKernel() []network.Need {
	out := []network.Need{vlanFiltering(), vrf(), ifb()}
	for _, kind := range reference() {
		out = append(out, kernelNeeds(kind, nil)...)
	}
	return out
}

func vlanFiltering() network.Need {
	return network.NeedLink(network.VLANFiltering, "CONFIG_BRIDGE_VLAN_FILTERING")
}

func vrf() network.Need { return network.NeedLink("vrf", "CONFIG_NET_VRF") }

// ifb is what the plugin bandwidth has what a pod sends pass.
func ifb() network.Need { return network.NeedLink("ifb", "CONFIG_IFB") }
