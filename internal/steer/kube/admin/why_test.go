package admin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// twoPods are on the default network and on shop/fast, on two nodes whose agents are on it too.
func twoPods() scene {
	s := scene{}
	for i, name := range []string{"a", "b"} {
		node := "n" + string(rune('1'+i))
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Spec.NodeName = "shop", name, types.UID("uid-"+name), node
		p.Annotations = map[string]string{sandbox.Annotation: "[]"}
		s.pods[i] = p
		s.agents = append(s.agents, Agent{Node: node, Ready: true})
		n := v1alpha1.PathNode{}
		n.Name = node
		for _, pod := range []v1alpha1.Pod{{UID: "uid-agent", Name: "pathwise/agent", Agent: true}, {UID: "uid-" + name,
			Name: "shop/" + name}} {
			pod.Attachments = []v1alpha1.Attachment{{Network: "default", MTU: 1500}, {Network: "shop/fast", MTU: 1450}}
			n.Spec.Pods = append(n.Spec.Pods, pod)
		}
		s.nodes = append(s.nodes, n)
	}
	s.networks = []v1alpha1.PathNetwork{{Spec: v1alpha1.PathNetworkSpec{Attachment: "shop/fast",
		Steer: v1alpha1.SteerAllowed, Policy: v1alpha1.PolicySameEnforcer}}}
	s.networks[0].Name = "fast"
	return s
}

func TestWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		want   string // the rule of shop/fast, or where there is no such network of the pair
	}{
		"eligible":       {func(*scene) {}, ""},
		"no PathNetwork": {func(s *scene) { s.networks = nil }, "no PathNetwork names it"},
		"denied": {func(s *scene) { s.networks[0].Spec.Steer = v1alpha1.SteerDenied },
			"PathNetwork fast says steer: Denied"},
		"never": {func(s *scene) { s.networks[0].Spec.Policy = v1alpha1.PolicyNever },
			"PathNetwork fast says policy: Never"},
		"one of two denies": {func(s *scene) {
			n := s.networks[0]
			n.Name, n.Spec.Steer = "other", v1alpha1.SteerDenied
			s.networks = append(s.networks, n)
		}, "PathNetwork other says steer: Denied"},
		"barred": {func(s *scene) { s.nodes[1].Spec.Pods[1].Attachments[1].Barred = "NetworkPolicy shop/deny selects it" },
			"pod shop/b: NetworkPolicy shop/deny selects it"},
		"one end": {func(s *scene) {
			s.nodes[1].Spec.Pods[1].Attachments = s.nodes[1].Spec.Pods[1].Attachments[:1]
		}, "pod shop/b is not on it"},
		"agent not on it": {func(s *scene) {
			s.nodes[0].Spec.Pods[0].Attachments = s.nodes[0].Spec.Pods[0].Attachments[:1]
		}, "the agent of node n1 is not on it"},
		"many networks": {func(s *scene) {
			for _, n := range []string{"shop/a", "shop/b", "shop/c", "shop/d", "shop/e", "shop/ea", "shop/eb"} {
				at := &s.nodes[0].Spec.Pods[1].Attachments
				*at = append(*at, v1alpha1.Attachment{Network: n})
			}
		}, "pod shop/a is on more than"},
		"one node": {func(s *scene) {
			s.pods[1].Spec.NodeName = "n1"
			s.nodes[0].Spec.Pods = append(s.nodes[0].Spec.Pods, s.nodes[1].Spec.Pods[1])
		}, "both pods are on node n1"},
		"no node":      {func(s *scene) { s.pods[0].Spec.NodeName = "" }, "pod shop/a is on no node yet"},
		"host network": {func(s *scene) { s.pods[0].Spec.HostNetwork = true }, "pod shop/a has the host's network"},
		"left alone": {func(s *scene) { s.pods[1].Annotations["pathwise.dev/steer"] = "false" },
			"pod shop/b has the annotation"},
		"no annotation": {func(s *scene) { s.pods[1].Annotations = nil }, "pod shop/b is on the default network alone"},
		"no agent":      {func(s *scene) { s.agents = s.agents[:1] }, "node n2, of pod shop/b, has no agent"},
		"agent not ready": {func(s *scene) { s.agents[1] = Agent{Node: "n2", Why: "ImagePullBackOff"} },
			"the agent of node n2, of pod shop/b, is not ready: ImagePullBackOff"},
		"nothing written": {func(s *scene) { s.nodes = s.nodes[:1] }, "has written of no pod yet"},
		"refused": {func(s *scene) {
			s.nodes[1].Spec.Pods = s.nodes[1].Spec.Pods[:1]
			s.nodes[1].Status.Refusals = []v1alpha1.Refusal{{Pod: "shop/b", Reason: "another's address"}}
		}, "another's address"},
		"another of that name": {func(s *scene) {
			s.pods[1].UID, s.pods[1].Annotations[sandbox.Annotation] = "uid-new", `[{"name": "podnet", "interface": "eth0",
				"ips": ["10.0.0.2"], "default": true}, {"name": "shop/fast", "interface": "net1", "ips": ["10.1.0.2"]}]`
		}, "has not found pod shop/b yet"},
		"no other network": {func(s *scene) {
			s.pods[1].UID, s.pods[1].Annotations[sandbox.Annotation] = "uid-new",
				`[{"name": "podnet", "interface": "eth0", "ips": ["10.0.0.2"], "default": true}]`
		}, "pod shop/b is on the default network alone: k8s.v1.cni.cncf.io/network-status names no other"},
	} {
		s := twoPods()
		tc.change(&s)
		x := s.explain()
		if x.Networks[0].Network != "default" || !x.Networks[0].Eligible {
			t.Errorf("%s: the default network: %+v", name, x.Networks)
		}
		got := x.Rule
		for _, v := range x.Networks {
			if v.Network == "shop/fast" {
				got = v.Rule
				if v.Eligible != (v.Rule == "") {
					t.Errorf("%s: %+v", name, v)
				}
			}
		}
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestStatus(t *testing.T) {
	sc := twoPods()
	sc.nodes[0].Spec.Pods[1].Attachments[1].Barred = "x"
	sc.nodes[1].Status = v1alpha1.PathNodeStatus{Refused: 1, Refusals: []v1alpha1.Refusal{{Pod: "shop/z", Reason: "y"}}}
	s := Status{Wanted: 2, Agents: sc.agents, Pairs: Pairs{Alone: map[string]int{}}}
	s.count(sc.nodes, sc.networks)
	if s.Pods != 2 || s.Refused != 1 || len(s.Refusals) != 1 || len(s.Networks) != 1 || !s.Networks[0].Allowed ||
		s.Networks[0].Agents != 2 || s.Networks[0].Pods != 2 || s.Networks[0].Barred != 1 {
		t.Errorf("%+v", s)
	}
	// A network that no agent is on, as of a definition that there is not, is steered to by none.
	sc.networks = append(sc.networks, sc.networks[0])
	sc.networks[1].Spec.Attachment = "shop/none"
	none := Status{}
	none.count(sc.nodes, sc.networks)
	if all := none.Networks; len(all) != 2 || all[1].Allowed || !strings.Contains(all[1].Why, "no agent is on it") {
		t.Errorf("a network without agents: %+v", none.Networks)
	}
	at := func(pair, network, state string, active bool) agent.PathStatus {
		return agent.PathStatus{Pair: pair, Network: network, State: state, Active: active, Why: "w"}
	}
	s.Traffic([]agent.PathStatus{at("a>b", "default", "up", false), at("a>b", "shop/fast", "up", true),
		at("b>a", "default", "up", true), at("b>a", "shop/fast", "up", false),
		at("c>d", "default", "up", true), at("c>d", "shop/fast", "failed", false)})
	if s.Pairs.Steered != 1 || s.Pairs.Native != 1 || s.Pairs.Alone["failed: w"] != 1 {
		t.Errorf("%+v", s.Pairs)
	}
}

func TestReady(t *testing.T) {
	for want, s := range map[string]Status{
		"":                          {Wanted: 1, Agents: []Agent{{Node: "a", Ready: true, Version: "1"}}},
		"1 of 2 agents":             {Wanted: 2, Agents: []Agent{{Node: "a", Ready: true, Version: "1"}}},
		"0 of 0 agents":             {},
		"a is not ready: phase Pen": {Wanted: 1, Agents: []Agent{{Node: "a", Why: "phase Pending"}}},
		"a has written of no pod":   {Wanted: 1, Agents: []Agent{{Node: "a", Ready: true}}},
	} {
		if got := s.Ready(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhyPolicies: what agents go by for each pod is told, with those that do not hold.
func TestWhyPolicies(t *testing.T) {
	s := twoPods()
	if x := s.explain(); len(x.Policies) != 0 {
		t.Errorf("none: %+v", x.Policies)
	}
	a, b := &s.nodes[0].Spec.Pods[1], &s.nodes[1].Spec.Pods[1]
	a.Policies, a.Need, a.Pin = []string{"web", "all"}, "latency", "shop/fast"
	b.Policies, b.DryRun = []string{"all"}, true
	x := s.explain()
	var got []string
	for _, p := range x.Policies {
		got = append(got, p.String())
	}
	want := "pod shop/a: PathPolicy shop/web holds, not the younger shop/all; of flows that it opens: need latency, pinned to shop/fast\n" +
		"pod shop/b: PathPolicy shop/all holds; of flows that it opens: a dry run, nothing is moved"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	b.Policies, b.DryRun = []string{"nets"}, false
	if x = s.explain(); x.Policies[1].String() != "pod shop/b: PathPolicy shop/nets holds" {
		t.Errorf("%s", x.Policies[1])
	}
}
