package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// seen is the PathNode of a node with these pods, as its agent writes it.
func seen(name string, pods ...*corev1.Pod) *v1alpha1.PathNode {
	f := finder{self: "uid-agent-" + name}
	var boxes []sandbox.Sandbox
	for last := range 20 {
		boxes = append(boxes, box(last))
	}
	found, refused := f.find(pods, boxes, time.Unix(1000, 0))
	n := &v1alpha1.PathNode{}
	n.Name = name
	n.Spec, n.Status = node("test", found, refused)
	return n
}

func network(name string, spec v1alpha1.PathNetworkSpec) *v1alpha1.PathNetwork {
	n := &v1alpha1.PathNetwork{Spec: spec}
	n.Name = name
	return n
}

// fast allows shop/fast.
func fast() *v1alpha1.PathNetwork {
	return network("fast", v1alpha1.PathNetworkSpec{Attachment: "shop/fast", Steer: v1alpha1.SteerAllowed,
		Policy: v1alpha1.PolicySameEnforcer, Encapsulate: v1alpha1.EncapsulateNever})
}

// ownPods are the pods of node n1.
func ownPods(pods ...*corev1.Pod) []own {
	f := finder{self: "uid-agent-n1"}
	found, _ := f.find(pods, []sandbox.Sandbox{box(4), box(9)}, time.Unix(1000, 0))
	return found
}

