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

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/topo"
)

// New returns the network.
func New() network.Network { return hostDevice{} }

type hostDevice struct{}

// Info implements network.Network.
func (hostDevice) Info() network.Info {
	return network.Info{
		Name: "host-device", Family: "host-device", Summary: "a device of the host's for each pod; in the lab, one more uplink",
		Needs:     device.Needs(),
		Families:  network.Both(),
		OneKernel: "its pods have interfaces of their own on the underlay, and a virtual machine has one",
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "the underlay's layer 2",
			InterHost: "the underlay's layer 2", Outside: "the underlay's layer 2", KeyValue: "no", Encryption: "no",
			Isolation: "moderate", ReachIntra: true, ReachInter: true, ReachOwnHost: true, ReachOutside: true,
			OwnNamespace: true},
	}
}

// Build implements network.Network. Traffic between hosts passes no device that
// is there before the pods are.
func (n hostDevice) Build(_ context.Context, site network.Site) (network.Plug, error) {
	supply := device.NewSupply(site)
	perPod := func(_ context.Context, pod topo.Pod) (json.RawMessage, error) {
		d := supply.Next(pod)
		port := device.End{Netns: site.Underlay, Name: fmt.Sprintf("%s-%d-%d", d.Host.Name, site.Index, d.Number),
			Bridge: network.UnderlayBridge}
		if err := d.Make(port, site.MTU); err != nil {
			return nil, fmt.Errorf("make a device for pod %s: %w", pod.Name, err)
		}
		part, err := site.OnUnderlay(d.Host)
		if err != nil {
			return nil, err
		}
		r := conflist.Within(d.Host.Addr.Masked(), part)
		r.Gateway, r.IPv6 = site.Gateway.Addr(), site.IPv6
		return d.Conflist(n.Info().Name,
			conflist.HostLocal(filepath.Join(site.Dir, d.Host.Name), r, site.Beyond(netip.Prefix{})))
	}
	return network.Plug{Mode: network.ByCNI, Conflist: perPod}, nil
}
