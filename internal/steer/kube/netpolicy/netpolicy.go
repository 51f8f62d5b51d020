// Package netpolicy judges whether a pod's flows may leave the default network for another one,
// by the policies that a cluster has. What it does not know for sure it forbids.
//
// A policy of the default network is enforced there, and perhaps nowhere else: flows of a pod
// that one selects stay. A policy of a further network (MultiNetworkPolicy) is enforced by the
// addresses of that network, which steered packets do not carry in the pod: flows of a pod that
// one selects do not go there. No verdict of a policy is computed: that one selects the pod is
// enough.
package netpolicy

import (
	"fmt"
	"slices"
	"strings"
)

// Operator compares a label with values, as in a selector of Kubernetes.
type Operator string

// The operators of Kubernetes' label selectors.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Requirement is one condition on a label.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string
}

// Selector selects the pods whose labels fulfil all; the empty one selects every pod.
type Selector []Requirement

// Selects reports whether the labels fulfil all. An operator that is not known selects, as a
// policy that might be of the pod is taken to be.
func (s Selector) Selects(labels map[string]string) bool {
	for _, r := range s {
		value, has := labels[r.Key]
		ok := true
		switch r.Operator {
		case In:
			ok = has && slices.Contains(r.Values, value)
		case NotIn:
			ok = !has || !slices.Contains(r.Values, value)
		case Exists:
			ok = has
		case DoesNotExist:
			ok = !has
		}
		if !ok {
			return false
		}
	}
	return true
}

// Policy is an object that enforces something on pods.
type Policy struct {
	Kind string
	// Namespace whose pods it is of; "" means those of all.
	Namespace string
	Name      string
	// Selects are its pods among those. Of kinds whose selectors are not read it is empty.
	Selects Selector
	// Further: it is of further networks, those of For, as NAMESPACE/NAME of their
	// definitions; of all where For is empty.
	Further bool
	For     []string
}

// Unread is a kind of policy that the cluster has, and that cannot be read.
type Unread struct {
	Kind    string
	Why     string
	Further bool
}

// Known is all that is known of a cluster's policies.
type Known struct {
	Policies []Policy
	Unread   []Unread
}

// Pod is what policies select by.
type Pod struct {
	Namespace string
	Labels    map[string]string
}

// Rule says how it is known that a network refuses what the default one refuses.
type Rule string

// SameEnforcer: an administrator says so. Derived: it is, where no policy of the default network
// selects the pod.
const (
	SameEnforcer Rule = "SameEnforcer"
	Derived      Rule = "Derived"
)

// None reports whether there is no policy in the cluster, of any kind that could be read, and none
// that could not.
func (k Known) None() bool { return len(k.Policies) == 0 && len(k.Unread) == 0 }

// Barred says what forbids to move the pod's flows to the network; "" where nothing does.
func (k Known) Barred(p Pod, network string, rule Rule) string {
	for _, u := range k.Unread {
		if u.Further || rule != SameEnforcer {
			return fmt.Sprintf("policies of kind %s cannot be read: %s", u.Kind, u.Why)
		}
	}
	for _, y := range k.Policies {
		if !y.of(p) {
			continue
		}
		switch {
		case y.Further && (len(y.For) == 0 || slices.Contains(y.For, network)):
			return y.String() + " selects it on that network, by addresses that steered packets do not have"
		case !y.Further && rule != SameEnforcer:
			return y.String() + " selects it: what that refuses, another network may let through"
		}
	}
	return ""
}

// of reports whether the policy may select the pod.
func (y Policy) of(p Pod) bool {
	return (y.Namespace == "" || y.Namespace == p.Namespace) && y.Selects.Selects(p.Labels)
}

// String names the policy.
func (y Policy) String() string {
	return y.Kind + " " + strings.TrimPrefix(y.Namespace+"/"+y.Name, "/")
}

// PolicyFor is the annotation by which a MultiNetworkPolicy names its networks.
const PolicyFor = "k8s.v1.cni.cncf.io/policy-for"

// Networks reads that annotation of a policy in a namespace. What cannot be read is empty: then
// it is of all networks.
func Networks(namespace, text string) []string {
	var out []string
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.Count(name, "/") > 1 {
			return nil
		}
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		out = append(out, name)
	}
	return out
}
