package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// object is one document of what a cluster is given.
type object struct {
	metav1.PartialObjectMetadata
	text []byte
}

// objectsOf reads what was written, if it was, of several documents.
func objectsOf(text []byte, err error) ([]object, error) {
	if err != nil {
		return nil, err
	}
	var out []object
	for _, doc := range bytes.Split(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n")) {
		raw, err := yaml.ToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		o := object{text: raw}
		if err := json.Unmarshal(raw, &o.PartialObjectMetadata); err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		out = append(out, o)
	}
	return out, nil
}

// String names the object as kubectl does.
func (o object) String() string { return strings.ToLower(o.Kind) + "/" + o.Name }

// path is where the API server has the object.
func (o object) path() string {
	root := "/apis/"
	if !strings.Contains(o.APIVersion, "/") {
		root = "/api/"
	}
	if o.Namespace != "" {
		root, o.APIVersion = root+o.APIVersion, "/namespaces/"+o.Namespace
	}
	plural := strings.ToLower(o.Kind) + "s"
	if stem, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = stem + "ies"
	}
	return root + o.APIVersion + "/" + plural + "/" + o.Name
}

// Install gives the cluster all that Pathwise is there, and makes the agents' key if there is
// none. Done again it changes what is not as it is to be. It tells on w of each object.
func (c *Cluster) Install(ctx context.Context, o manifest.Options, w io.Writer) error {
	if err := c.alone(ctx, o.Namespace); err != nil {
		return err
	}
	all, err := objectsOf(manifest.Write(o))
	if err != nil {
		return err
	}
	for i, obj := range all {
		if err := c.apply(ctx, obj); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s applied\n", obj)
		if i > 0 {
			continue
		}
		made, err := c.makeKey(ctx, o.Namespace)
		if err != nil {
			return err
		} else if made {
			fmt.Fprintf(w, "secret/%s made\n", manifest.KeySecret)
		}
	}
	return nil
}

// alone is an error where agents are in another namespace: two installations would steer the same pods, and
// what both have for the whole cluster is there once.
func (c *Cluster) alone(ctx context.Context, namespace string) error {
	all, err := c.installed(ctx)
	if apierrors.IsForbidden(err) {
		return nil // who may not look there goes on as they ask
	} else if err != nil {
		return err
	}
	for _, ns := range all {
		if ns != namespace {
			return fmt.Errorf("agents are in namespace %s: name that with --namespace, or take them from there with \"pathwise kube uninstall --namespace %s\" first",
				ns, ns)
		}
	}
	return nil
}

// apply makes the object, or has it be as it says (server-side apply).
func (c *Cluster) apply(ctx context.Context, o object) error {
	raw, err := c.raw()
	if err != nil {
		return err
	}
	if err := raw.Patch(types.ApplyPatchType).AbsPath(o.path()).Param("fieldManager", "pathwise").Param("force", "true").
		Body(o.text).Do(ctx).Error(); err != nil {
		return fmt.Errorf("apply %s: %w", o, err)
	}
	return nil
}

// applyAll has the cluster be as the documents say.
func (c *Cluster) applyAll(ctx context.Context, docs []byte) error {
	all, err := objectsOf(docs, nil)
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := c.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// makeKey makes the Secret with the agents' key, unless it is there.
func (c *Cluster) makeKey(ctx context.Context, namespace string) (bool, error) {
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return false, fmt.Errorf("make key: %w", err)
	}
	s := &corev1.Secret{StringData: map[string]string{manifest.Key: hex.EncodeToString(key[:]) + "\n"}}
	s.Name = manifest.KeySecret
	err := c.core.Post().Namespace(namespace).Resource("secrets").Body(s).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("make secret %s: %w", manifest.KeySecret, err)
	}
	return true, nil
}

// agentSet and leaveSet are the DaemonSets of agents, and of what takes away what they have left.
const agentSet, leaveSet = "pathwise-agent", "pathwise-leave"

