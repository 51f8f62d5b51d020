package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
)

// policyKind is one of the kinds of policies that are known.
type policyKind struct {
	group, resource, kind string
	further               bool // of further networks
	// selector: its pods are read. Of the others, every object is of all pods of its namespace,
	// or of the cluster.
	selector bool
}

// policyKinds are those of Kubernetes, of its network working groups, and of vendors.
func policyKinds() []policyKind {
	return []policyKind{
		{networkingv1.GroupName, "networkpolicies", "NetworkPolicy", false, true},
		{"k8s.cni.cncf.io", "multi-networkpolicies", "MultiNetworkPolicy", true, true},
		{"policy.networking.k8s.io", "adminnetworkpolicies", "AdminNetworkPolicy", false, false},
		{"policy.networking.k8s.io", "baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy", false, false},
		{"policy.networking.k8s.io", "clusternetworkpolicies", "ClusterNetworkPolicy", false, false},
		{"cilium.io", "ciliumnetworkpolicies", "CiliumNetworkPolicy", false, false},
		{"cilium.io", "ciliumclusterwidenetworkpolicies", "CiliumClusterwideNetworkPolicy", false, false},
		{"crd.projectcalico.org", "networkpolicies", "Calico NetworkPolicy", false, false},
		{"crd.projectcalico.org", "globalnetworkpolicies", "Calico GlobalNetworkPolicy", false, false},
		{"projectcalico.org", "networkpolicies", "Calico NetworkPolicy", false, false},
		{"projectcalico.org", "globalnetworkpolicies", "Calico GlobalNetworkPolicy", false, false},
	}
}

// definition is the name of the kind's CustomResourceDefinition.
func (k policyKind) definition() string { return k.resource + "." + k.group }

// reading is one kind of objects as it is read.
type reading struct {
	cache.SharedInformer
	ctx  context.Context // until it is read no more
	stop context.CancelFunc

	mu  sync.Mutex // of err, which the informer's goroutine sets
	err error      // why it could not be read the last time, nil where it could
}

// noted keeps whether the server gave what was asked for. That it does not answer changes
// nothing of what it said before.
func (r *reading) noted(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.err = nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err), unreadable(err):
		r.err = err
	}
}

// unreadable reports whether an answer has come that cannot be decoded: one object may be to blame, and all others of
// its kind are not known by it.
func unreadable(err error) bool {
	var status apierrors.APIStatus // what the server says, and not what became of it
	var unanswered net.Error       // of which *url.Error is one
	return !errors.As(err, &status) && !errors.As(err, &unanswered) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// gone reports whether the server does not know the kind, in the version that it was asked for.
func (r *reading) gone() bool {
	err, _ := r.fault()
	return apierrors.IsNotFound(err)
}

// fault is why the kind cannot be read; settled, whether it was read or is known not to be.
func (r *reading) fault() (err error, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err, true
	}
	if !r.HasSynced() {
		return errUnsynced, false
	}
	return nil, true
}

var errUnsynced = errors.New("they were not read yet")

// policies reads a cluster's policies: of each kind that there is. It is of one goroutine.
type policies struct {
	cfg     *rest.Config
	listen  func(cache.SharedInformer) error
	crds    *reading
	reading map[policyKind]*reading
	faults  map[policyKind]error // why a kind could not be begun to be read
}

func newPolicies(cfg *rest.Config, listen func(cache.SharedInformer) error) *policies {
	return &policies{cfg: cfg, listen: listen, reading: map[policyKind]*reading{}, faults: map[policyKind]error{}}
}

// run begins to read which kinds there are, until ctx ends.
func (p *policies) run(ctx context.Context, wg *sync.WaitGroup) error {
	crds, err := p.metadata(ctx, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	if err != nil {
		return err
	}
	p.crds = crds
	wg.Go(func() { crds.Run(crds.ctx.Done()) })
	return nil
}

// follow begins to read the kinds that there are, and ends to read those that there are no more.
func (p *policies) follow(ctx context.Context, wg *sync.WaitGroup) {
	defined := map[string]bool{}
	for _, o := range objects[*metav1.PartialObjectMetadata](p.crds.SharedInformer) {
		defined[o.Name] = true
	}
	for _, k := range policyKinds() {
		there := k.group == networkingv1.GroupName || defined[k.definition()]
		r := p.reading[k]
		if r != nil && r.gone() { // another version of it may be there by now
			r.stop()
			r = nil
			delete(p.reading, k)
		}
		switch {
		case there && r == nil:
			if r, p.faults[k] = p.read(ctx, k); r != nil {
				p.reading[k] = r
				wg.Go(func() { r.Run(r.ctx.Done()) })
			}
		case !there && p.crds.HasSynced():
			if r != nil {
				r.stop()
			}
			delete(p.reading, k)
			delete(p.faults, k)
		}
	}
}

// read prepares to read a kind.
func (p *policies) read(ctx context.Context, k policyKind) (*reading, error) {
	version, err := p.version(ctx, k)
	if err != nil {
		return nil, err
	}
	gv := schema.GroupVersion{Group: k.group, Version: version}
	if !k.selector {
		return p.metadata(ctx, gv.WithResource(k.resource))
	}
	// What is asked of a MultiNetworkPolicy is where a NetworkPolicy has it.
	c, err := Client(p.cfg, "/apis", gv, func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(gv.WithKind(k.kind), &networkingv1.NetworkPolicy{})
		s.AddKnownTypeWithName(gv.WithKind(k.kind+"List"), &networkingv1.NetworkPolicyList{})
		return nil
	})
	if err != nil {
		return nil, err
	}
	lw := cache.NewListWatchFromClient(c, k.resource, metav1.NamespaceAll, fields.Everything())
	return p.informer(ctx, lw.ListWithContextFunc, lw.WatchFuncWithContext, &networkingv1.NetworkPolicy{}, trimPolicy)
}

