package kube

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// pathPolicy is one of namespace shop, made so many seconds after all began.
func pathPolicy(name string, age int64, spec v1alpha1.PathPolicySpec) *v1alpha1.PathPolicy {
	p := &v1alpha1.PathPolicy{Spec: spec}
	p.Namespace, p.Name, p.UID, p.Generation = "shop", name, types.UID("uid-"+name), 3
	p.CreationTimestamp = metav1.Unix(1000+age, 0)
	return p
}

// boxes are the namespaces of pods.
func boxes(last ...int) (out []sandbox.Sandbox) {
	for _, n := range last {
		out = append(out, box(n))
	}
	return out
}

// TestAsk: what a PathPolicy says of a pod reaches its node's agent and its PathNode, and other
// nodes' agents bar what it bars.
func TestAsk(t *testing.T) {
	a, b, agent := apiPod("a", 4), apiPod("b", 5), apiPod("agent-n1", 9)
	a.Labels = map[string]string{"app": "web", "tier": "front"}
	labels := labelsOf([]*corev1.Pod{a, b, agent})
	web := v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"},
		MatchExpressions: []v1alpha1.Expression{{Key: "tier", Operator: "In", Values: []string{"front", "back"}}}}
	all := pathPolicies([]*v1alpha1.PathPolicy{
		pathPolicy("all", 5, v1alpha1.PathPolicySpec{DryRun: true}),
		pathPolicy("web", 1, v1alpha1.PathPolicySpec{PodSelector: web, Need: "latency", Pin: "default",
			Networks: []v1alpha1.NetworkName{"shop/other"}})})
	f := finder{self: "uid-agent-n1"}
	pods, _ := f.find([]*corev1.Pod{a, b, agent}, boxes(4, 5, 9), time.Unix(1000, 0))
	pods = judge(ask(pods, labels, all, map[string]string{"uid-b": "robust"}), labels, []*v1alpha1.PathNetwork{fast()},
		netpolicy.Known{})
	spec, _ := node("test", pods, nil)
	for i, want := range []v1alpha1.Pod{
		{Name: "shop/a", Policies: []string{"web", "all"}, Need: "latency", Pin: "default"},
		{Name: "shop/agent-n1"},
		{Name: "shop/b", Policies: []string{"all"}, Need: "robust", DryRun: true},
	} {
		p, seen := pods[i], spec.Pods[i]
		if seen.Name != want.Name || !slices.Equal(seen.Policies, want.Policies) || seen.Need != want.Need ||
			seen.Pin != want.Pin || seen.DryRun != want.DryRun || p.Need != want.Need || p.Pin != want.Pin ||
			p.DryRun != want.DryRun {
			t.Errorf("%s: %+v, written %+v", want.Name, p.Pod, seen)
		}
		if barred := seen.Attachments[1].Barred; (barred != "") != (i == 0) {
			t.Errorf("%s: barred as %q", want.Name, barred)
		}
	}
	if pods[0].Policy != "PathPolicy shop/web" || pods[1].Policy != "" {
		t.Errorf("%+v", pods)
	}
	n := &v1alpha1.PathNode{Spec: spec}
	n.Name = "n1"
	c, faults := composeFor("n2", nil, []*v1alpha1.PathNode{n}, []*v1alpha1.PathNetwork{fast()})
	if len(faults) > 0 || len(c.Pods) != 3 || !slices.Equal(c.Pods[0].Barred, []string{"shop/fast"}) ||
		c.Pods[0].Pin != "" || c.Pods[2].DryRun { // these are of the flows that a pod opens
		t.Errorf("elsewhere: %+v, %v", c.Pods, faults)
	}
}

// TestPolicyStatus: the status is what all agents' PathNodes come to.
func TestPolicyStatus(t *testing.T) {
	now := time.Unix(2000, 0)
	of := func(name string, policies ...string) v1alpha1.Pod {
		return v1alpha1.Pod{Name: name, Policies: policies}
	}
	for name, tc := range map[string]struct {
		spec              v1alpha1.PathPolicySpec
		pods              []v1alpha1.Pod
		holds, overrode   int32
		accepted, applied string // reasons
	}{
		"no pod": {v1alpha1.PathPolicySpec{Need: "robust"}, nil, 0, 0, "Accepted", "NoPods"},
		"other pods": {v1alpha1.PathPolicySpec{},
			[]v1alpha1.Pod{of("shop/a"), of("data/b", "p"), of("shop/c", "q")}, 0, 0, "Accepted", "NoPods"},
		"holds": {v1alpha1.PathPolicySpec{},
			[]v1alpha1.Pod{of("shop/a", "p"), of("shop/b", "p", "q"), of("shop/c", "q", "p")}, 2, 1, "Accepted", "Applied"},
		"overridden": {v1alpha1.PathPolicySpec{},
			[]v1alpha1.Pod{of("shop/c", "q", "r", "p")}, 0, 1, "Accepted", "Overridden"},
		"allowed": {v1alpha1.PathPolicySpec{Pin: "shop/fast"}, nil, 0, 0, "Accepted", "NoPods"},
		"default": {v1alpha1.PathPolicySpec{Networks: []v1alpha1.NetworkName{"default"}}, nil, 0, 0, "Accepted", "NoPods"},
		"not allowed": {v1alpha1.PathPolicySpec{Networks: []v1alpha1.NetworkName{"shop/fast", "shop/x"}},
			nil, 0, 0, "NetworkNotAllowed", "NoPods"},
		"pin, neither": {v1alpha1.PathPolicySpec{Pin: "shop/x"},
			[]v1alpha1.Pod{of("shop/a", "p")}, 1, 0, "NetworkNotAllowed", "Applied"},
	} {
		p := pathPolicy("p", 0, tc.spec)
		s := policyStatus(p, []*view{viewed(&v1alpha1.PathNode{Spec: v1alpha1.PathNodeSpec{Pods: tc.pods}})},
			[]*v1alpha1.PathNetwork{fast()}, now)
		accepted := meta.FindStatusCondition(s.Conditions, "Accepted")
		applied := meta.FindStatusCondition(s.Conditions, "Applied")
		if s.Pods != tc.holds || s.Overridden != tc.overrode || accepted.Reason != tc.accepted ||
			applied.Reason != tc.applied || (accepted.Status == "True") != (tc.accepted == "Accepted") ||
			(applied.Status == "True") != (tc.applied == "Applied") ||
			applied.ObservedGeneration != 3 || accepted.Message == "" {
			t.Errorf("%s: %+v", name, s)
		}
		p.Status = s // nothing is written again
		if again := policyStatus(p, []*view{viewed(&v1alpha1.PathNode{Spec: v1alpha1.PathNodeSpec{Pods: tc.pods}})},
			[]*v1alpha1.PathNetwork{fast()}, now.Add(time.Hour)); !slices.Equal(again.Conditions, s.Conditions) {
			t.Errorf("%s: %+v, and later %+v", name, s, again)
		}
	}
}

