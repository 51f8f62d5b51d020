package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/kube"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// Verdict says of one network whether a pair's flows may be moved there.
type Verdict struct {
	Network  string `json:"network"`
	Eligible bool   `json:"eligible"`
	// Rule forbids it; "" where none does.
	Rule string `json:"rule,omitempty"`
	// MTU of the path, 0 where there is none.
	MTU int32 `json:"mtu,omitempty"`
	// State and Why are as the agent of the first pod has them, "" without traffic.
	State string `json:"state,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Explanation says of every network of two pods what may be moved there, and what forbids it.
type Explanation struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Nodes [2]string `json:"nodes"`
	// Rule forbids all networks but the default one; "" where none does.
	Rule string `json:"rule,omitempty"`
	// Policies say what the agents of the nodes go by for each pod, where a PathPolicy selects it.
	Policies []Policy  `json:"policies,omitempty"`
	Networks []Verdict `json:"networks"`
}

// Policy is the PathPolicy that holds for a pod.
type Policy struct {
	Pod string `json:"pod"`
	// Name as NAMESPACE/NAME; Overridden are those that select the pod too, and do not hold.
	Name       string   `json:"name"`
	Overridden []string `json:"overridden,omitempty"`
	// Need, Pin and DryRun are what the agent goes by for the flows that the pod has opened.
	Need   string `json:"need,omitempty"`
	Pin    string `json:"pin,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// String is a sentence for people.
func (p Policy) String() string {
	text := fmt.Sprintf("pod %s: PathPolicy %s holds", p.Pod, p.Name)
	if len(p.Overridden) > 0 {
		text += ", not the younger " + strings.Join(p.Overridden, ", ")
	}
	var says []string
	if p.Need != "" {
		says = append(says, "need "+p.Need)
	}
	if p.Pin != "" {
		says = append(says, "pinned to "+p.Pin)
	}
	if p.DryRun {
		says = append(says, "a dry run, nothing is moved")
	}
	if len(says) > 0 {
		text += "; of flows that it opens: " + strings.Join(says, ", ")
	}
	return text
}

// policyOf is the policy that holds for a pod, as its node's agent has written.
func policyOf(p v1alpha1.Pod) (Policy, bool) {
	if len(p.Policies) == 0 {
		return Policy{}, false
	}
	ns, _, _ := strings.Cut(p.Name, "/")
	out := Policy{Pod: p.Name, Name: ns + "/" + p.Policies[0], Need: p.Need, Pin: p.Pin, DryRun: p.DryRun}
	for _, name := range p.Policies[1:] {
		out.Overridden = append(out.Overridden, ns+"/"+name)
	}
	return out, true
}

// scene is what an explanation is made of.
type scene struct {
	pods     [2]*corev1.Pod
	nodes    []v1alpha1.PathNode
	networks []v1alpha1.PathNetwork
	agents   []Agent
}

// Why explains what the cluster says of two pods. What their agents see of traffic is not in it.
func (c *Cluster) Why(ctx context.Context, from, to string) (Explanation, error) {
	var s scene
	var err error
	for i, name := range []string{from, to} {
		if s.pods[i], err = c.pod(ctx, name); err != nil {
			return Explanation{}, err
		}
	}
	if s.nodes, err = c.Nodes(ctx); err != nil {
		return Explanation{}, err
	}
	if s.networks, err = c.Networks(ctx); err != nil {
		return Explanation{}, err
	}
	if s.agents, err = c.Agents(ctx); err != nil {
		return Explanation{}, err
	}
	return s.explain(), nil
}

// explain is the explanation that the objects come to.
func (s scene) explain() Explanation {
	name := func(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
	out := Explanation{From: name(s.pods[0]), To: name(s.pods[1]),
		Nodes: [2]string{s.pods[0].Spec.NodeName, s.pods[1].Spec.NodeName}}
	var seen [2]v1alpha1.Pod
	for i, p := range s.pods {
		var rule string
		if seen[i], rule = s.seen(p); rule != "" && out.Rule == "" {
			out.Rule = rule
		}
	}
	if out.Rule == "" && out.Nodes[0] == out.Nodes[1] {
		out.Rule = fmt.Sprintf("both pods are on node %s: pods of one node stay on the default network", out.Nodes[0])
	}
	for _, p := range seen {
		if y, ok := policyOf(p); ok {
			out.Policies = append(out.Policies, y)
		}
	}
	for _, network := range networksOf(seen) {
		out.Networks = append(out.Networks, s.verdict(network, seen, out))
	}
	if len(out.Networks) == 0 {
		out.Networks = []Verdict{{Network: sandbox.Default, Eligible: true}}
	}
	return out
}

// networksOf are those that either pod is on, the default one first.
func networksOf(pods [2]v1alpha1.Pod) []string {
	var out []string
	for _, p := range pods {
		for _, a := range p.Attachments {
			if a.Network != sandbox.Default && !slices.Contains(out, a.Network) {
				out = append(out, a.Network)
			}
		}
	}
	slices.Sort(out)
	return append([]string{sandbox.Default}, out...)
}

// seen is the pod as its node's agent has found it, or why it has not.
func (s scene) seen(p *corev1.Pod) (v1alpha1.Pod, string) {
	name, node := p.Namespace+"/"+p.Name, p.Spec.NodeName
	_, attached := p.Annotations[sandbox.Annotation]
	switch {
	case node == "":
		return v1alpha1.Pod{}, fmt.Sprintf("pod %s is on no node yet", name)
	case p.Spec.HostNetwork:
		return v1alpha1.Pod{}, fmt.Sprintf("pod %s has the host's network (hostNetwork)", name)
	case p.Annotations[kube.SteerAnnotation] == "false":
		return v1alpha1.Pod{}, fmt.Sprintf("pod %s has the annotation %s: \"false\"", name, kube.SteerAnnotation)
	case !attached:
		return v1alpha1.Pod{}, fmt.Sprintf("pod %s is on the default network alone: it has no annotation %s", name,
			sandbox.Annotation)
	}
	i := slices.IndexFunc(s.agents, func(a Agent) bool { return a.Node == node })
	if i < 0 {
		return v1alpha1.Pod{}, fmt.Sprintf("node %s, of pod %s, has no agent", node, name)
	} else if !s.agents[i].Ready {
		return v1alpha1.Pod{}, fmt.Sprintf("the agent of node %s, of pod %s, is not ready: %s", node, name, s.agents[i].Why)
	}
	n := slices.IndexFunc(s.nodes, func(n v1alpha1.PathNode) bool { return n.Name == node })
	if n < 0 {
		return v1alpha1.Pod{}, fmt.Sprintf("the agent of node %s, of pod %s, has written of no pod yet", node, name)
	}
	for _, seen := range s.nodes[n].Spec.Pods {
		if seen.UID == string(p.UID) {
			return seen, ""
		}
	}
	for _, r := range s.nodes[n].Status.Refusals {
		if r.Pod == name {
			return v1alpha1.Pod{}, r.Reason
		}
	}
	if all, err := sandbox.ParseStatus(p.Annotations[sandbox.Annotation]); err == nil && !sandbox.Several(all) {
		return v1alpha1.Pod{}, fmt.Sprintf("pod %s is on the default network alone: %s names no other", name,
			sandbox.Annotation)
	}
	return v1alpha1.Pod{}, fmt.Sprintf("the agent of node %s has not found pod %s yet", node, name)
}

// verdict judges one network of the pair, rule by rule.
func (s scene) verdict(network string, seen [2]v1alpha1.Pod, of Explanation) Verdict {
	v := Verdict{Network: network}
	names := []string{of.From, of.To}
	var at [2]*v1alpha1.Attachment
	for i := range seen {
		for n, a := range seen[i].Attachments {
			if a.Network == network {
				at[i] = &seen[i].Attachments[n]
			}
		}
	}
	if at[0] != nil && at[1] != nil {
		v.MTU = min(at[0].MTU, at[1].MTU)
	}
	if network == sandbox.Default {
		v.Eligible = true
		return v
	}
	v.Rule = of.Rule
	for i, a := range at {
		if v.Rule == "" && a == nil {
			v.Rule = fmt.Sprintf("pod %s is not on it", names[i])
		}
	}
	if v.Rule == "" {
		v.Rule = s.allowed(network)
	}
	for i, a := range at {
		if v.Rule == "" && a.Barred != "" {
			v.Rule = fmt.Sprintf("pod %s: %s", names[i], a.Barred)
		}
	}
	for i, p := range seen {
		if v.Rule == "" && !first(p, network) {
			v.Rule = fmt.Sprintf("pod %s is on more than %d further networks: agents use the first ones by name", names[i],
				dataplane.MaxPaths-1)
		}
	}
	for _, node := range of.Nodes {
		if v.Rule == "" && !s.probed(node, network) {
			v.Rule = fmt.Sprintf("the agent of node %s is not on it, and so cannot probe it: name it to \"pathwise kube install --network\"", node)
		}
	}
	v.Eligible = v.Rule == ""
	return v
}

// allowed is the rule of a PathNetwork that forbids to move flows to the network: all that name
// it have to allow it.
func (s scene) allowed(network string) string {
	named := false
	for _, n := range s.networks {
		if n.Spec.Attachment != network {
			continue
		}
		named = true
		switch {
		case n.Spec.Steer != v1alpha1.SteerAllowed:
			return fmt.Sprintf("PathNetwork %s says steer: %s", n.Name, n.Spec.Steer)
		case n.Spec.Policy == v1alpha1.PolicyNever:
			return fmt.Sprintf("PathNetwork %s says policy: Never: it is not known that it refuses what the default network refuses",
				n.Name)
		}
	}
	if !named {
		return "no PathNetwork names it: nothing is moved there without one"
	}
	return ""
}

// first reports whether the network is among those of a pod that agents have room for.
func first(p v1alpha1.Pod, network string) bool {
	var further []string
	for _, a := range p.Attachments {
		if a.Network != sandbox.Default {
			further = append(further, a.Network)
		}
	}
	slices.SortFunc(further, strings.Compare)
	return slices.Index(further, network) < dataplane.MaxPaths-1
}

// probed reports whether the agent of the node is on the network itself.
func (s scene) probed(node, network string) bool {
	for _, n := range s.nodes {
		for _, p := range n.Spec.Pods {
			if n.Name == node && p.Agent &&
				slices.ContainsFunc(p.Attachments, func(a v1alpha1.Attachment) bool { return a.Network == network }) {
				return true
			}
		}
	}
	return false
}
