// Package sriov holds sriov: a virtual function of a network card for each pod
// (PCI-SIG, Single Root I/O Virtualization), by the CNI plugin sriov, which is not
// among the reference plugins and is the user's to install. Virtual functions are
// the card's, and how many there are is the administrator's choice: the package
// hands out those that are there and free, and changes nothing about the card.
//
// A card belongs to the machine, not to a host of the lab, so hosts take turns
// with the machine's cards and are otherwise of no interest: pods are on the
// cards' wire, and not on the lab's underlay.
package sriov

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

// sysfs shows the devices of the namespace in which it was mounted: the machine's.
const sysfs = "/sys"

// New returns the network.
func New() network.Network { return sriov{} }

type sriov struct{}

// Info implements network.Network.
func (sriov) Info() network.Info {
	return network.Info{
		Name: "sriov", Family: "sriov", Summary: "a virtual function of a network card for each pod",
		OneKernel: "virtual functions are not handed through to the lab's virtual machines",
		Needs: []network.Need{network.NeedRoot(),
			network.NeedHardware(network.SRIOV, "a network card with SR-IOV virtual functions, such as a Mellanox ConnectX-5 or an Intel X710, "+
				"switched on in the firmware: /sys/class/net/DEV/device/sriov_totalvfs above 0"),
			{Kind: network.Plugin, Name: "sriov", From: "install the plugin, https://github.com/k8snetworkplumbingwg/sriov-cni"},
			network.NeedPlugin("host-local")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "the card's switch",
			InterHost: "the layer 2 between the cards", Outside: "the layer 2 between the cards", KeyValue: "no",
			Encryption: "no", Isolation: "moderate", ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
}

// Build implements network.Network.
func (s sriov) Build(_ context.Context, site network.Site) (network.Plug, error) {
	cards := network.PhysicalFunctions(sysfs)
	if len(cards) == 0 {
		return network.Plug{}, errors.New("no network card with SR-IOV virtual functions")
	}
	p := &pool{sys: sysfs, taken: map[string]bool{}}
	perPod := func(_ context.Context, pod topo.Pod) (json.RawMessage, error) {
		h := site.Hosts[pod.Host-1]
		function, err := p.take(cards[(h.Index-1)%len(cards)])
		if err != nil {
			return nil, fmt.Errorf("find a virtual function for pod %s: %w", pod.Name, err)
		}
		return conflist.List(s.Info().Name, conflist.Plugin{"type": "sriov", "deviceID": function,
			"ipam": conflist.HostLocal(filepath.Join(site.Dir, h.Name), conflist.Within(site.Pods, h.Pods), netip.Prefix{})})
	}
	// The plugin sets a function's address and VLAN back when the pod goes.
	return network.Plug{Mode: network.ByCNI, Conflist: perPod, OnMachine: true, Delete: true}, nil
}

// pool hands out virtual functions, each once.
type pool struct {
	sys   string
	mu    sync.Mutex // pods of different hosts are attached side by side
	taken map[string]bool
}

// take returns the PCI address of a function of the card whose device is in the
// machine's own namespace, and so no pod's.
func (p *pool) take(card string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	links, err := filepath.Glob(filepath.Join(p.sys, "class/net", card, "device/virtfn*"))
	if err != nil {
		return "", fmt.Errorf("list virtual functions of %s: %w", card, err)
	}
	slices.Sort(links)
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // it has just gone
		}
		address := filepath.Base(target)
		devices, err := os.ReadDir(filepath.Join(link, "net"))
		if err != nil || len(devices) == 0 || p.taken[address] {
			continue
		}
		p.taken[address] = true
		return address, nil
	}
	return "", fmt.Errorf("none of %d of %s is free: more are made by %q", len(links), card,
		strings.Join([]string{"echo N >", filepath.Join(p.sys, "class/net", card, "device/sriov_numvfs")}, " "))
}
