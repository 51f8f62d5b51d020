package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
	"pathwise.dev/pathwise/internal/topo"
)

// node is this node's PathNode, as it is to be.
func node(version string, pods []own, refused []v1alpha1.Refusal) (v1alpha1.PathNodeSpec, v1alpha1.PathNodeStatus) {
	spec := v1alpha1.PathNodeSpec{Version: version}
	status := v1alpha1.PathNodeStatus{Refused: int32(len(refused)), Refusals: refused[:min(16, len(refused))]}
	for _, p := range pods {
		seen := v1alpha1.Pod{UID: p.UID, Name: p.Name, Sandbox: int64(p.inode), Agent: p.Agent, Need: p.Need, Pin: p.Pin,
			DryRun: p.DryRun}
		for _, y := range p.policies {
			seen.Policies = append(seen.Policies, y.Name)
		}
		for _, at := range p.Attachments {
			a := v1alpha1.Attachment{Network: at.Network, Device: at.Dev, MAC: at.MAC, MTU: int32(at.MTU),
				Addresses: []string{at.Addr.String()}, Barred: p.barred[at.Network]}
			if at.Addr6.IsValid() && at.Addr6 != at.Addr {
				a.Addresses = append(a.Addresses, at.Addr6.String())
			}
			seen.Attachments = append(seen.Attachments, a)
		}
		spec.Pods = append(spec.Pods, seen)
		if !p.Agent {
			status.Pods++
		}
	}
	return spec, status
}

// podOf is a pod that another node's agent has seen.
func podOf(p v1alpha1.Pod, host int) (topo.Pod, error) {
	out := topo.Pod{Name: p.Name, UID: p.UID, Host: host, Agent: p.Agent}
	if p.UID == "" {
		return out, errors.New("it has no UID")
	}
	for i, a := range p.Attachments {
		if a.Barred != "" {
			out.Barred = append(out.Barred, a.Network)
		}
		if (a.Network == sandbox.Default) != (i == 0) {
			return out, fmt.Errorf("attachment %d is on %q: expected the default network, and it alone, first", i+1, a.Network)
		}
		at := topo.Attachment{Network: a.Network, Dev: a.Device, MAC: a.MAC, MTU: int(a.MTU)}
		var addrs []netip.Addr
		for _, text := range a.Addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Zone() != "" {
				return out, fmt.Errorf("address %.80q on %s: expected one without a zone", text, a.Network)
			}
			addrs = append(addrs, addr)
		}
		if at.SetAddrs(addrs); !at.Addr.IsValid() {
			return out, fmt.Errorf("no address on %s", a.Network)
		}
		out.Attachments = append(out.Attachments, at)
	}
	if len(out.Attachments) == 0 {
		return out, errors.New("it is on no network")
	}
	return out, agent.CheckPod(out)
}

// hosts number nodes, and keep to it.
type hosts map[string]int

func (h hosts) index(node string) int {
	if h[node] == 0 {
		h[node] = len(h) + 1
	}
	return h[node]
}

// compose is what the agent of the node self is told. What another node's agent cannot have
// seen is left out, and told.
func compose(self string, numbers hosts, pods []own, nodes []*v1alpha1.PathNode,
	networks []*v1alpha1.PathNetwork) (c agent.Cluster, faults []error) {
	known := map[string]bool{sandbox.Default: true}
	for _, n := range networks {
		known[n.Spec.Attachment] = true
	}
	c.Equal, c.Encapsulated = allowed(networks), encapsulated(networks)
	c.Hosts = []topo.Host{{Index: numbers.index(self), Name: self}}
	claimed := map[string]int{} // by UID, how many say that they have it
	for _, p := range pods {
		p.Host = numbers.index(self)
		c.Pods = append(c.Pods, p.on(known))
		claimed[p.UID]++
	}
	var others []topo.Pod
	for _, n := range sorted(nodes) {
		if n.Name == self {
			continue
		}
		index := numbers.index(n.Name)
		c.Hosts = append(c.Hosts, topo.Host{Index: index, Name: n.Name})
		for _, seen := range n.Spec.Pods {
			p, err := podOf(seen, index)
			if err != nil {
				faults = append(faults, fmt.Errorf("PathNode %s, pod %.80q: %w", n.Name, seen.Name, err))
				continue
			}
			claimed[p.UID]++
			others = append(others, own{Pod: p}.on(known))
		}
	}
	for _, p := range others {
		if claimed[p.UID] == 1 { // a pod is on one node: nobody knows on which of several
			c.Pods = append(c.Pods, p)
		}
	}
	return c, faults
}

