// Package custom holds the network cni: whatever a user's own CNI configuration
// list builds, on every host of the lab.
package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bgp"
	"pathwise.dev/pathwise/internal/lab/network/device"
	"pathwise.dev/pathwise/internal/topo"
)

// Network is a user's CNI configuration list.
type Network struct {
	name string
	list network.List
	raw  []byte
	// first is the list as it is for a host's first pod, second for its second
	// one, and other for the first one of another host.
	first, second, other *libcni.NetworkConfigList
	// replace: hosts are routed to, and the list gives the same addresses on each:
	// they get ranges of their own.
	replace bool
}

// mostList bounds a list, in bytes.
const mostList = 1 << 20

// Read reads the file of a list.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read CNI configuration list: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostList+1))
	if err != nil {
		return nil, fmt.Errorf("read CNI configuration list: %w", err)
	}
	if len(raw) > mostList {
		return nil, fmt.Errorf("%s: more than %d bytes: not a CNI configuration list", path, mostList)
	}
	return raw, nil
}

// Load reads the configuration list; name is what results call it. A file with a
// single plugin's configuration is a list of one. A manifest gives the configuration of its
// NetworkAttachmentDefinition.
func Load(name string, l network.List) (*Network, error) {
	raw, err := Read(l.Path)
	if err != nil {
		return nil, err
	}
	switch conf, is, err := configuration(raw); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	case is:
		raw = conf
	}
	n := &Network{name: name, list: l, raw: raw}
	if err := n.look(); err != nil {
		return nil, err
	}
	if len(n.first.Plugins) == 0 {
		return nil, fmt.Errorf("%s: key plugins: expected at least one plugin", l.Path)
	}
	if err := utils.ValidateNetworkName(n.first.Name); err != nil {
		return nil, fmt.Errorf("%s: key name: %q: %s", l.Path, n.first.Name, err.Msg)
	}
	if l.Route == network.RouteNone {
		return n, nil
	}
	if err := n.routable(); err != nil {
		return nil, fmt.Errorf("%s: route=%s: %w", l.Path, l.Route, err)
	}
	n.replace = equalAddresses(n.first, n.other)
	return n, n.look()
}

// look reads the list as it is for pods and hosts, so that it can be told what
// differs between them.
func (n *Network) look() (err error) {
	for _, p := range []struct {
		list      **libcni.NetworkConfigList
		host, pod int
	}{{&n.first, 1, 1}, {&n.second, 1, 2}, {&n.other, 2, 1}} {
		if *p.list, err = n.probe(p.host, p.pod); err != nil {
			return err
		}
	}
	return nil
}

// probe reads the list as it would be for a pod of a host, both counted from 1.
func (n *Network) probe(host, pod int) (*libcni.NetworkConfigList, error) {
	hosts := make([]topo.Host, 2)
	for i := range hosts {
		pods, err := topo.HostPods(topo.DefaultPods(), topo.PodBits(1), i+1)
		if err != nil {
			return nil, err
		}
		addr, err := topo.UnderlayAddr(topo.DefaultUnderlay(), i+1)
		if err != nil {
			return nil, err
		}
		hosts[i] = topo.Host{Index: i + 1, Dev: topo.HostDev, Pods: pods, Addr: addr}
	}
	site := network.Site{MTU: topo.DefaultMTU, Dir: "/tmp", Pods: topo.DefaultPods(), Hosts: hosts}
	filled, err := n.fill(place{site: site, host: hosts[host-1], pod: pod, dev: fmt.Sprintf("dev%d", pod)})
	if err != nil {
		return nil, config.JSONError(n.list.Path, n.raw, err)
	}
	list, err := libcni.ConfListFromBytes(filled)
	if err != nil {
		return nil, fmt.Errorf("%s: not a CNI configuration list: %w", n.list.Path, err)
	}
	return list, nil
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	var types []string
	for _, p := range n.first.Plugins {
		types = append(types, p.Network.Type)
	}
	info := network.Info{
		Name: n.name, Family: "cni", Summary: "CNI configuration list " + n.list.Path + ": " + strings.Join(types, ", "),
		Needs: n.needs(), OneKernel: n.oneKernel(), Find: n.found(), Families: n.speaks(), Cannot: n.cannot(),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "as configured", InterHost: "as configured",
			Outside: "as configured", KeyValue: "as configured", Encryption: "as configured", Isolation: "as configured",
			OwnNamespace: true},
	}
	_, stays := info.Cannot[topo.OneHost]
	_, apart := info.Cannot[topo.TwoHosts]
	info.Row.ReachIntra, info.Row.ReachInter = !stays, !apart
	switch n.list.Route {
	case network.RouteStatic:
		info.Row.InterHost = "static routes of the hosts"
	case network.RouteBGP:
		info.Row.InterHost = "routes by BGP"
	}
	return info
}

// found names the file from wherever the catalogue is asked.
func (n *Network) found() string {
	l := n.list
	if path, err := filepath.Abs(l.Path); err == nil { // of a process without a working directory
		l.Path = path
	}
	return l.String()
}

// Build implements network.Network. Plugins of a user may keep state anywhere,
// so their pods are removed by CNI DEL.
func (n *Network) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Delete: true, Unbound: n.has("sbr") || n.has("vrf"), Notes: n.notes()}
	pods := device.NewSupply(site)
	plug.Conflist = func(_ context.Context, pod topo.Pod) (json.RawMessage, error) {
		d := pods.Next(pod)
		if n.takesDevice() {
			port := device.End{Netns: site.Underlay, Name: fmt.Sprintf("%s-%d-%d", d.Host.Name, site.Index, d.Number),
				Bridge: network.UnderlayBridge}
			if err := d.Make(port, site.MTU); err != nil {
				return nil, fmt.Errorf("make a device for pod %s: %w", pod.Name, err)
			}
		}
		list, err := n.fill(place{site: site, host: d.Host, pod: d.Number, dev: d.Name})
		if err != nil {
			return nil, fmt.Errorf("configure host %s: %s: %w", d.Host.Name, n.list.Path, err)
		}
		return list, nil
	}
	if n.list.Route == network.RouteNone {
		return plug, nil
	}
	plug.Crossing = network.Uplinks(site)
	hosts, err := n.ranges(site)
	if err != nil {
		return plug, err
	}
	if err := routes(site, hosts, n.list.Route == network.RouteStatic); err != nil {
		return plug, err
	}
	if n.list.Route == network.RouteBGP {
		plug.Ready, err = bgp.Announce(ctx, site, hosts)
	}
	return plug, err
}
