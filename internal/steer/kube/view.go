package kube

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
	"pathwise.dev/pathwise/internal/topo"
)

// view is what is kept of a node's PathNode: an object is read once, when it comes, and a whole
// one is three times as large. It is never changed but for where its pods are.
type view struct {
	metav1.TypeMeta
	metav1.ObjectMeta            // name and version alone
	mu                sync.Mutex // of pods; held for a moment
	// pods are without their host, until a cluster is composed of them, which has them be in its own memory. faults
	// are why others are not there.
	pods   []topo.Pod
	faults []error
	// marks tell the pods' texts from others, and policies are those that select them, by mark.
	seed     maphash.Seed
	marks    []uint64
	policies map[uint64][]string
	// networks are those that the pods are on.
	networks []string
	// selected counts the pods of each PathPolicy, by NAMESPACE/NAME.
	selected map[string]selection
}

// selection counts the pods for which a PathPolicy holds, and those that it selects besides.
type selection struct{ holds, overridden int32 }

// DeepCopyObject is the same one.
func (v *view) DeepCopyObject() runtime.Object { return v }

// known are the pods as they are by now.
func (v *view) known() []topo.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pods
}

// move has the pods be in other memory.
func (v *view) move(to []topo.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pods = to
}

// viewOf reads a PathNode, as an API server writes it. Of pods that are in the view that was there of it before,
// nothing is decoded: next to all are. It is read once, as it comes: to find its parts takes most of the time.
func viewOf(c cursor, before func(name string) *view) (*view, error) {
	v, later := &view{}, []byte("{}") // the pods, where they come before what they are found by
	err := c.members(func(key string) (err error) {
		switch {
		case key == "metadata":
			err = c.members(func(key string) error { return v.readMeta(key, c) })
		case key == "spec" && v.Name == "":
			later, err = c.keep()
		case key == "spec":
			later, err = nil, v.readPods(c, before(v.Name))
		default:
			err = c.SkipValue()
		}
		return err
	})
	if err == nil && later != nil {
		err = v.readPods(cursorOf(later), before(v.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("read PathNode %.80q: %w", v.Name, err)
	}
	return v, nil
}

// readMeta reads what there is to know of any object.
func (v *view) readMeta(key string, c cursor) error {
	switch key {
	case "name":
		return c.into(&v.Name)
	case "resourceVersion":
		return c.into(&v.ResourceVersion)
	}
	return c.SkipValue()
}

// readPods reads a node's pods, of which there may be a view.
func (v *view) readPods(c cursor, before *view) error {
	was := former{}
	if before != nil {
		was, v.seed = former{before, before.known(), 0}, before.seed
	} else {
		v.seed = maphash.MakeSeed()
	}
	v.pods = make([]topo.Pod, 0, len(was.pods)+1)
	v.marks = make([]uint64, 0, len(was.pods)+1)
	return c.members(func(key string) error {
		if key != "pods" {
			return c.SkipValue()
		}
		return c.elements(func() error {
			raw, err := c.ReadValue()
			if err == nil {
				err = v.read(raw, &was)
			}
			return err
		})
	})
}

// former is what was there of a node before, and near which place its next pod is.
type former struct {
	*view
	pods []topo.Pod
	next int
}

// find is the place of a pod whose text has the mark, or -1.
func (f *former) find(mark uint64) int {
	if f.view == nil {
		return -1
	}
	for _, n := range []int{f.next, f.next + 1} { // one has gone, or nothing has
		if n < len(f.marks) && f.marks[n] == mark {
			f.next = n + 1
			return n
		}
	}
	n := slices.Index(f.marks, mark)
	if f.next++; n >= 0 {
		f.next = n + 1
	}
	return n
}

// read reads one pod.
func (v *view) read(raw []byte, was *former) error {
	mark := maphash.Bytes(v.seed, raw)
	if n := was.find(mark); n >= 0 {
		v.add(was.pods[n], mark, was.policies[mark])
		return nil
	}
	var seen v1alpha1.Pod
	if err := json.Unmarshal(raw, &seen); err != nil {
		return fmt.Errorf("pod: %w", err)
	}
	p, err := podOf(seen)
	if err != nil {
		v.faults = append(v.faults, fmt.Errorf("PathNode %s, pod %.80q: %w", v.Name, seen.Name, err))
		v.count(seen.Name, seen.Policies)
		return nil
	}
	v.add(p, mark, seen.Policies)
	return nil
}

// add adds a pod, and what its text is told by.
func (v *view) add(p topo.Pod, mark uint64, policies []string) {
	v.pods, v.marks = append(v.pods, p), append(v.marks, mark)
	for i := range p.Attachments {
		if network := p.Attachments[i].Network; !slices.Contains(v.networks, network) {
			v.networks = append(v.networks, network)
		}
	}
	if len(policies) > 0 {
		if v.policies == nil {
			v.policies = map[uint64][]string{}
		}
		v.policies[mark] = policies
	}
	v.count(p.Name, policies)
}

// count counts a pod for the PathPolicies that select it.
func (v *view) count(pod string, policies []string) {
	ns, _, _ := strings.Cut(pod, "/")
	for i, name := range policies {
		if v.selected == nil {
			v.selected = map[string]selection{}
		}
		a := v.selected[ns+"/"+name]
		if i == 0 {
			a.holds++
		} else {
			a.overridden++
		}
		v.selected[ns+"/"+name] = a
	}
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
