package kube

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
	"pathwise.dev/pathwise/internal/topo"
)

// view is what is kept of a node's PathNode: an object is read once, when it comes, and a whole
// one is three times as large.
type view struct {
	metav1.ObjectMeta // name and version alone
	// pods are without their host, until a cluster is composed of them; faults are why others are not there.
	// They are of the goroutine that composes, once they are kept.
	pods   []topo.Pod
	faults []error
	// networks are those that the pods are on.
	networks []string
	// asks counts the pods of each PathPolicy, by NAMESPACE/NAME.
	asks map[string]asked
}

// asked counts the pods for which a PathPolicy holds, and those that it selects besides.
type asked struct{ holds, overridden int32 }

// viewOf reads a PathNode.
func viewOf(n *v1alpha1.PathNode) *view {
	v := &view{pods: make([]topo.Pod, 0, len(n.Spec.Pods))}
	v.Name, v.ResourceVersion = n.Name, n.ResourceVersion
	for _, seen := range n.Spec.Pods {
		if p, err := podOf(seen); err == nil {
			v.pods = append(v.pods, p)
			for _, a := range p.Attachments {
				if !slices.Contains(v.networks, a.Network) {
					v.networks = append(v.networks, a.Network)
				}
			}
		} else {
			v.faults = append(v.faults, fmt.Errorf("PathNode %s, pod %.80q: %w", n.Name, seen.Name, err))
		}
		ns, _, _ := strings.Cut(seen.Name, "/")
		for i, name := range seen.Policies {
			if v.asks == nil {
				v.asks = map[string]asked{}
			}
			a := v.asks[ns+"/"+name]
			if i == 0 {
				a.holds++
			} else {
				a.overridden++
			}
			v.asks[ns+"/"+name] = a
		}
	}
	return v
}

// trimNode keeps a view of a PathNode.
func trimNode(obj any) (any, error) {
	if n, ok := obj.(*v1alpha1.PathNode); ok {
		return viewOf(n), nil
	}
	return obj, nil // one that was missed as it went
}

// intern has equal words be one in memory: thousands of pods are on few networks.
func intern(text string) string { return unique.Make(text).Value() }

// podOf is a pod that another node's agent has seen.
func podOf(p v1alpha1.Pod) (topo.Pod, error) {
	out := topo.Pod{Name: p.Name, UID: p.UID, Agent: p.Agent,
		Attachments: make([]topo.Attachment, 0, len(p.Attachments))}
	if p.UID == "" {
		return out, errors.New("it has no UID")
	}
	for i, a := range p.Attachments {
		if a.Barred != "" {
			out.Barred = append(out.Barred, intern(a.Network))
		}
		if (a.Network == sandbox.Default) != (i == 0) {
			return out, fmt.Errorf("attachment %d is on %q: expected the default network, and it alone, first", i+1, a.Network)
		}
		at := topo.Attachment{Network: intern(a.Network), Dev: intern(a.Device), MAC: a.MAC, MTU: int(a.MTU)}
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
