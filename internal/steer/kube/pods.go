package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/kube/pathpolicy"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
	"pathwise.dev/pathwise/internal/topo"
)

// SteerAnnotation, with the value "false", leaves a pod alone.
const SteerAnnotation = "pathwise.dev/steer"

// NeedAnnotation says what the pod's flows need.
const NeedAnnotation = "pathwise.dev/need"

// needs are those of the pods that say one, by UID; odd are the pods, by name, that say another
// word.
func needs(all []*corev1.Pod) (of map[string]string, odd []v1alpha1.Refusal) {
	of = map[string]string{}
	for _, p := range all {
		text, ok := p.Annotations[NeedAnnotation]
		switch {
		case !ok:
		case slices.Contains(decide.Needs(), decide.Need(text)):
			of[string(p.UID)] = text
		default:
			odd = append(odd, v1alpha1.Refusal{Pod: p.Namespace + "/" + p.Name, Reason: fmt.Sprintf(
				"annotation %s: %.80q: expected one of %v: it is as if there were none", NeedAnnotation, text, decide.Needs())})
		}
	}
	return of, odd
}

// own is a pod of this node on several networks, as it is in its namespace.
type own struct {
	topo.Pod
	inode uint64
	said  sandbox.Pod // what it was found by
	// barred says what forbids to move its flows to a network, by that.
	barred map[string]string
	// policies are the PathPolicies that select it; the first one holds.
	policies []pathpolicy.Policy
}

// finder keeps what was found of this node's pods.
type finder struct {
	self  string // UID of the agent's own pod
	found map[string]own
	// missing is since when a pod's namespace is looked for.
	missing map[string]time.Time
}

// patience is how long a pod may be without its namespace, as one that is being made or
// removed is, before that is told.
const patience = 5 * time.Second

// find returns the pods that can be steered, by name, and why others cannot. What was found
// once stays while its namespace does, and the same is said of it: the agent itself looks after
// interfaces that come and go there.
func (f *finder) find(pods []*corev1.Pod, all []sandbox.Sandbox, now time.Time) ([]own, []v1alpha1.Refusal) {
	found, missing := map[string]own{}, map[string]time.Time{}
	var refused []v1alpha1.Refusal
	for _, p := range pods {
		name, uid := p.Namespace+"/"+p.Name, string(p.UID)
		said, ok, err := f.described(p)
		if !ok && err == nil {
			continue
		}
		o := own{}
		if err == nil {
			o, err = f.locate(uid, said, all)
		}
		var none sandbox.MissingError
		switch {
		case err == nil:
			found[uid] = o
		case errors.As(err, &none) && now.Sub(f.since(uid, missing, now)) < patience:
		default:
			refused = append(refused, v1alpha1.Refusal{Pod: name, Reason: err.Error()})
		}
	}
	f.found, f.missing = found, missing
	out := make([]own, 0, len(found))
	for _, o := range found {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b own) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	slices.SortFunc(refused, func(a, b v1alpha1.Refusal) int { return cmp.Compare(a.Pod, b.Pod) })
	return out, refused
}

// since notes that the pod is missing, and returns for how long it has been.
func (f *finder) since(uid string, missing map[string]time.Time, now time.Time) time.Time {
	begin, ok := f.missing[uid]
	if !ok {
		begin = now
	}
	missing[uid] = begin
	return begin
}

// described is what is said of a pod; ok tells whether it is one to be found.
func (f *finder) described(p *corev1.Pod) (said sandbox.Pod, ok bool, err error) {
	said.Name = p.Namespace + "/" + p.Name
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	mine := string(p.UID) == f.self
	if over || p.Spec.HostNetwork || len(p.Status.PodIPs) == 0 || p.Annotations[SteerAnnotation] == "false" && !mine {
		return said, false, nil
	}
	text, ok := p.Annotations[sandbox.Annotation]
	if !ok && !mine {
		return said, false, nil // on the default network alone
	}
	if ok {
		if said.Attachments, err = sandbox.ParseStatus(text); err != nil {
			return said, false, err
		}
	}
	if err := OwnKernel(p); err != nil {
		return said, false, err
	}
	for _, ip := range p.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return said, false, fmt.Errorf("status.podIPs: %w", err)
		}
		said.Addrs = append(said.Addrs, a.Unmap())
	}
	return said, mine || sandbox.Several(said.Attachments), nil
}

// OwnKernel is an error where the pod has a network stack of its own, as Kata and gVisor give it: the runtime
// class is named for what it runs, as those install it.
func OwnKernel(p *corev1.Pod) error {
	class := p.Spec.RuntimeClassName
	if class == nil {
		return nil
	}
	words := strings.FieldsFunc(strings.ToLower(*class), func(r rune) bool { return r == '-' || r == '.' })
	if !slices.ContainsFunc(words, func(w string) bool { return w == "kata" || w == "gvisor" || w == "runsc" }) {
		return nil
	}
	return fmt.Errorf("runtime class %.80q: its connections are another kernel's than the node's", *class)
}

// locate finds the pod's namespace, or has it be where it was.
func (f *finder) locate(uid string, said sandbox.Pod, all []sandbox.Sandbox) (own, error) {
	at, err := sandbox.Find(said, all)
	if err == nil {
		return own{Pod: topo.Pod{Name: said.Name, UID: uid, Agent: uid == f.self, Netns: at.Netns,
			Attachments: at.Attachments}, inode: at.Inode, said: said}, nil
	}
	was, ok := f.found[uid]
	if ok && was.said.Equal(said) && slices.ContainsFunc(all, func(s sandbox.Sandbox) bool {
		return s.Netns == was.Netns && s.Inode == was.inode
	}) {
		return was, nil
	}
	return own{}, err
}
