// Package hostdevice holds host-device: a network device of the host's for each
// pod, moved into it by the CNI plugin host-device. In the lab the device is one
// more uplink, a veth pair to the underlay's switch that is made for the pod; on
// a real host it is a card's, and there are as many as there are ports.
package hostdevice

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

// New returns the network.
func New() network.Network { return hostDevice{} }

type hostDevice struct{}

// Info implements network.Network.
func (hostDevice) Info() network.Info {
	return network.Info{
		Name: "host-device", Family: "host-device", Summary: "a device of the host's for each pod; in the lab, one more uplink",
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("host-device"), network.NeedPlugin("host-local"),
			network.NeedLink("veth", "CONFIG_VETH")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "the underlay's layer 2", InterHost: "the underlay's layer 2",
			Outside: "the underlay's layer 2", KeyValue: "no", Encryption: "no", Isolation: "moderate",
			ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true, OwnNamespace: true},
	}
}

// Build implements network.Network. Traffic between hosts passes no device that
// is there before the pods are.
func (n hostDevice) Build(_ context.Context, site network.Site) (network.Plug, error) {
	made := map[int]*int{} // devices made, by host index; pods of one host come one after the other
	for _, h := range site.Hosts {
		made[h.Index] = new(int)
	}
	perPod := func(_ context.Context, pod topo.Pod) (json.RawMessage, error) {
		h := site.Hosts[pod.Host-1]
		*made[h.Index]++
		dev, err := plugIn(site, h, *made[h.Index])
		if err != nil {
			return nil, fmt.Errorf("make a device for pod %s: %w", pod.Name, err)
		}
		return n.conflist(site, h, dev)
	}
	return network.Plug{Mode: network.ByCNI, Conflist: perPod}, nil
}

// conflist is the list of the pod that gets the device.
func (n hostDevice) conflist(site network.Site, h topo.Host, dev string) (json.RawMessage, error) {
	part, err := site.OnUnderlay(h)
	if err != nil {
		return nil, err
	}
	r := conflist.Within(h.Addr.Masked(), part)
	r.Gateway = site.Gateway.Addr()
	return conflist.List(n.Info().Name, conflist.Plugin{"type": "host-device", "device": dev,
		"ipam": conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, site.Beyond(netip.Prefix{}))})
}

// plugIn makes the host's device number n, plugged into the underlay's switch. It
// goes with the pod's namespace. It has handles of its own, as it is called for
// several hosts at once.
func plugIn(site network.Site, h topo.Host, n int) (string, error) {
	nl, err := netns.Netlink(site.Underlay)
	if err != nil {
		return "", err
	}
	defer nl.Close()
	host, err := netns.LinkFd(h.Netns)
	if err != nil {
		return "", err
	}
	defer host.Close()
	br, err := nl.LinkByName(network.UnderlayBridge)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", network.UnderlayBridge, err)
	}
	name := fmt.Sprintf("nic%d-%d", site.Index, n)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = fmt.Sprintf("%s-%d-%d", h.Name, site.Index, n), site.MTU, br.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerMTU: uint32(site.MTU), PeerNamespace: netlink.NsFd(host.Fd())}
	if err := nl.LinkAdd(veth); err != nil {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	if err := nl.LinkSetUp(veth); err != nil {
		return "", fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return name, nil
}
