package kube

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/pathpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// pathPolicies are what the objects say.
func pathPolicies(all []*v1alpha1.PathPolicy) []pathpolicy.Policy {
	var out []pathpolicy.Policy
	for _, o := range all {
		p := pathpolicy.Policy{Namespace: o.Namespace, Name: o.Name, Created: o.CreationTimestamp.Time,
			Need: string(o.Spec.Need), Pin: string(o.Spec.Pin), DryRun: o.Spec.DryRun}
		for key, value := range o.Spec.PodSelector.MatchLabels {
			p.Selects = append(p.Selects, netpolicy.Requirement{Key: key, Operator: netpolicy.In, Values: []string{value}})
		}
		for _, e := range o.Spec.PodSelector.MatchExpressions {
			p.Selects = append(p.Selects, netpolicy.Requirement{Key: e.Key, Operator: netpolicy.Operator(e.Operator),
				Values: e.Values})
		}
		for _, n := range o.Spec.Networks {
			p.Networks = append(p.Networks, string(n))
		}
		out = append(out, p)
	}
	return out
}

// mostPolicies bounds how many policies of a pod its PathNode names.
const mostPolicies = 16

// ask says of the pods what PathPolicies ask of their flows. need is what pods say themselves, by
// UID.
func ask(pods []own, labels map[string]map[string]string, all []pathpolicy.Policy, need map[string]string) []own {
	out := make([]own, 0, len(pods))
	for _, p := range pods {
		p.policies, p.Need = nil, need[p.UID]
		if !p.Agent {
			ns, _, _ := strings.Cut(p.Name, "/")
			of := pathpolicy.Of(all, netpolicy.Pod{Namespace: ns, Labels: labels[p.UID]})
			a := pathpolicy.Asked(of, p.Need)
			p.Need, p.Pin, p.DryRun, p.Policy = a.Need, a.Pin, a.DryRun, a.By
			p.policies = of[:min(len(of), mostPolicies)]
		}
		out = append(out, p)
	}
	return out
}

// policyStatus is the status of a policy, by what agents have written of their nodes' pods.
func policyStatus(p *v1alpha1.PathPolicy, nodes []*view, networks []*v1alpha1.PathNetwork,
	now time.Time) v1alpha1.PathPolicyStatus {
	out := *p.Status.DeepCopy()
	out.Pods, out.Overridden = 0, 0
	for _, n := range nodes {
		a := n.selected[p.Namespace+"/"+p.Name]
		out.Pods += a.holds
		out.Overridden += a.overridden
	}
	set := func(kind, reason, text string, is bool) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: text,
			ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now)}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&out.Conditions, c)
	}
	if name := notAllowed(p, networks); name != "" {
		set(v1alpha1.ConditionAccepted, v1alpha1.ReasonNotAllowed,
			fmt.Sprintf("no PathNetwork allows flows on %s: nothing is moved there", name), false)
	} else {
		set(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "agents go by it", true)
	}
	switch {
	case out.Pods > 0:
		set(v1alpha1.ConditionApplied, v1alpha1.ReasonApplied, fmt.Sprintf(
			"it holds for %d pods on several networks; for %d that it selects, an older one does", out.Pods, out.Overridden), true)
	case out.Overridden > 0:
		set(v1alpha1.ConditionApplied, v1alpha1.ReasonOverridden,
			fmt.Sprintf("for all %d pods that it selects, an older PathPolicy holds", out.Overridden), false)
	default:
		set(v1alpha1.ConditionApplied, v1alpha1.ReasonNoPods, "it selects no pod on several networks", false)
	}
	return out
}

// notAllowed is the first network of a policy's that flows may not be moved to; "" where they may
// be to all.
func notAllowed(p *v1alpha1.PathPolicy, networks []*v1alpha1.PathNetwork) string {
	may := allowed(networks)
	for _, n := range append(slices.Clone(p.Spec.Networks), p.Spec.Pin) {
		if n != "" && n != pathpolicy.Default && !slices.Contains(may, string(n)) {
			return string(n)
		}
	}
	return ""
}

// rank says how many nodes come before this one in writing the object's status: of all agents
// the same one is the first, and another one for another object.
func rank(uid, self string, nodes []*view) int {
	weight := func(node string) uint64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s", uid, node) // never fails
		return h.Sum64()
	}
	own, before := weight(self), 0
	for _, n := range nodes {
		if w := weight(n.Name); w < own || w == own && n.Name < self {
			before++
		}
	}
	return before
}

// teller writes the status of PathPolicies. All agents know what it is to be, and one writes: the
// first by rank. The next ones do where that has not for a while, so that an agent that is away
// leaves no status as it was. It is of one goroutine.
type teller struct {
	clients
	node string
	now  func() time.Time

	looked time.Time
	// due is when an object's status may be written, by UID: after the last time, or what rank gives.
	due map[string]time.Time
	// want is the status that due is of.
	want map[string]v1alpha1.PathPolicyStatus
}

// Pace of writing statuses: an object's is written once in statusEvery, and all are looked at once
// in tellPace. An agent waits for each that comes before it, and most are written at a time.
const (
	tellPace, tellTurn = 2 * time.Second, 30 * time.Second
	tellMost           = 20
	farthest           = 4 // agents before this one: further ones leave it to others
)

func newTeller(c clients, node string, now func() time.Time) teller {
	return teller{clients: c, node: node, now: now, due: map[string]time.Time{},
		want: map[string]v1alpha1.PathPolicyStatus{}}
}

// tell writes what is due, and returns when to look again.
func (t *teller) tell(ctx context.Context, all []*v1alpha1.PathPolicy, nodes []*view,
	networks []*v1alpha1.PathNetwork) (time.Duration, error) {
	now := t.now()
	if next := t.looked.Add(tellPace); now.Before(next) && len(all) > 0 {
		return next.Sub(now), nil
	}
	t.looked = now
	byAge := func(a, b *v1alpha1.PathPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	}
	there, wrote, again := map[string]bool{}, 0, statusEvery
	for _, p := range slices.SortedFunc(slices.Values(all), byAge) {
		uid := string(p.UID)
		there[uid] = true
		want := policyStatus(p, nodes, networks, now)
		if reflect.DeepEqual(want, p.Status) {
			delete(t.want, uid)
			continue
		}
		before := rank(uid, t.node, nodes)
		if before > farthest {
			continue
		}
		if _, known := t.want[uid]; !known {
			t.due[uid] = later(t.due[uid], now.Add(time.Duration(before)*tellTurn))
		}
		t.want[uid] = want
		if wait := t.due[uid].Sub(now); wait > 0 || wrote == tellMost {
			again = min(again, max(wait, tellPace))
			continue
		}
		wrote++
		t.due[uid] = now.Add(statusEvery)
		if err := t.put(ctx, p, want); err != nil {
			return statusEvery, fmt.Errorf("write status of PathPolicy %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	for uid := range t.due {
		if !there[uid] {
			delete(t.due, uid)
			delete(t.want, uid)
		}
	}
	return again, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (t *teller) put(ctx context.Context, p *v1alpha1.PathPolicy, status v1alpha1.PathPolicyStatus) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	next := p.DeepCopy()
	next.Status = status
	return t.paths.Put().Namespace(p.Namespace).Resource("pathpolicies").Name(p.Name).SubResource("status").Body(next).
		Do(ctx).Error()
}
