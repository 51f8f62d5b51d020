// Package pathpolicy decides which PathPolicy holds for a pod, and what that asks of its flows.
package pathpolicy

import (
	"cmp"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
)

// Default is the network that every pod's flows may be on.
const Default = "default"

// Policy is what a PathPolicy says.
type Policy struct {
	Namespace, Name string
	Created         time.Time
	// Selects are its pods, among those of its namespace.
	Selects netpolicy.Selector
	// Networks are those that flows may be moved to; empty leaves that to others.
	Networks []string
	// Need and Pin are of flows that the pods have opened; "" says nothing.
	Need, Pin string
	DryRun    bool
}

// String names the policy.
func (p Policy) String() string { return "PathPolicy " + p.Namespace + "/" + p.Name }

// Of are the policies that select the pod. The first one holds: the oldest, and of those that are
// equally old the first by name. So one that comes later changes nothing of what holds.
func Of(all []Policy, pod netpolicy.Pod) []Policy {
	var out []Policy
	for _, p := range all {
		if p.Namespace == pod.Namespace && p.Selects.Selects(pod.Labels) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Policy) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Bars says why no flow of a pod may be moved to the network; "" where the policy lets it.
func (p Policy) Bars(network string) string {
	if len(p.Networks) == 0 || network == Default || slices.Contains(p.Networks, network) {
		return ""
	}
	return p.String() + " does not name it in networks"
}

// Ask is what is asked of the flows that a pod has opened.
type Ask struct {
	// By names the policy; "" where none holds.
	By        string
	Need, Pin string
	DryRun    bool
}

// Asked is what the policies that select a pod come to. need is what the pod says itself, which
// comes before them.
func Asked(of []Policy, need string) Ask {
	if len(of) == 0 {
		return Ask{Need: need}
	}
	p := of[0]
	return Ask{By: p.String(), Need: cmp.Or(need, p.Need), Pin: p.Pin, DryRun: p.DryRun}
}