// TestCompose: what one node's agent writes is what the other's reads.
func TestCompose(t *testing.T) {
	own := ownPods(apiPod("a", 4), apiPod("agent-n1", 9))
	m := newComposer("n1")
	c, faults := m.composeAll(own, []*v1alpha1.PathNode{seen("n2", apiPod("z", 5), apiPod("agent-n2", 8)),
		seen("n1", apiPod("stale", 6))}, []*v1alpha1.PathNetwork{fast()})
	if len(faults) > 0 || len(c.Hosts) != 2 || c.Hosts[0].Name != "n1" || c.Hosts[1].Name != "n2" {
		t.Fatalf("%+v, %v", c.Hosts, faults)
	}
	var names []string
	for _, p := range c.Pods {
		names = append(names, p.Name)
		if len(p.Attachments) != 2 || p.Attachments[1].MTU != 9000 || (p.Netns != "") != (p.Host == 1) ||
			p.Agent != strings.Contains(p.Name, "agent") {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(names, []string{"shop/a", "shop/agent-n1", "shop/agent-n2", "shop/z"}) {
		t.Errorf("pods %v", names)
	}
	if !slices.Equal(c.Equal, []string{"shop/fast"}) || len(c.Encapsulated) != 0 {
		t.Errorf("equal %v, encapsulated %v", c.Equal, c.Encapsulated)
	}
	// A node that comes changes no other's number.
	c, _ = m.composeAll(own, []*v1alpha1.PathNode{seen("n0"), seen("n2", apiPod("z", 5))}, nil)
	if len(c.Hosts) != 3 || c.Hosts[1].Name != "n0" || c.Hosts[1].Index != 3 || c.Hosts[2].Index != 2 {
		t.Errorf("hosts %+v", c.Hosts)
	}
	for _, p := range c.Pods {
		if len(p.Attachments) != 1 || p.Attachments[0].Network != sandbox.Default {
			t.Errorf("without a PathNetwork: %+v", p)
		}
	}
}

// TestNetworks: flows go where every PathNetwork of a network says that they may.
func TestNetworks(t *testing.T) {
	for name, tc := range map[string]struct {
		change              func(*v1alpha1.PathNetworkSpec)
		equal, encapsulated bool
	}{
		"allowed":      {func(*v1alpha1.PathNetworkSpec) {}, true, false},
		"denied":       {func(s *v1alpha1.PathNetworkSpec) { s.Steer = v1alpha1.SteerDenied }, false, false},
		"unsaid":       {func(s *v1alpha1.PathNetworkSpec) { s.Steer = "" }, false, false},
		"derived":      {func(s *v1alpha1.PathNetworkSpec) { s.Policy = v1alpha1.PolicyDerived }, true, false},
		"unknown":      {func(s *v1alpha1.PathNetworkSpec) { s.Policy = "Later" }, false, false},
		"no policy":    {func(s *v1alpha1.PathNetworkSpec) { s.Policy = v1alpha1.PolicyNever }, false, false},
		"encapsulated": {func(s *v1alpha1.PathNetworkSpec) { s.Encapsulate = v1alpha1.EncapsulateAlways }, true, true},
	} {
		n := fast()
		n.Name = "other"
		tc.change(&n.Spec)
		for _, all := range [][]*v1alpha1.PathNetwork{{n}, {fast(), n}, {n, fast()}} {
			if len(allowed(all)) == 1 != tc.equal || len(encapsulated(all)) == 1 != tc.encapsulated {
				t.Errorf("%s, %d of them: allowed %v, encapsulated %v", name, len(all), allowed(all), encapsulated(all))
			}
		}
	}
}

// TestComposeRefuses: what another node says wrongly costs nobody else anything.
func TestComposeRefuses(t *testing.T) {
	own := ownPods(apiPod("a", 4), apiPod("agent-n1", 9))
	good := seen("n2", apiPod("z", 5))
	for name, change := range map[string]func(*v1alpha1.Pod){
		"UID with a slash":     func(p *v1alpha1.Pod) { p.UID = "../x" },
		"no UID":               func(p *v1alpha1.Pod) { p.UID = "" },
		"device with a slash":  func(p *v1alpha1.Pod) { p.Attachments[1].Device = "a/b" },
		"no attachment":        func(p *v1alpha1.Pod) { p.Attachments = nil },
		"no address":           func(p *v1alpha1.Pod) { p.Attachments[1].Addresses = nil },
		"address with a zone":  func(p *v1alpha1.Pod) { p.Attachments[1].Addresses = []string{"fe80::1%x"} },
		"no address at all":    func(p *v1alpha1.Pod) { p.Attachments[0].Addresses = []string{"<nil>"} },
		"no default network":   func(p *v1alpha1.Pod) { p.Attachments = p.Attachments[1:] },
		"the default twice":    func(p *v1alpha1.Pod) { p.Attachments[1].Network = sandbox.Default },
		"the default is later": func(p *v1alpha1.Pod) { slices.Reverse(p.Attachments) },
		"another's UID":        func(p *v1alpha1.Pod) { p.UID = "uid-a" },
		"a UID of a third":     func(p *v1alpha1.Pod) { p.UID = "uid-y" },
	} {
		bad := seen("n3", apiPod("x", 6))
		change(&bad.Spec.Pods[0])
		c, _ := composeFor("n1", own, []*v1alpha1.PathNode{good, bad, seen("n4", apiPod("y", 7))},
			[]*v1alpha1.PathNetwork{fast()})
		var names []string
		for _, p := range c.Pods {
			names = append(names, p.Name)
		}
		want := []string{"shop/a", "shop/agent-n1", "shop/z", "shop/y"}
		if name == "a UID of a third" { // nobody knows whose it is
			want = want[:3]
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: pods %v", name, names)
		}
	}
}

// TestNodeStatus: a node's agent counts what it leaves alone, and gives the first reasons.
func TestNodeStatus(t *testing.T) {
	var pods []*corev1.Pod
	for last := range 19 {
		p := apiPod("p"+string(rune('a'+last)), last)
		p.Annotations[sandbox.Annotation] = "{"
		pods = append(pods, p)
	}
	n := seen("n1", append(pods, apiPod("z", 19))...)
	if s := n.Status; s.Pods != 1 || s.Refused != 19 || len(s.Refusals) != 16 || s.Refusals[0].Pod != "shop/pa" {
		t.Errorf("%+v", s)
	}
}

// TestJudge: what this node's agent has judged of its pods is what the other's goes by.
func TestJudge(t *testing.T) {
	a, agent := apiPod("a", 4), apiPod("agent-n1", 9)
	a.Labels = map[string]string{"app": "a"}
	deny := netpolicy.Policy{Kind: "NetworkPolicy", Namespace: "shop", Name: "deny",
		Selects: netpolicy.Selector{{Key: "app", Operator: netpolicy.In, Values: []string{"a"}}}}
	other := fast()
	other.Spec.Policy = v1alpha1.PolicyDerived
	for name, tc := range map[string]struct {
		networks []*v1alpha1.PathNetwork
		policies []netpolicy.Policy
		barred   bool
	}{
		"derived, free":      {[]*v1alpha1.PathNetwork{other}, nil, false},
		"derived, selected":  {[]*v1alpha1.PathNetwork{other}, []netpolicy.Policy{deny}, true},
		"stated, selected":   {[]*v1alpha1.PathNetwork{fast()}, []netpolicy.Policy{deny}, false},
		"stated and derived": {[]*v1alpha1.PathNetwork{fast(), other}, []netpolicy.Policy{deny}, true},
		"not allowed anyway": {nil, []netpolicy.Policy{deny}, false},
	} {
		pods := judge(ownPods(a, agent), labelsOf([]*corev1.Pod{a, agent}), tc.networks,
			netpolicy.Known{Policies: tc.policies})
		if len(pods) != 2 || len(pods[0].Barred) == 1 != tc.barred || len(pods[1].Barred) != 0 {
			t.Errorf("%s: %+v", name, pods)
		}
		n := &v1alpha1.PathNode{}
		n.Name = "n1"
		n.Spec, n.Status = node("test", pods, nil)
		c, faults := composeFor("n2", nil, []*v1alpha1.PathNode{n}, []*v1alpha1.PathNetwork{fast()})
		if len(faults) > 0 || len(c.Pods) != 2 || slices.Contains(c.Pods[0].Barred, "shop/fast") != tc.barred ||
			(n.Spec.Pods[0].Attachments[1].Barred != "") != tc.barred {
			t.Errorf("%s, elsewhere: %+v, %v", name, c.Pods, faults)
		}
	}
}

// TestComposeAgain: what comes to the same cluster is the same memory, and what does not is seen.
func TestComposeAgain(t *testing.T) {
	m := newComposer("n1")
	pods := func(last ...int) []own { return ownPods(apiPod("a", last[0])) }
	nodes, networks := []*v1alpha1.PathNode{seen("n2", apiPod("z", 5))}, []*v1alpha1.PathNetwork{fast()}
	was, _ := m.composeAll(pods(4), nodes, networks)
	denied, other := fast(), seen("n2", apiPod("z", 5))
	denied.Spec.Steer, other.Status.Pods = v1alpha1.SteerDenied, 7
	barred := pods(4)
	barred[0].Barred = []string{"shop/fast"}
	for _, step := range []struct {
		name     string
		pods     []own
		nodes    []*v1alpha1.PathNode
		networks []*v1alpha1.PathNetwork
		same     bool
	}{
		{"nothing is other", pods(4), nodes, networks, true},
		{"a status is", pods(4), []*v1alpha1.PathNode{other}, []*v1alpha1.PathNetwork{fast()}, true},
		{"a pod is barred", barred, nodes, networks, false},
		{"a pod has gone elsewhere", barred, []*v1alpha1.PathNode{seen("n2")}, networks, false},
		{"one has come", barred, []*v1alpha1.PathNode{seen("n2", apiPod("z", 6))}, networks, false},
		{"a node has come", barred, append(nodes, seen("n3")), networks, false},
		{"a network is denied", barred, append(nodes, seen("n3")), []*v1alpha1.PathNetwork{denied}, false},
	} {
		c, _ := m.composeAll(step.pods, step.nodes, step.networks)
		if same := &c.Hosts[0] == &was.Hosts[0]; same != step.same {
			t.Errorf("%s: the same %v", step.name, same)
		}
		was = c
	}
}

// TestComposeUnpoliced: flows may begin elsewhere as long as there is no policy, and the first one
// makes another cluster of it.
func TestComposeUnpoliced(t *testing.T) {
	m := newComposer("n1")
	views, networks := []*view{viewed(seen("n2", apiPod("z", 5)))}, []*v1alpha1.PathNetwork{fast()}
	for _, known := range []netpolicy.Known{{}, {Policies: []netpolicy.Policy{{Kind: "NetworkPolicy"}}},
		{Unread: []netpolicy.Unread{{Kind: "CiliumNetworkPolicy"}}}, {}} {
		c, _ := m.compose(ownPods(apiPod("a", 4)), views, networks, known.None())
		if want := len(known.Policies)+len(known.Unread) == 0; c.OpenElsewhere != want {
			t.Errorf("%+v: flows may begin elsewhere: %v, expected %v", known, c.OpenElsewhere, want)
		}
	}
}

// composeAll composes of PathNodes as they are.
func (m *composer) composeAll(pods []own, nodes []*v1alpha1.PathNode, networks []*v1alpha1.PathNetwork) (agent.Cluster,
	[]error) {
	var views []*view
	for _, n := range nodes {
		views = append(views, viewed(n))
	}
	return m.compose(pods, views, networks, false)
}

// composeFor is what the agent of a node is told at first.
func composeFor(self string, pods []own, nodes []*v1alpha1.PathNode, networks []*v1alpha1.PathNetwork) (agent.Cluster,
	[]error) {
	m := newComposer(self)
	return m.composeAll(pods, nodes, networks)
}
