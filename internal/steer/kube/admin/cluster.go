// Package admin speaks to a cluster for those who look after it, as kubectl does: by their
// kubeconfig, and with what that allows. It puts agents on the cluster, takes them from it, and
// asks them.
//
// An agent listens to nobody on a network. It is asked through the API server, by a program in
// its own pod (exec): so a kubeconfig is all that is needed, the cluster's own rules say who may
// ask (the verb create of pods/exec in the agents' namespace), its audit log has who did, and no
// pod can reach what moves other pods' flows.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"pathwise.dev/pathwise/internal/steer/kube"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// Place says which cluster is meant, as kubectl has it.
type Place struct {
	// Kubeconfig is a file; "" is what KUBECONFIG and ~/.kube/config say.
	Kubeconfig string
	// Context of the kubeconfig; "" is the current one.
	Context string
	// Namespace of the pods; "" is the context's.
	Namespace string
	// Agents is the namespace of the agents.
	Agents string
}

// config is what the place comes to.
func (p Place) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.Kubeconfig
	over := &clientcmd.ConfigOverrides{CurrentContext: p.Context, Context: api.Context{Namespace: p.Namespace}}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
}

// Contexts lists those of the kubeconfig.
func (p Place) Contexts() ([]string, error) {
	raw, err := p.config().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	var out []string
	for name := range raw.Contexts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// Cluster is one that is spoken to.
type Cluster struct {
	// Namespace of the pods that are meant.
	Namespace string
	// Say tells who waits what for; nil tells nobody.
	Say func(what string)

	agents      string // namespace of the agents
	cfg         *rest.Config
	core, paths *rest.RESTClient
}

// Open prepares to speak to a cluster; it says nothing to the server yet.
func Open(p Place) (*Cluster, error) {
	cc := p.config()
	cfg, err := cc.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("there is no kubeconfig: name one with --kubeconfig or KUBECONFIG, or make ~/.kube/config")
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	c := &Cluster{agents: p.Agents, cfg: cfg}
	if c.Namespace, _, err = cc.Namespace(); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.UserAgent = "pathwise"
	cfg.QPS, cfg.Burst = 50, 100
	if c.core, err = kube.Client(cfg, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme); err != nil {
		return nil, err
	}
	c.paths, err = kube.Client(cfg, "/apis", v1alpha1.Version(), v1alpha1.Register)
	return c, err
}

// CheckNamespace returns an error where no namespace can be called so.
func CheckNamespace(text string) error {
	if len(validation.IsDNS1123Label(text)) > 0 {
		return errors.New("expected a DNS label, such as default")
	}
	return nil
}

// PodName is the pod that a user means: NAME in the namespace, or NAMESPACE/NAME. What can be no
// pod's name is refused, as a variable that was not set.
func (c *Cluster) PodName(text string) (string, error) {
	name, ok := c.name(text)
	if !ok {
		return "", fmt.Errorf("pod %q: expected NAME or NAMESPACE/NAME", text)
	}
	return name, nil
}

// NetworkName is the network that a user means: "default", a definition in the namespace, or
// NAMESPACE/NAME.
func (c *Cluster) NetworkName(text string) (string, error) {
	if text == "default" {
		return text, nil
	}
	name, ok := c.name(text)
	if !ok {
		return "", fmt.Errorf("network %q: expected default, NAME or NAMESPACE/NAME", text)
	}
	return name, nil
}

// name is what text names in the namespace, or NAMESPACE/NAME; false where nothing can be called so.
func (c *Cluster) name(text string) (string, bool) {
	if !strings.Contains(text, "/") {
		text = c.Namespace + "/" + text
	}
	ns, name, _ := strings.Cut(text, "/")
	return text, CheckNamespace(ns) == nil && len(validation.IsDNS1123Subdomain(name)) == 0
}

// Agent is the agent of a node, as the API server knows its pod.
type Agent struct {
	Node string `json:"node"`
	Pod  string `json:"pod"`
	// Ready as kubelet says; Version as the agent has written, "" before it has.
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	// Why it is not ready.
	Why string `json:"why,omitempty"`
}

// Agents lists the cluster's agents, by node.
func (c *Cluster) Agents(ctx context.Context) ([]Agent, error) {
	var pods corev1.PodList
	err := c.core.Get().Namespace(c.agents).Resource("pods").
		Param("labelSelector", nameLabel+"="+nameValue+",app.kubernetes.io/component=agent").Do(ctx).Into(&pods)
	if err != nil {
		return nil, fmt.Errorf("list agents in namespace %s: %w", c.agents, err)
	}
	var out []Agent
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" {
			ready, why := readiness(&p)
			out = append(out, Agent{Node: p.Spec.NodeName, Pod: p.Name, Ready: ready, Why: why})
		}
	}
	// One that ends may still be there with the one that follows.
	slices.SortFunc(out, func(a, b Agent) int {
		if a.Node != b.Node {
			return strings.Compare(a.Node, b.Node)
		}
		if a.Ready != b.Ready && a.Ready {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(out, func(a, b Agent) bool { return a.Node == b.Node }), nil
}

// readiness is whether a pod is Ready, and why it is not.
func readiness(p *corev1.Pod) (bool, string) {
	if p.DeletionTimestamp != nil {
		return false, "it is being deleted"
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			return false, strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			return true, ""
		}
	}
	return false, "phase " + string(p.Status.Phase)
}

// Nodes lists what agents have found, by node.
func (c *Cluster) Nodes(ctx context.Context) ([]v1alpha1.PathNode, error) {
	var list v1alpha1.PathNodeList
	if err := c.paths.Get().Resource("pathnodes").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list PathNodes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.PathNode) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// Networks lists the PathNetworks, by name.
func (c *Cluster) Networks(ctx context.Context) ([]v1alpha1.PathNetwork, error) {
	var list v1alpha1.PathNetworkList
	if err := c.paths.Get().Resource("pathnetworks").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list PathNetworks: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.PathNetwork) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// pod reads a pod, called NAMESPACE/NAME.
func (c *Cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	ns, short, _ := strings.Cut(name, "/")
	p := &corev1.Pod{}
	err := c.core.Get().Namespace(ns).Resource("pods").Name(short).Do(ctx).Into(p)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %s has no pod %s", ns, short)
	}
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	return p, nil
}

// nodeList reads the cluster's nodes.
func (c *Cluster) nodeList(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := c.core.Get().Resource("nodes").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// raw speaks of whatever kind of object, whose path is given whole.
func (c *Cluster) raw() (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(c.cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	return kube.Client(cfg, "/", schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, metav1.AddMetaToScheme)
}

// execURL is where a command in a container is run.
func (c *Cluster) execURL(at place, command []string) string {
	req := c.core.Verb(http.MethodPost).Namespace(at.namespace).Resource("pods").Name(at.pod).SubResource("exec").
		Param("container", at.container).Param("stdin", "true").Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		req = req.Param("command", word)
	}
	return req.URL().String()
}
