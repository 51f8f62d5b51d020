package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// What all objects of Pathwise are labelled with.
const nameLabel, nameValue = "app.kubernetes.io/name", "pathwise"

// leaveNamespace deletes the agents' namespace if it holds nothing else: it may have been there before, with what is
// others', and all of that would go with it. Else it takes out of it what is Pathwise's, and says so.
func (c *Cluster) leaveNamespace(ctx context.Context, ns object, within time.Duration, w io.Writer) error {
	var is metav1.PartialObjectMetadata
	if err := c.get(ctx, ns, &is); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if is.Labels[nameLabel] != nameValue {
		fmt.Fprintf(w, "%s left: \"kube install\" has not made it\n", ns)
		return nil
	}
	others, err := c.others(ctx, ns.Name)
	if err != nil {
		return err
	}
	if others == "" {
		return c.deleteAll(ctx, []object{ns}, within, w)
	}
	key := object{}
	key.APIVersion, key.Kind, key.Namespace, key.Name = "v1", "Secret", ns.Name, manifest.KeySecret
	if err := c.deleteAll(ctx, []object{key}, within, w); err != nil {
		return err
	}
	// Without the labels that were applied: fields that an apply does not name any more go.
	ns.text, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]string{"name": ns.Name}})
	if err == nil {
		err = c.apply(ctx, ns)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s left: it holds %s, which is not of Pathwise\n", ns, others)
	return nil
}

// others names something in a namespace that is not of Pathwise, nor in each namespace by itself; "" if there is none.
func (c *Cluster) others(ctx context.Context, namespace string) (string, error) {
	for _, kind := range []string{"/api/v1 pods", "/api/v1 services", "/api/v1 persistentvolumeclaims",
		"/api/v1 configmaps", "/api/v1 secrets", "/apis/apps/v1 deployments", "/apis/apps/v1 statefulsets",
		"/apis/apps/v1 daemonsets", "/apis/batch/v1 jobs", "/apis/batch/v1 cronjobs"} {
		root, plural, _ := strings.Cut(kind, " ")
		all, err := c.list(ctx, root, namespace, plural)
		if err != nil {
			return "", err
		}
		for _, o := range all {
			if !o.ours() {
				return plural + "/" + o.Metadata.Name, nil
			}
		}
	}
	return "", nil
}

// listed is an object of a list.
type listed struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Type     any               `json:"type"` // of a secret a word
}

// ours reports whether it is Pathwise's, or what each namespace has.
func (o listed) ours() bool {
	return o.Metadata.Labels[nameLabel] == nameValue || o.Metadata.Name == manifest.KeySecret ||
		o.Metadata.Name == "kube-root-ca.crt" || o.Type == string(corev1.SecretTypeServiceAccountToken)
}

// list is all objects of a kind in a namespace.
func (c *Cluster) list(ctx context.Context, root, namespace, plural string) ([]listed, error) {
	raw, err := c.raw()
	if err != nil {
		return nil, err
	}
	text, err := raw.Get().AbsPath(root, "namespaces", namespace, plural).Do(ctx).Raw()
	var out struct {
		Items []listed `json:"items"`
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s of namespace %s: %w", plural, namespace, err)
	}
	return out.Items, nil
}
