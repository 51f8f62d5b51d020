package admin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pathwise.dev/pathwise/internal/steer/kube"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// Check looks at a cluster before agents are put there. It changes nothing.
func (c *Cluster) Check(ctx context.Context, o manifest.Options) ([]Finding, error) {
	s := survey{namespace: o.Namespace}
	read := func(path string, into any) error { return c.read(ctx, path, into) }
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := read("/version", &version); err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	s.version = version.GitVersion
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"nodes", func() (err error) { s.nodes, err = c.nodeList(ctx); return err }},
		{"networks", func() error { return s.readNetworks(read) }},
		{"PathNetworks", func() (err error) { s.allowed, err = c.pathNetworks(ctx); return err }},
		{"admission policies", func() error { return s.readAdmission(read) }},
		{"kube-proxy", func() error { return s.readProxy(read) }},
		{"agents", func() (err error) { s.installed, err = c.installed(ctx); return err }},
		{"permissions", func() error { return c.readPermissions(ctx, o, &s) }},
		{"pods", func() error { return c.readPods(ctx, &s) }},
		{"definitions", func() error { return s.readPolicies(read) }},
	} {
		if err := step.do(); err != nil {
			s.faults = append(s.faults, Finding{"cluster", Note, fmt.Sprintf("%s cannot be read: %v", step.what, err)})
		}
	}
	return s.findings(), nil
}

// reader reads what is at a path of the API server.
type reader func(path string, into any) error

func (s *survey) readNetworks(read reader) error {
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Config string `json:"config"`
			} `json:"spec"`
		} `json:"items"`
	}
	err := read("/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", &list)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.multus = true
	for _, n := range list.Items {
		s.networks = append(s.networks, definition{n.Metadata.Namespace + "/" + n.Metadata.Name, n.Spec.Config})
	}
	return err
}

func (s *survey) readAdmission(read reader) error {
	var list metav1.APIResourceList
	err := read("/apis/admissionregistration.k8s.io/v1", &list)
	for _, r := range list.APIResources {
		s.admission = s.admission || r.Name == "validatingadmissionpolicies"
	}
	return err
}

// readProxy finds kube-proxy's mode where kubeadm has put it.
func (s *survey) readProxy(read reader) error {
	var m corev1.ConfigMap
	err := read("/api/v1/namespaces/kube-system/configmaps/kube-proxy", &m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	for _, text := range m.Data {
		if found := regexp.MustCompile(`(?m)^mode:\s*"?(\w*)"?\s*$`).FindStringSubmatch(text); found != nil {
			s.proxy = found[1]
			if s.proxy == "" {
				s.proxy = "iptables"
			}
		}
	}
	return err
}

// pathNetworks are those that there are, none where the kind is not defined yet.
func (c *Cluster) pathNetworks(ctx context.Context) ([]v1alpha1.PathNetwork, error) {
	all, err := c.Networks(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}

// installed are the namespaces that have agents.
func (c *Cluster) installed(ctx context.Context) (out []string, err error) {
	var list metav1.PartialObjectMetadataList
	if err := c.read(ctx, "/apis/apps/v1/daemonsets", &list); err != nil {
		return nil, fmt.Errorf("list DaemonSets: %w", err)
	}
	for _, d := range list.Items {
		if d.Name == agentSet && !slices.Contains(out, d.Namespace) {
			out = append(out, d.Namespace)
		}
	}
	return out, nil
}

// readPermissions asks whether the user may make what a cluster is given.
func (c *Cluster) readPermissions(ctx context.Context, o manifest.Options, s *survey) error {
	all, err := objectsOf(manifest.Write(o))
	if err != nil {
		return err
	}
	client, err := kube.Client(c.cfg, "/apis", schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"},
		authorizationv1.AddToScheme)
	if err != nil {
		return err
	}
	for _, obj := range all {
		group, _, grouped := strings.Cut(obj.APIVersion, "/")
		if !grouped {
			group = ""
		}
		words := strings.Split(obj.path(), "/")
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Group: group, Resource: words[len(words)-2],
			Namespace: obj.Namespace, Name: obj.Name, Verb: "patch"}
		answer := &authorizationv1.SelfSubjectAccessReview{}
		if err := client.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer); err != nil {
			return err
		}
		if !answer.Status.Allowed {
			s.forbidden = append(s.forbidden, obj.String())
		}
	}
	return nil
}

// readPods reads all pods, by pages.
func (c *Cluster) readPods(ctx context.Context, s *survey) error {
	for next := ""; ; {
		var list corev1.PodList
		err := c.core.Get().Resource("pods").Param("limit", "500").Param("continue", next).Do(ctx).Into(&list)
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			kept := corev1.Pod{}
			kept.Namespace, kept.Name, kept.Annotations = p.Namespace, p.Name, p.Annotations
			kept.Spec.HostNetwork, kept.Spec.RuntimeClassName = p.Spec.HostNetwork, p.Spec.RuntimeClassName
			s.pods = append(s.pods, kept)
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// readPolicies finds which custom kinds of policies there are.
func (s *survey) readPolicies(read reader) error {
	var groups metav1.APIGroupList
	if err := read("/apis", &groups); err != nil {
		return err
	}
	for _, g := range groups.Groups {
		kinds := kube.PolicyKinds(g.Name)
		if len(kinds) == 0 || g.Name == "networking.k8s.io" {
			continue
		}
		for _, v := range g.Versions {
			var list metav1.APIResourceList
			if err := read("/apis/"+v.GroupVersion, &list); err != nil {
				return err
			}
			for _, r := range list.APIResources {
				if kind := kinds[r.Name]; kind != "" && !slices.Contains(s.policies, kind) {
					s.policies = append(s.policies, kind)
				}
			}
		}
	}
	return nil
}
