package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/steer/kube/trial"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// Bench is a cluster as package trial asks of it.
type Bench struct {
	*Cluster
	held *claim
}

// removing is how long a namespace or pods may take to go.
const removing = 2 * time.Minute

// Claim makes the namespace of a bench for this run alone, until Release. The context that it
// returns ends when it is that no more.
func (b *Bench) Claim(ctx context.Context) (context.Context, error) {
	all, err := objectsOf(manifest.BenchSpace())
	if err != nil {
		return ctx, err
	}
	ctx, b.held, err = b.claim(ctx, all[0], usualTimes())
	return ctx, err
}

// Removed is why what a bench wants of the cluster fails, where that is as its namespace is being removed by
// somebody else; else nil.
func (b *Bench) Removed(ctx context.Context) error { return b.held.removed(ctx) }

// Release removes the namespace, with all that is in it.
func (b *Bench) Release(ctx context.Context) error { return b.held.release(ctx) }

// Apply makes what the documents say.
func (b *Bench) Apply(ctx context.Context, docs []byte) error { return b.applyAll(ctx, docs) }

func namespaceOf(name string) object {
	o := object{}
	o.APIVersion, o.Kind, o.Name = "v1", "Namespace", name
	return o
}

// Remove removes the pods at once, and returns when they have gone.
func (b *Bench) Remove(ctx context.Context, namespace string, pods []string) error {
	if b.held.gone.Load() {
		return nil // those there are another's
	}
	return b.deletePods(ctx, namespace, func(name string) bool { return slices.Contains(pods, name) })
}

// deletePods removes those of a namespace that which says at once, and returns when they have gone.
func (c *Cluster) deletePods(ctx context.Context, namespace string, which func(name string) bool) error {
	now := int64(0)
	deleted := map[string]bool{}
	return until(ctx, removing, func() (left string, err error) {
		var list corev1.PodList
		if err := c.core.Get().Namespace(namespace).Resource("pods").Do(ctx).Into(&list); err != nil {
			return "", fmt.Errorf("list pods: %w", err)
		}
		for _, p := range list.Items {
			if !which(p.Name) {
				continue
			}
			left = "pod " + p.Name + " is still there"
			if deleted[p.Name] {
				continue
			}
			deleted[p.Name] = true
			err := c.core.Delete().Namespace(namespace).Resource("pods").Name(p.Name).
				Body(&metav1.DeleteOptions{GracePeriodSeconds: &now}).Do(ctx).Error()
			if err != nil && !apierrors.IsNotFound(err) {
				return "", fmt.Errorf("delete pod %s: %w", p.Name, err)
			}
		}
		return left, nil
	})
}

// Pod says how a pod is.
func (b *Bench) Pod(ctx context.Context, namespace, name string) (out trial.Pod, err error) {
	p, err := b.pod(ctx, namespace+"/"+name)
	if err != nil {
		return out, err
	}
	if ready, why := readiness(p); !ready {
		out.Why = why
		return out, nil
	}
	if out.Addr, err = netip.ParseAddr(p.Status.PodIP); err != nil {
		out.Why = "it has no address yet"
		return out, nil
	}
	out.Addrs, err = statusAddrs(p.Annotations[sandbox.Annotation])
	return out, err
}

// statusAddrs reads the addresses in a network-status, by network, but for the default one.
func statusAddrs(text string) (map[string][]netip.Addr, error) {
	if text == "" {
		return nil, nil
	}
	all, err := sandbox.ParseStatus(text)
	if err != nil {
		return nil, err
	}
	out := map[string][]netip.Addr{}
	for _, n := range all {
		if !n.Default {
			out[n.Network] = n.Addrs
		}
	}
	return out, nil
}

// Stream runs the program in a pod until it ends.
func (b *Bench) Stream(ctx context.Context, namespace, pod string, in io.Reader, out io.Writer, args []string) error {
	return b.run(ctx, place{namespace, pod, "main"}, in, out, args)
}

// Places chooses what a bench has: the image of the agents where none is given, and the nodes
// given, which are to be there and Ready. The networks are to be there too.
func (b *Bench) Places(ctx context.Context, image string, nodes, networks []string) (string, [2]string, error) {
	var two [2]string
	if len(nodes) != 2 || nodes[0] == nodes[1] {
		return "", two, fmt.Errorf("nodes %q: expected two, the clients' first", strings.Join(nodes, ","))
	}
	all, err := b.nodeList(ctx)
	if err != nil {
		return "", two, err
	}
	for i, name := range nodes {
		n := slices.IndexFunc(all, func(n corev1.Node) bool { return n.Name == name })
		if n < 0 {
			return "", two, fmt.Errorf("the cluster has no node %s", name)
		}
		if !slices.ContainsFunc(all[n].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return "", two, fmt.Errorf("node %s is not Ready", name)
		}
		two[i] = name
	}
	for _, name := range networks {
		if err := b.defined(ctx, name); err != nil {
			return "", two, err
		}
	}
	if image == "" {
		if image, err = b.image(ctx, b.agents); err != nil {
			return "", two, err
		}
	}
	if image == "" {
		err = errors.New("there are no agents, whose image would be taken: expected --image REFERENCE")
	}
	return image, two, err
}

// defined returns an error for a network that the cluster does not have.
func (b *Bench) defined(ctx context.Context, name string) error {
	ns, short, ok := strings.Cut(name, "/")
	if !ok {
		return nil // every cluster has it
	}
	o := object{}
	o.APIVersion, o.Kind, o.Namespace, o.Name = "k8s.cni.cncf.io/v1", "Network-Attachment-Definition", ns, short
	var got metav1.PartialObjectMetadata
	err := b.get(ctx, o, &got)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("network %s: the cluster has no such NetworkAttachmentDefinition: "+
			"\"kubectl get network-attachment-definitions -A\" lists what there is", name)
	}
	return err
}

// benchNamespace is what a bench leaves that was killed.
func benchNamespace() object { return namespaceOf(manifest.BenchNamespace) }