// version is the one in which the server has the kind: of a group, each kind has its own.
func (p *policies) version(ctx context.Context, k policyKind) (string, error) {
	if k.group == networkingv1.GroupName {
		return "v1", nil
	}
	c, err := Client(p.cfg, "/apis", schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, metav1.AddMetaToScheme)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	read := func(into any, path ...string) error {
		raw, err := c.Get().AbsPath(path...).Do(ctx).Raw()
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		return err
	}
	var g metav1.APIGroup
	err = read(&g, "/apis", k.group)
	for _, v := range g.Versions {
		var list metav1.APIResourceList
		if err = read(&list, "/apis", k.group, v.Version); err != nil {
			break
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource }) {
			return v.Version, nil
		}
	}
	if err == nil {
		err = errors.New("no version of its group has it yet")
	}
	return "", fmt.Errorf("find %s: %w", k.definition(), err)
}

// hasty reports whether one is to look again soon: for a kind that is not found, and for one that
// is being read, as that it has no object is no event.
func (p *policies) hasty() bool {
	for _, err := range p.faults {
		if err != nil {
			return true
		}
	}
	for _, r := range p.reading {
		if _, settled := r.fault(); !settled || r.gone() {
			return true
		}
	}
	return false
}

// metadata prepares to read names and no more.
func (p *policies) metadata(ctx context.Context, of schema.GroupVersionResource) (*reading, error) {
	c, err := metadata.NewForConfig(p.cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare client of %s: %w", of, err)
	}
	return p.informer(ctx,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.Resource(of).List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Resource(of).Watch(ctx, o)
		},
		&metav1.PartialObjectMetadata{}, trimObject)
}

// informer keeps objects, and whether the server gives them.
func (p *policies) informer(ctx context.Context, list cache.ListWithContextFunc, observe cache.WatchFuncWithContext,
	of runtime.Object, trim cache.TransformFunc) (*reading, error) {
	r := &reading{}
	r.ctx, r.stop = context.WithCancel(ctx)
	r.SharedInformer = cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			got, err := list(r.ctx, o)
			r.noted(err)
			return got, err
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			got, err := observe(r.ctx, o)
			r.noted(err)
			return got, err
		}}, of, 0)
	if err := r.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("trim policies: %w", err)
	}
	return r, p.listen(r.SharedInformer)
}

// settled reports whether all that can be read was read once.
func (p *policies) settled() bool {
	if _, ok := p.crds.fault(); !ok {
		return false
	}
	for _, r := range p.reading {
		if _, ok := r.fault(); !ok {
			return false
		}
	}
	return true
}

// known is all that is known now.
func (p *policies) known() (out netpolicy.Known) {
	if err, _ := p.crds.fault(); err != nil {
		out.Unread = append(out.Unread, netpolicy.Unread{Kind: "CustomResourceDefinition", Why: err.Error(), Further: true})
	}
	for _, k := range policyKinds() {
		r, err := p.reading[k], p.faults[k]
		if r != nil {
			err, _ = r.fault()
		}
		if err != nil {
			out.Unread = append(out.Unread, netpolicy.Unread{Kind: k.kind, Why: err.Error(), Further: k.further})
			continue
		}
		if r == nil {
			continue
		}
		for _, o := range objects[metav1.Object](r.SharedInformer) {
			out.Policies = append(out.Policies, k.policy(o))
		}
	}
	slices.SortFunc(out.Policies, func(a, b netpolicy.Policy) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// policy is what is judged of an object.
func (k policyKind) policy(o metav1.Object) netpolicy.Policy {
	out := netpolicy.Policy{Kind: k.kind, Namespace: o.GetNamespace(), Name: o.GetName(), Further: k.further}
	if k.further {
		out.For = netpolicy.Networks(o.GetNamespace(), o.GetAnnotations()[netpolicy.PolicyFor])
	}
	if p, ok := o.(*networkingv1.NetworkPolicy); ok {
		for key, value := range p.Spec.PodSelector.MatchLabels {
			out.Selects = append(out.Selects, netpolicy.Requirement{Key: key, Operator: netpolicy.In, Values: []string{value}})
		}
		for _, e := range p.Spec.PodSelector.MatchExpressions {
			out.Selects = append(out.Selects, netpolicy.Requirement{Key: e.Key, Operator: netpolicy.Operator(e.Operator),
				Values: e.Values})
		}
	}
	return out
}

// trimPolicy keeps which pods a policy is of.
func trimPolicy(obj any) (any, error) {
	p, ok := obj.(*networkingv1.NetworkPolicy)
	if !ok {
		return obj, nil // one that was missed as it went
	}
	out := &networkingv1.NetworkPolicy{}
	out.Namespace, out.Name, out.UID, out.ResourceVersion = p.Namespace, p.Name, p.UID, p.ResourceVersion
	if text, ok := p.Annotations[netpolicy.PolicyFor]; ok {
		out.Annotations = map[string]string{netpolicy.PolicyFor: text}
	}
	out.Spec.PodSelector = p.Spec.PodSelector
	return out, nil
}

// PolicyKinds are the kinds of policies of an API group that agents know, by resource.
func PolicyKinds(group string) map[string]string {
	out := map[string]string{}
	for _, k := range policyKinds() {
		if k.group == group {
			out[k.resource] = k.kind
		}
	}
	return out
}
