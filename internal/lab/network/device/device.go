// Package device makes veth pairs, and of those a device of the host's for each
// pod, which the CNI plugin host-device moves into it. What the pair's other end
// is plugged into, and which addresses pods get, is the networks' own.
package device

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

// Needs is what devices for pods need of the machine.
func Needs() []network.Need {
	return []network.Need{network.NeedRoot(), network.NeedPlugin("host-device"), network.NeedPlugin("host-local"),
		network.NeedLink("veth", "CONFIG_VETH")}
}

// End is one end of a veth pair.
type End struct {
	Netns, Name string
	// Bridge is the Linux bridge there that the end is a port of; "" for none.
	Bridge string
}

// Pair makes a veth pair and sets its near end up; the far one is down until its
// owner has it. It has handles of its own, as it is called for several hosts at once.
func Pair(near, far End, mtu int) error {
	nl, err := netns.Netlink(near.Netns)
	if err != nil {
		return err
	}
	defer nl.Close()
	ns, err := netns.LinkFd(far.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = near.Name, mtu
	if near.Bridge != "" {
		br, err := nl.LinkByName(near.Bridge)
		if err != nil {
			return fmt.Errorf("find %s: %w", near.Bridge, err)
		}
		attrs.MasterIndex = br.Attrs().Index
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: far.Name, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(ns.Fd())}
	if err := nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("create %s: %w", far.Name, err)
	}
	if err := nl.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", near.Name, err)
	}
	return nil
}

// Supply numbers the devices of one network, on each host from 1.
type Supply struct {
	site network.Site
	made map[int]*int // by host index; pods of one host come one after the other
}

// NewSupply returns the network's, of which none is made.
func NewSupply(site network.Site) Supply {
	s := Supply{site, map[int]*int{}}
	for _, h := range site.Hosts {
		s.made[h.Index] = new(int)
	}
	return s
}

// Device is one that is to be a pod's.
type Device struct {
	Host   topo.Host
	Number int
	// Name is the device's while it is the host's. Those of the lab's other
	// networks have other ones.
	Name string
}

// Next returns the pod's device, which is still to be made.
func (s Supply) Next(pod topo.Pod) Device {
	i := slices.IndexFunc(s.site.Hosts, func(h topo.Host) bool { return h.Index == pod.Host })
	h := s.site.Hosts[i] // a pod is on a host of the site
	*s.made[h.Index]++
	n := *s.made[h.Index]
	return Device{h, n, fmt.Sprintf("nic%d-%d", s.site.Index, n)}
}

// Make makes the device with the other end of its veth pair, which goes when the
// pod's namespace does.
func (d Device) Make(other End, mtu int) error {
	return Pair(other, End{Netns: d.Host.Netns, Name: d.Name}, mtu)
}

// Conflist is the CNI configuration list of the pod that gets the device.
func (d Device) Conflist(network string, ipam conflist.Plugin) (json.RawMessage, error) {
	return conflist.List(network, conflist.Plugin{"type": "host-device", "device": d.Name, "ipam": ipam})
}