// Uninstall takes all from the cluster: first the agents; then what they have put into pods, on
// every node; then the objects. Within is how long the nodes may take; with force the objects go
// though some node has not answered.
func (c *Cluster) Uninstall(ctx context.Context, o manifest.Options, within time.Duration, force bool,
	w io.Writer) error {
	if err := c.alone(ctx, o.Namespace); err != nil {
		return err
	}
	image, err := c.image(ctx, o.Namespace)
	if err != nil {
		return err
	}
	if image != "" {
		o.Image = image
		if err := c.leave(ctx, o, within, w); err != nil && !force {
			return fmt.Errorf("%w: \"kube uninstall --force\" removes the objects all the same", err)
		} else if err != nil {
			fmt.Fprintf(w, "%v\n", err)
		}
	}
	o.Monitoring = true // what is not there is not missed
	all, err := objectsOf(manifest.Write(o))
	if err != nil {
		return err
	}
	slices.Reverse(all)
	all = append([]object{testNamespace(), benchNamespace()}, all...) // of a test, or a bench, that was killed
	namespace := len(all) - 1                                         // it holds the others
	if err := c.deleteAll(ctx, all[:namespace], within, w); err != nil {
		return err
	}
	return c.leaveNamespace(ctx, all[namespace], within, w)
}

// leave ends the agents, and has each node take away what they have left.
func (c *Cluster) leave(ctx context.Context, o manifest.Options, within time.Duration, w io.Writer) error {
	agents := daemonSet(o.Namespace, agentSet)
	if err := c.deleteAll(ctx, []object{agents}, within, w); err != nil {
		return err
	}
	all, err := objectsOf(manifest.Leave(o))
	if err != nil {
		return err
	}
	if err := c.apply(ctx, all[0]); err != nil {
		return err
	}
	err = until(ctx, within, func() (string, error) {
		n, err := c.rolled(ctx, all[0])
		if err == nil && n.done() {
			return "", nil
		}
		return fmt.Sprintf("%d of %d nodes have taken out what agents left", n.Ready, n.Desired), err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "nothing of the agents is left in any pod")
	return c.deleteAll(ctx, all, within, io.Discard)
}

func daemonSet(namespace, name string) object {
	o := object{}
	o.APIVersion, o.Kind, o.Namespace, o.Name = "apps/v1", "DaemonSet", namespace, name
	return o
}

// rollout is how far a DaemonSet is.
type rollout struct {
	Desired  int   `json:"desiredNumberScheduled"`
	Ready    int   `json:"numberReady"`
	Observed int64 `json:"observedGeneration"`
	wanted   int64
}

func (r rollout) done() bool { return r.Observed >= r.wanted && r.Desired > 0 && r.Ready == r.Desired }

func (c *Cluster) rolled(ctx context.Context, o object) (rollout, error) {
	var got struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Status   rollout           `json:"status"`
	}
	err := c.get(ctx, o, &got)
	got.Status.wanted = got.Metadata.Generation
	return got.Status, err
}

// image is the one that the agents run, "" where there are none: it is on the nodes already.
func (c *Cluster) image(ctx context.Context, namespace string) (string, error) {
	for _, name := range []string{agentSet, leaveSet} { // the latter is left of a removal that was cut short
		var got struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		err := c.get(ctx, daemonSet(namespace, name), &got)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return "", err
		}
		for _, container := range got.Spec.Template.Spec.Containers {
			return container.Image, nil
		}
	}
	return "", nil
}

// get reads an object.
func (c *Cluster) get(ctx context.Context, o object, into any) error {
	if err := c.read(ctx, o.path(), into); err != nil {
		return fmt.Errorf("read %s: %w", o, err)
	}
	return nil
}

// read reads what the API server has at a path.
func (c *Cluster) read(ctx context.Context, path string, into any) error {
	raw, err := c.raw()
	if err != nil {
		return err
	}
	text, err := raw.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// deleteAll deletes the objects in this order, each with all that is its own, before the next.
func (c *Cluster) deleteAll(ctx context.Context, all []object, within time.Duration, w io.Writer) error {
	raw, err := c.raw()
	if err != nil {
		return err
	}
	for _, o := range all {
		foreground := metav1.DeletePropagationForeground
		err := raw.Delete().AbsPath(o.path()).Body(&metav1.DeleteOptions{PropagationPolicy: &foreground,
			TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "meta.k8s.io/v1"}}).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("delete %s: %w", o, err)
		}
		err = until(ctx, within, func() (string, error) {
			var left metav1.PartialObjectMetadata
			if err := c.get(ctx, o, &left); apierrors.IsNotFound(err) {
				return "", nil
			} else if err != nil {
				return "", err
			}
			return o.String() + " is still there", nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s deleted\n", o)
	}
	return nil
}

// until asks until nothing is missing, and returns what is after so long.
func until(ctx context.Context, within time.Duration, missing func() (string, error)) error {
	for end := time.Now().Add(within); ; {
		what, err := missing()
		if err == nil && what == "" {
			return nil
		}
		if time.Now().After(end) {
			if err == nil {
				err = fmt.Errorf("after %v: %s", within, what)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
