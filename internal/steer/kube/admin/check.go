package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/kube"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// Grade says how much a finding matters.
type Grade string

// The grades: all is well; something to know of; agents would not work there.
const (
	Well  Grade = "ok"
	Note  Grade = "note"
	Lacks Grade = "lacks"
)

// Finding is one thing that was looked at before agents are put on a cluster.
type Finding struct {
	// Of is a node, "cluster", or a network or pod.
	Of    string `json:"of"`
	Grade Grade  `json:"grade"`
	What  string `json:"what"`
}

// survey is what is looked at. What could not be read is in faults.
type survey struct {
	version  string // of the API server
	nodes    []corev1.Node
	networks []definition
	allowed  []v1alpha1.PathNetwork
	multus   bool
	// admission: the server knows ValidatingAdmissionPolicy.
	admission bool
	proxy     string // kube-proxy's mode, "" where that is not known
	// installed are the namespaces that have agents, and forbidden what the user may not make.
	installed, forbidden []string
	namespace            string
	pods                 []corev1.Pod
	// policies are the kinds of custom policies that there are.
	policies []string
	faults   []Finding
}

// definition is a NetworkAttachmentDefinition.
type definition struct{ name, config string }

// least are the versions from which on agents work: of the kernel, for its verifier (Linux 6.8); of
// Kubernetes, for tokens that name their node (1.32).
func least() (kernel, kubernetes [2]int) { return [2]int{6, 8}, [2]int{1, 32} }

// findings judges what was seen.
func (s survey) findings() []Finding {
	out := s.cluster()
	for _, n := range s.nodes {
		out = append(out, judgeNode(n)...)
	}
	for _, d := range s.networks {
		out = append(out, d.judge(len(s.nodes)))
	}
	out = append(append(out, s.judgeAllowed()...), s.judgePods()...)
	return append(out, s.faults...)
}

// judgeAllowed says which PathNetworks are of a network that there is not.
func (s survey) judgeAllowed() []Finding {
	var out []Finding
	for _, n := range s.allowed {
		named := func(d definition) bool { return d.name == n.Spec.Attachment }
		if !slices.ContainsFunc(s.networks, named) {
			out = append(out, Finding{n.Spec.Attachment, Note, fmt.Sprintf(
				"PathNetwork %s names it, and there is no such NetworkAttachmentDefinition: nothing is moved there", n.Name)})
		}
	}
	return out
}

func (s survey) cluster() []Finding {
	var out []Finding
	say := func(g Grade, format string, args ...any) {
		out = append(out, Finding{"cluster", g, fmt.Sprintf(format, args...)})
	}
	_, want := least()
	if v, ok := version(s.version); ok && older(v, want) {
		say(Lacks, "Kubernetes %s: agents need %d.%d, as the tokens of older ones do not name their node", s.version, want[0],
			want[1])
	} else if ok {
		say(Well, "Kubernetes %s", s.version)
	}
	switch {
	case !s.multus:
		say(Lacks, "no NetworkAttachmentDefinition is known there: install Multus, which attaches pods to several networks")
	case len(s.networks) == 0:
		say(Lacks, "Multus is there, but no NetworkAttachmentDefinition: pods are on one network")
	}
	if !s.admission {
		say(Lacks, "no ValidatingAdmissionPolicy is known there, which keeps agents to their own PathNode")
	}
	switch s.proxy {
	case "nftables":
		say(Well, "kube-proxy in nftables mode")
	case "":
		say(Note, "how Services are served is not known: agents have nodes forget the connections that they move, but not where a network plugin tracks them by itself (eBPF, a zone of Open vSwitch)")
	default:
		say(Well, "kube-proxy in %s mode: its rules drop packets of state INVALID, so agents have nodes forget the connections that they move",
			s.proxy)
	}
	for _, ns := range s.installed {
		if ns != s.namespace {
			say(Lacks, "agents are in namespace %s already: two installations steer the same pods", ns)
		}
	}
	if len(s.forbidden) > 0 {
		say(Lacks, "you may not make %s", strings.Join(s.forbidden, ", "))
	}
	if len(s.policies) > 0 {
		say(Note, "with policy Derived, these kinds keep the pods that they select home: NetworkPolicy, %s",
			strings.Join(s.policies, ", "))
	}
	return out
}

