package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
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
		var all struct {
			Items []listed `json:"items"`
		}
		if err := c.read(ctx, root+"/namespaces/"+namespace+"/"+plural, &all); err != nil {
			return "", fmt.Errorf("list %s of namespace %s: %w", plural, namespace, err)
		}
		if i := slices.IndexFunc(all.Items, func(o listed) bool { return !o.ours() }); i >= 0 {
			return plural + "/" + all.Items[i].Metadata.Name, nil
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
