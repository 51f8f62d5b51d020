package kube

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
	"pathwise.dev/pathwise/internal/topo"
)

// What an object may hold of a text, in bytes: the API server refuses one with more as a whole.
const (
	mostVersion = 128
	mostReason  = 1024
)

// node is this node's PathNode, as it is to be.
func node(version string, pods []own, refused []v1alpha1.Refusal) (v1alpha1.PathNodeSpec, v1alpha1.PathNodeStatus) {
	spec := v1alpha1.PathNodeSpec{Version: cut(version, mostVersion)}
	status := v1alpha1.PathNodeStatus{Refused: int32(len(refused)),
		Refusals: slices.Clone(refused[:min(16, len(refused))])}
	for i := range status.Refusals {
		status.Refusals[i].Reason = cut(status.Refusals[i].Reason, mostReason)
	}
	for _, p := range pods {
		seen := v1alpha1.Pod{UID: p.UID, Name: p.Name, Sandbox: int64(p.inode), Agent: p.Agent, Need: p.Need, Pin: p.Pin,
			DryRun: p.DryRun}
		for _, y := range p.policies {
			seen.Policies = append(seen.Policies, y.Name)
		}
		for _, at := range p.Attachments {
			a := v1alpha1.Attachment{Network: at.Network, Device: at.Dev, MAC: at.MAC, MTU: int32(at.MTU),
				Addresses: []string{at.Addr.String()}, Barred: cut(p.barred[at.Network], mostReason)}
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

// hosts number nodes, and keep to it.
type hosts map[string]int

func (h hosts) index(node string) int {
	if h[node] == 0 {
		h[node] = len(h) + 1
	}
	return h[node]
}

// composer makes what the agent of the node self is told. It keeps room between times.
type composer struct {
	self    string
	numbers hosts
	claimed map[string]int // by UID, how many say that they have it
	several int            // UIDs that more than one does
	counted map[string]*view
	// What was composed last, of these.
	of     composed
	latest agent.Cluster
	faults []error
}

// composed is what a cluster is made of.
type composed struct {
	pods      []own
	nodes     []*view // by name
	networks  []*v1alpha1.PathNetwork
	unpoliced bool // there is no policy of any kind
}

// equal reports whether both come to the same cluster. Objects that are the same memory are not
// looked into: of a large cluster that would take longer than to compose it.
func (a composed) equal(b composed) bool {
	return slices.EqualFunc(a.nodes, b.nodes, func(x, y *view) bool {
		return x == y || x.Name == y.Name && x.alike(y)
	}) && slices.EqualFunc(a.networks, b.networks, func(x, y *v1alpha1.PathNetwork) bool {
		return x == y || x.Spec == y.Spec
	}) && reflect.DeepEqual(a.pods, b.pods) && a.unpoliced == b.unpoliced
}

// alike reports whether the views are of the same pods. The texts of nearly all are the same.
func (v *view) alike(w *view) bool {
	if len(v.pods) != len(w.pods) || !reflect.DeepEqual(v.faults, w.faults) {
		return false
	}
	for i := range v.pods {
		if v.marks[i] != w.marks[i] && !alike(v.pods[i], w.pods[i]) {
			return false
		}
	}
	return true
}

// alike reports whether pods are the same but for their host, which is not known of one that was just read.
func alike(a, b topo.Pod) bool {
	a.Host = b.Host
	return reflect.DeepEqual(a, b)
}

func newComposer(self string) composer {
	c := composer{self: self, numbers: hosts{}, claimed: map[string]int{}, counted: map[string]*view{}}
	c.numbers.index(self)
	return c
}

// compose makes it: the same memory as the last time where it is the same. What another node's
// agent cannot have seen is left out, and told.
func (m *composer) compose(pods []own, nodes []*view, networks []*v1alpha1.PathNetwork,
	unpoliced bool) (agent.Cluster, []error) {
	nodes = slices.DeleteFunc(sorted(nodes), func(n *view) bool { return n.Name == m.self })
	networks = slices.SortedFunc(slices.Values(networks), func(a, b *v1alpha1.PathNetwork) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if now := (composed{pods, nodes, networks, unpoliced}); m.latest.Hosts == nil || !m.of.equal(now) {
		m.of = now
		m.latest, m.faults = m.fresh(now)
	}
	return m.latest, m.faults
}

// fresh composes what there is now.
func (m *composer) fresh(now composed) (c agent.Cluster, faults []error) {
	pods, nodes, networks := now.pods, now.nodes, now.networks
	known := map[string]bool{sandbox.Default: true}
	for _, n := range networks {
		known[n.Spec.Attachment] = true
	}
	c.Equal, c.Encapsulated = allowed(networks), encapsulated(networks)
	// What no policy selects may begin on any network: the default one refuses nothing.
	c.OpenElsewhere = now.unpoliced
	c.Hosts = append(make([]topo.Host, 0, 1+len(nodes)), topo.Host{Index: m.numbers.index(m.self), Name: m.self})
	c.Pods = make([]topo.Pod, 0, m.claim(pods, nodes))
	for _, p := range pods {
		p.Host = m.numbers.index(m.self)
		c.Pods = append(c.Pods, on(p.Pod, known))
	}
	for _, n := range nodes {
		index := m.numbers.index(n.Name)
		c.Hosts = append(c.Hosts, topo.Host{Index: index, Name: n.Name})
		faults = append(faults, n.faults...)
		whole := !slices.ContainsFunc(n.networks, func(name string) bool { return !known[name] })
		if p := len(c.Pods); whole && m.several == 0 {
			c.Pods = append(c.Pods, n.pods...)
			for i := range c.Pods[p:] {
				c.Pods[p+i].Host = index
			}
			n.move(c.Pods[p:len(c.Pods):len(c.Pods)]) // one memory for both: of a large cluster it is most
			continue
		}
		for _, p := range n.pods {
			if m.several == 0 || m.claimed[p.UID] == 1 { // a pod is on one node: nobody knows on which of several
				p.Host = index
				c.Pods = append(c.Pods, on(p, known))
			}
		}
	}
	return c, faults
}

// claim counts who says that they have which pod, and returns of how many pods that is said. What
// is as it was is not counted again: that would take most of the time in a large cluster.
func (m *composer) claim(pods []own, nodes []*view) (total int) {
	mine := &view{}
	mine.Name = m.self
	for _, p := range pods {
		mine.pods = append(mine.pods, p.Pod)
	}
	now := make(map[string]bool, 1+len(nodes))
	for _, n := range append([]*view{mine}, nodes...) {
		total, now[n.Name] = total+len(n.pods), true
		if m.counted[n.Name] != n {
			m.count(m.counted[n.Name], -1)
			m.count(n, 1)
			m.counted[n.Name] = n
		}
	}
	for name, n := range m.counted {
		if !now[name] {
			m.count(n, -1)
			delete(m.counted, name)
		}
	}
	return total
}

// count adds a node's claims, or takes them away.
func (m *composer) count(n *view, by int) {
	if n == nil {
		return
	}
	for _, p := range n.pods {
		was := m.claimed[p.UID]
		is := was + by
		if m.claimed[p.UID] = is; is == 0 {
			delete(m.claimed, p.UID)
		}
		switch {
		case was < 2 && is > 1:
			m.several++
		case was > 1 && is < 2:
			m.several--
		}
	}
}

// on is the pod with those of its attachments that there is a PathNetwork for.
func on(p topo.Pod, known map[string]bool) topo.Pod {
	unknown := func(a topo.Attachment) bool { return !known[a.Network] }
	if slices.ContainsFunc(p.Attachments, unknown) {
		p.Attachments = slices.DeleteFunc(slices.Clone(p.Attachments), unknown)
	}
	return p
}

func sorted(nodes []*view) []*view {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *view) int { return cmp.Compare(a.Name, b.Name) })
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
			why := known.Barred(netpolicy.Pod{Namespace: ns, Labels: labels[p.UID]}, at.Network, rule)
			if why == "" && len(p.policies) > 0 {
				why = p.policies[0].Bars(at.Network)
			}
			if why != "" {
				p.barred[at.Network] = why
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

// cut is the beginning of a text that is too long.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
