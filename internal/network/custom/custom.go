// Package custom holds the network cni: whatever a user's own CNI configuration
// list builds, on every host of the lab.
package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

// Network is a user's CNI configuration list.
type Network struct {
	name string
	path string
	raw  []byte
	list *libcni.NetworkConfigList
	// oneKernel is Info.OneKernel.
	oneKernel string
}

// Load reads the configuration list in file path; name is what results call it.
// These words are replaced in it for each host, so that one file serves all:
// ${HOST} (the index, from 1), ${SUBNET} (the host's pod range), ${PODS} (the
// range of all pods), ${ADDR} (the host's address), ${DEV} (its uplink), ${MTU}
// and ${DIR} (a directory that goes with the lab).
func Load(name, path string) (*Network, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read CNI configuration list: %w", err)
	}
	n := &Network{name: name, path: path, raw: raw}
	if n.list, err = n.probe(1); err != nil {
		return nil, err
	}
	if len(n.list.Plugins) == 0 {
		return nil, fmt.Errorf("%s: key plugins: expected at least one plugin", path)
	}
	second, err := n.probe(2)
	if err != nil {
		return nil, err
	}
	n.oneKernel = oneKernel(n.list, second)
	return n, nil
}

// probe reads the list as it would be for a host of that index.
func (n *Network) probe(index int) (*libcni.NetworkConfigList, error) {
	pods, err := topo.HostPods(topo.DefaultPods(), index)
	if err != nil {
		return nil, err
	}
	addr, err := topo.UnderlayAddr(topo.DefaultUnderlay(), index)
	if err != nil {
		return nil, err
	}
	site := network.Site{MTU: topo.DefaultMTU, Dir: "/tmp", Pods: topo.DefaultPods()}
	filled, err := fill(n.raw, site, topo.Host{Index: index, Dev: "eth0", Pods: pods, Addr: addr})
	if err != nil {
		return nil, config.JSONError(n.path, n.raw, err)
	}
	list, err := libcni.ConfListFromBytes(filled)
	if err != nil {
		return nil, fmt.Errorf("%s: not a CNI configuration list: %w", n.path, err)
	}
	return list, nil
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	needs := []network.Need{network.NeedRoot()}
	var types []string
	for _, p := range n.list.Plugins {
		types = append(types, p.Network.Type)
		needs = append(needs, network.Need{Kind: network.Plugin, Name: p.Network.Type, From: "install the plugin"})
		if ipam := p.Network.IPAM.Type; ipam != "" {
			needs = append(needs, network.Need{Kind: network.Plugin, Name: ipam, From: "install the plugin"})
		}
	}
	return network.Info{
		Name: n.name, Family: "cni", Summary: "CNI configuration list " + n.path + ": " + strings.Join(types, ", "),
		Needs: needs, OneKernel: n.oneKernel, Find: n.found(),
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "as configured", InterHost: "as configured",
			Outside: "as configured", KeyValue: "as configured", Encryption: "as configured", Isolation: "as configured", OwnNamespace: true},
	}
}

// found names the file from wherever the catalogue is asked.
func (n *Network) found() string {
	path, err := filepath.Abs(n.path)
	if err != nil {
		path = n.path // of a process without a working directory
	}
	return "cni:" + path
}

// Build implements network.Network. Plugins of a user may keep state anywhere,
// so their pods are removed by CNI DEL.
func (n *Network) Build(_ context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}, Delete: true}
	for _, h := range site.Hosts {
		list, err := fill(n.raw, site, h)
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %s: %w", h.Name, n.path, err)
		}
		plug.Conflists[h.Index] = list
	}
	return plug, nil
}

// fill puts the host's values in and gives host-local a directory inside the
// lab, one for all hosts: the hosts of a real cluster would have one each and
// ranges that differ, here a list without ${SUBNET} must still give each pod
// an address of its own.
func fill(raw []byte, site network.Site, h topo.Host) ([]byte, error) {
	text := strings.NewReplacer(
		"${HOST}", strconv.Itoa(h.Index), "${SUBNET}", h.Pods.String(), "${PODS}", site.Pods.String(),
		"${ADDR}", h.Addr.Addr().String(), "${DEV}", h.Dev, "${MTU}", strconv.Itoa(site.MTU), "${DIR}", site.Dir,
	).Replace(string(raw))
	var list map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("not a CNI configuration list: %w", err)
	}
	plugins, _ := list["plugins"].([]any)
	for _, p := range plugins {
		plugin, _ := p.(map[string]any)
		ipam, _ := plugin["ipam"].(map[string]any)
		if ipam["type"] == "host-local" && ipam["dataDir"] == nil {
			ipam["dataDir"] = filepath.Join(site.Dir, "ipam")
		}
	}
	return json.Marshal(list)
}