// TestTellWithoutStorm: of many agents that all see each change, one writes each policy's status,
// once in half a minute; where it is away, the next one does.
func TestTellWithoutStorm(t *testing.T) {
	s, c := serving(t)
	now := time.Unix(5000, 0)
	var agents []teller
	var nodes []*view
	for i := range 50 {
		n := &view{selected: map[string]selection{"shop/p": {holds: 1}}}
		n.Name = fmt.Sprintf("n%d", i)
		nodes = append(nodes, n)
		agents = append(agents, newTeller(c, n.Name, func() time.Time { return now }))
	}
	all := []*v1alpha1.PathPolicy{pathPolicy("p", 0, v1alpha1.PathPolicySpec{Need: "robust"})}
	round := func(without string) {
		for i := range agents {
			if agents[i].node == without {
				continue
			}
			if _, err := agents[i].tell(t.Context(), all, nodes, nil); err != nil && s.refuse == 0 {
				t.Fatal(err)
			}
		}
	}
	first := slices.IndexFunc(nodes, func(n *view) bool { return rank("uid-p", n.Name, nodes) == 0 })
	for range 60 { // two minutes, in which what was written is not seen, and the pods change
		round("")
		now = now.Add(tellPace)
	}
	// The first by rank writes five times in that; the next ones, to which nothing ever seems to be written, too.
	if got, most := len(s.wrote), 5*(1+farthest); got < 5 || got > most {
		t.Errorf("%d writes by 50 agents in two minutes, want 5 to %d", got, most)
	}
	s.wrote = nil
	all[0].Status = policyStatus(all[0], nodes, nil, now)
	for range 30 {
		round("")
		now = now.Add(tellPace)
	}
	if len(s.wrote) > 0 {
		t.Errorf("%v: nothing had changed", s.wrote)
	}
	nodes[7].selected = nil // what changes is written once, by one
	round("")
	if len(s.wrote) != 1 || s.wrote[0] != "PUT /apis/pathwise.dev/v1alpha1/namespaces/shop/pathpolicies/p/status" {
		t.Errorf("%v", s.wrote)
	}
	all[0].Status = policyStatus(all[0], nodes, nil, now)
	now = now.Add(time.Hour)
	round("")
	s.wrote, nodes[8].selected = nil, nil
	for range 20 { // the first is away
		round(nodes[first].Name)
		now = now.Add(tellPace)
	}
	if len(s.wrote) != 1 {
		t.Errorf("the first is away: %v", s.wrote)
	}
	s.refuse = http.StatusForbidden
	s.writes = 0
	nodes[9].selected, now = nil, now.Add(time.Hour)
	for range 30 {
		round("")
		now = now.Add(tellPace)
	}
	if s.writes > 10 {
		t.Errorf("%d tries of what is refused", s.writes)
	}
}

// TestTellManyPolicies: a thousand that come at once are written at a bounded pace.
func TestTellManyPolicies(t *testing.T) {
	s, c := serving(t)
	now := time.Unix(5000, 0)
	tl := newTeller(c, "n1", func() time.Time { return now })
	var all []*v1alpha1.PathPolicy
	for i := range 1000 {
		all = append(all, pathPolicy(fmt.Sprintf("p%d", i), 0, v1alpha1.PathPolicySpec{Need: "robust"}))
	}
	for range 2 {
		if again, err := tl.tell(t.Context(), all, nil, nil); err != nil || again != tellPace {
			t.Errorf("again in %v, %v", again, err)
		}
	}
	if len(s.wrote) != tellMost {
		t.Errorf("%d writes at once, want %d", len(s.wrote), tellMost)
	}
	s.refuse, now = http.StatusForbidden, now.Add(tellPace)
	if _, err := tl.tell(t.Context(), all, nil, nil); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("%v", err)
	}
	if s.writes != tellMost+1 {
		t.Errorf("%d writes after one was refused", s.writes-tellMost)
	}
}