// judgeNode says what a node lacks.
func judgeNode(n corev1.Node) []Finding {
	var out []Finding
	say := func(g Grade, format string, args ...any) {
		out = append(out, Finding{n.Name, g, fmt.Sprintf(format, args...)})
	}
	i := n.Status.NodeInfo
	kernel, _ := least()
	runtime, _, _ := strings.Cut(i.ContainerRuntimeVersion, "://")
	switch {
	case n.Labels["type"] == "virtual-kubelet":
		say(Note, "a virtual node: its pods are left alone")
	case i.OperatingSystem != "linux":
		say(Note, "%s: its pods are left alone", i.OperatingSystem)
	default:
		if v, ok := version(i.KernelVersion); !ok || older(v, kernel) {
			say(Lacks, "Linux %s: agents need %d.%d", i.KernelVersion, kernel[0], kernel[1])
		}
		if i.Architecture != "amd64" && i.Architecture != "arm64" {
			say(Lacks, "%s: there is no image for it", i.Architecture)
		}
		if runtime != "containerd" && runtime != "cri-o" {
			say(Lacks, "%s: it is not known to keep the pods' namespaces in /run/netns", i.ContainerRuntimeVersion)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				say(Note, "it is not Ready: %s", c.Reason)
			}
		}
	}
	if out == nil {
		say(Well, "Linux %s, %s, %s", i.KernelVersion, i.Architecture, i.ContainerRuntimeVersion)
	}
	return out
}

// judge says of a network what would not work on it.
func (d definition) judge(nodes int) Finding {
	f := Finding{Of: d.name, Grade: Well}
	var c struct {
		Type    string `json:"type"`
		IPAM    ipam   `json:"ipam"`
		Plugins []struct {
			Type string `json:"type"`
			IPAM ipam   `json:"ipam"`
		} `json:"plugins"`
	}
	if d.config == "" {
		f.What = "each node has its own configuration of it, in a file"
		return f
	}
	if err := json.Unmarshal([]byte(d.config), &c); err != nil {
		f.Grade, f.What = Note, fmt.Sprintf("its configuration cannot be read: %v", err)
		return f
	}
	if len(c.Plugins) > 0 {
		c.Type, c.IPAM = c.Plugins[0].Type, c.Plugins[0].IPAM
	}
	switch {
	case c.IPAM.Type == "":
		f.Grade, f.What = Note, c.Type+" without addresses: no path leads over it"
	case c.IPAM.Type == "host-local" && nodes > 1:
		f.Grade, f.What = Note, c.Type+" with host-local, which gives out the same addresses on every node: pods that share one are refused. Take whereabouts, or a file per node"
	default:
		f.What = c.Type + ", addresses by " + c.IPAM.Type
	}
	return f
}

type ipam struct {
	Type string `json:"type"`
}

// judgePods counts the pods that could be steered, and says which would be refused.
func (s survey) judgePods() []Finding {
	several := 0
	var out []Finding
	for _, p := range s.pods {
		text, ok := p.Annotations[sandbox.Annotation]
		if !ok || p.Spec.HostNetwork {
			continue
		}
		all, err := sandbox.ParseStatus(text)
		if err == nil {
			err = kube.OwnKernel(&p)
		}
		if err != nil {
			out = append(out, Finding{p.Namespace + "/" + p.Name, Note, "it would be left alone: " + err.Error()})
			continue
		}
		if sandbox.Several(all) {
			several++
		}
	}
	return append(out, Finding{"cluster", Well, fmt.Sprintf("%d of %d pods are on several networks", several,
		len(s.pods))})
}

// version reads the first two numbers of a version.
func version(text string) (v [2]int, ok bool) {
	m := regexp.MustCompile(`^v?(\d+)\.(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // digits, and few
	}
	return v, true
}

func older(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }
