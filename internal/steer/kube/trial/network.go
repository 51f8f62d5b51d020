package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/topo"
)

// Check returns an error for a name that can be no network of a cluster.
func Check(name string) error {
	if name == Default || name == Host {
		return nil
	}
	ns, short, ok := strings.Cut(name, "/")
	if !ok || !manifest.IsName(ns) || !manifest.IsName(short) {
		return fmt.Errorf("network %q: expected default, host, or a NetworkAttachmentDefinition as NAMESPACE/NAME", name)
	}
	return nil
}

// Network is one that a cluster has.
func Network(name string) (network.Network, error) { return there(name), Check(name) }

// there is a network that is there by itself.
type there string

// Info implements network.Network. What a cluster's network is made of is not known: its family
// is that of users' own lists.
func (n there) Info() network.Info {
	info := network.Info{Name: string(n), Family: "cni", Summary: "NetworkAttachmentDefinition " + string(n),
		Extra: pods}
	switch n {
	case Default:
		info.Summary = "the cluster's default network"
	case Host:
		info.Summary, info.Baseline = "the nodes' own network", true
	}
	return info
}

// pods is how long two of them take to be Ready, and to go.
const pods = 5 * time.Second

// Build implements network.Network.
func (n there) Build(context.Context, network.Site) (p network.Plug, err error) {
	return p, errors.New("build network " + string(n) + ": a cluster has it")
}

// Fits returns an error for what of an experiment cannot be had on a cluster's nodes.
func Fits(exp experiment.Experiment, find func(string) (workload.Workload, error)) error {
	for _, e := range exp.Entries {
		w, err := find(e.Find())
		if err != nil {
			return err
		}
		if e.Profile != "" {
			return fmt.Errorf("workload %s: profiles are files of this machine, which pods do not have", e.Workload)
		}
		for _, n := range w.Info().Needs {
			if n.Kind != network.Root {
				return fmt.Errorf("workload %s needs %s %s, which the image of the pods does not have: "+
					"expected those of Pathwise alone, such as tcp-bulk, tcp-rr, udp-rr, connect", e.Workload, n.Kind, n.Name)
			}
		}
		for _, s := range e.Scenarios {
			if plain := (topo.Scenario{Placement: s.Placement, Pairs: s.Pairs, MTU: topo.DefaultMTU}); s != plain ||
				s.Placement.Virtual() {
				return fmt.Errorf("workload %s, scenario %v: a cluster's nodes are measured as they are: expected one-host or "+
					"two-hosts, without mtu, cores, rmem, family, outside", e.Workload, s)
			}
		}
	}
	return nil
}