// on is the pod with those of its attachments that there is a PathNetwork for.
func (o own) on(known map[string]bool) topo.Pod {
	p := o.Pod
	unknown := func(a topo.Attachment) bool { return !known[a.Network] }
	p.Attachments = slices.DeleteFunc(slices.Clone(p.Attachments), unknown)
	return p
}

func sorted(nodes []*v1alpha1.PathNode) []*v1alpha1.PathNode {
	byName := func(a, b *v1alpha1.PathNode) int { return cmp.Compare(a.Name, b.Name) }
	return slices.SortedFunc(slices.Values(nodes), byName)
}

// allowed are the networks to which flows may go: of several PathNetworks of one all have to
// say so.
func allowed(networks []*v1alpha1.PathNetwork) []string {
	return where(networks, func(s v1alpha1.PathNetworkSpec) bool {
		return s.Steer != v1alpha1.SteerAllowed ||
			s.Policy != v1alpha1.PolicySameEnforcer && s.Policy != v1alpha1.PolicyDerived
	}, false)
}

// judge says of this node's pods what forbids to move their flows to the networks to which
// flows may go.
func judge(pods []own, labels map[string]map[string]string, networks []*v1alpha1.PathNetwork,
	known netpolicy.Known) []own {
	derived := where(networks, func(s v1alpha1.PathNetworkSpec) bool { return s.Policy == v1alpha1.PolicyDerived }, true)
	steered := allowed(networks)
	out := make([]own, 0, len(pods))
	for _, p := range pods {
		ns, _, _ := strings.Cut(p.Name, "/")
		p.barred, p.Barred = map[string]string{}, nil
		for _, at := range p.Attachments {
			if p.Agent || !slices.Contains(steered, at.Network) {
				continue
			}
			rule := netpolicy.SameEnforcer
			if slices.Contains(derived, at.Network) {
				rule = netpolicy.Derived
			}
			const most = 1024
			why := known.Barred(netpolicy.Pod{Namespace: ns, Labels: labels[p.UID]}, at.Network, rule)
			if why == "" && len(p.policies) > 0 {
				why = p.policies[0].Bars(at.Network)
			}
			if why != "" {
				p.barred[at.Network] = why[:min(most, len(why))]
				p.Barred = append(p.Barred, at.Network)
			}
		}
		out = append(out, p)
	}
	return out
}

// labelsOf are the pods' labels, by UID.
func labelsOf(pods []*corev1.Pod) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, p := range pods {
		out[string(p.UID)] = p.Labels
	}
	return out
}

// encapsulated are those of which any PathNetwork says that packets go in UDP.
func encapsulated(networks []*v1alpha1.PathNetwork) []string {
	always := func(s v1alpha1.PathNetworkSpec) bool { return s.Encapsulate == v1alpha1.EncapsulateAlways }
	return where(networks, always, true)
}

// where lists the attachments of which some PathNetwork is so, or of which none is.
func where(networks []*v1alpha1.PathNetwork, so func(v1alpha1.PathNetworkSpec) bool, some bool) []string {
	is := map[string]bool{}
	for _, n := range networks {
		is[n.Spec.Attachment] = is[n.Spec.Attachment] || so(n.Spec)
	}
	out := []string{}
	for name, yes := range is {
		if yes == some {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
