// Package kube reads from a Kubernetes API server what an agent is told of hosts and pods, and
// writes there what the agent has found on its own node. It is the one owner of the
// Kubernetes client.
//
// Of other nodes' pods it knows what their agents have written (PathNode): what the pods'
// annotations say may be of any who may patch them. It decides nothing, and enters no namespace
// itself.
package kube

import (
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// clients speak to the API server: core of pods and nodes, paths of Pathwise's objects.
type clients struct {
	core, paths *rest.RESTClient
	cfg         *rest.Config
}

// connect prepares clients; it says nothing to the server yet. Without a kubeconfig they
// are those of the pod that this runs in.
func connect(kubeconfig string) (clients, error) {
	find := rest.InClusterConfig
	if kubeconfig != "" {
		find = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	cfg, err := find()
	if err != nil {
		return clients{}, fmt.Errorf("find API server: %w", err)
	}
	cfg.UserAgent = "pathwise-agent"
	cfg.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 10 * time.Second}).DialContext
	c := clients{cfg: cfg}
	if c.core, err = Client(cfg, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme); err != nil {
		return c, err
	}
	c.paths, err = Client(cfg, "/apis", v1alpha1.Version(), v1alpha1.Register)
	return c, err
}

// Client is one for the objects of a version of an API group.
func Client(cfg *rest.Config, path string, gv schema.GroupVersion,
	register func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, fmt.Errorf("register %s: %w", gv, err)
	}
	metav1.AddToGroupVersion(scheme, gv)
	own := rest.CopyConfig(cfg)
	own.APIPath, own.GroupVersion = path, &gv
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if gv == corev1.SchemeGroupVersion || gv == networkingv1.SchemeGroupVersion { // half as long as JSON
		own.ContentType, own.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+
			runtime.ContentTypeJSON
	}
	c, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("prepare client of %s: %w", gv, err)
	}
	return c, nil
}

// informer keeps the objects that the selector takes, trimmed to what is needed of them.
func informer(c *rest.RESTClient, resource string, of runtime.Object, selector fields.Selector,
	trim cache.TransformFunc) (cache.SharedInformer, error) {
	i := cache.NewSharedInformer(cache.NewListWatchFromClient(c, resource, metav1.NamespaceAll, selector), of, 0)
	if err := i.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("trim %s: %w", resource, err)
	}
	return i, nil
}

// trimPod keeps what is asked of a pod: a whole one is ten times as large.
func trimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil // one that was missed as it went
	}
	out := &corev1.Pod{}
	out.Namespace, out.Name, out.UID, out.ResourceVersion = p.Namespace, p.Name, p.UID, p.ResourceVersion
	out.Annotations = map[string]string{}
	for _, key := range []string{sandbox.Annotation, SteerAnnotation, NeedAnnotation} {
		if v, ok := p.Annotations[key]; ok {
			out.Annotations[key] = v
		}
	}
	out.Labels = p.Labels // policies select by them
	out.Spec.NodeName, out.Spec.HostNetwork, out.Spec.RuntimeClassName = p.Spec.NodeName, p.Spec.HostNetwork,
		p.Spec.RuntimeClassName
	out.Status.Phase, out.Status.PodIPs = p.Status.Phase, p.Status.PodIPs
	return out, nil
}

// trimObject drops who has written which field, which is longer than the fields.
func trimObject(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
		o.SetLabels(nil)
	}
	return obj, nil
}
