package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// Ground is two pods of a test on a cluster. See package selftest, which says what each method
// is to do.
type Ground struct {
	*Cluster
	nodes   [2]string
	options manifest.Options
	client  *agent.Client // of the client's agent; nil where it is to be found again
	held    *claim        // the pods' namespace; nil before Make
}

// HoleMade is what the program says that loses a pod's packets, once it does.
const HoleMade = "packets are lost\n"

// Ports of the test's server.
const testRR, testUDP = "7002", "7003"

// Ground prepares a test on two nodes, those given or else the first two whose agents are ready,
// over the networks given or else all that flows may be moved to. It makes nothing yet, and
// returns the networks.
func (c *Cluster) Ground(ctx context.Context, o manifest.Options, nodes []string) (*Ground, []string, error) {
	g := &Ground{Cluster: c, options: o}
	s, err := c.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	if g.nodes, err = twoNodes(s.Agents, nodes); err != nil {
		return nil, nil, err
	}
	if g.options.Networks, err = tried(s.Networks, o.Networks); err != nil {
		return nil, nil, err
	}
	if g.options.Image, err = c.image(ctx, c.agents); err != nil {
		return nil, nil, err
	}
	return g, g.options.Networks, nil
}

// twoNodes are those that are asked for, or else the first two whose agents are ready. Pods for a node
// that there is not would be waited for.
func twoNodes(all []Agent, asked []string) (nodes [2]string, err error) {
	var ready []string
	for _, a := range all {
		if a.Ready {
			ready = append(ready, a.Node)
		}
	}
	if len(asked) == 0 {
		asked = ready[:min(len(ready), 2)]
	}
	if len(asked) != 2 || asked[0] == asked[1] {
		return nodes, fmt.Errorf("nodes %s: expected two that have agents at work", strings.Join(asked, ", "))
	}
	for _, n := range asked {
		if !slices.Contains(ready, n) {
			return nodes, fmt.Errorf("node %s: no agent is at work there: \"pathwise kube status\" says where some are", n)
		}
	}
	return [2]string(asked), nil
}

// tried are the networks that are asked for, or all that flows may be moved to.
func tried(all []Network, asked []string) (out []string, err error) {
	for _, n := range all {
		wanted := slices.Contains(asked, n.Attachment)
		if wanted && !n.Allowed {
			return nil, fmt.Errorf("network %s: %s", n.Attachment, n.Why)
		}
		if n.Allowed && (wanted || len(asked) == 0) {
			out = append(out, n.Attachment)
		}
	}
	for _, n := range asked {
		if !slices.Contains(out, n) {
			return nil, fmt.Errorf("network %s: no PathNetwork names it, and no pod is on it", n)
		}
	}
	return out, nil
}

// Make makes the pods.
func (g *Ground) Make(ctx context.Context) error {
	var api corev1.Service // has an address of the family that pods have first
	if err := g.core.Get().Namespace("default").Resource("services").Name("kubernetes").Do(ctx).Into(&api); err != nil {
		return fmt.Errorf("read service kubernetes: %w", err)
	}
	every := anywhere(api.Spec.ClusterIP)
	rr, udp := net.JoinHostPort(every, testRR), net.JoinHostPort(every, testUDP)
	all, err := objectsOf(manifest.Test(g.options, g.nodes, rr, udp))
	if err != nil {
		return err
	}
	// What a test has left that was killed goes, and another at the same time is refused.
	if _, g.held, err = g.claim(ctx, all[0], usualTimes()); err != nil {
		return err
	}
	for _, o := range all[1:] {
		if err := g.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// anywhere is every address of the family of ip.
func anywhere(ip string) string {
	if strings.Contains(ip, ":") {
		return "::"
	}
	return "0.0.0.0"
}

// Remove removes the namespace of the pods, with all that is in it.
func (g *Ground) Remove(ctx context.Context) error {
	if g.held == nil {
		return nil
	}
	return g.held.release(ctx)
}

func testNamespace() object { return namespaceOf(manifest.TestNamespace) }

// Address waits until the pod is Ready, and is its address.
func (g *Ground) Address(ctx context.Context, pod string) (ip string, err error) {
	err = until(ctx, time.Minute, func() (string, error) {
		p, err := g.pod(ctx, manifest.TestNamespace+"/"+pod)
		if err != nil {
			return err.Error(), nil // it may come
		}
		ready, why := readiness(p)
		if !ready {
			return fmt.Sprintf("pod %s is not Ready: %s", pod, why), nil
		}
		ip = p.Status.PodIP
		return "", nil
	})
	return ip, err
}

// Run runs the program in a pod.
func (g *Ground) Run(ctx context.Context, pod string, input io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.run(ctx, place{manifest.TestNamespace, pod, "rr"}, input, &out, args)
	return out.Bytes(), err
}

// run runs the program in a container.
func (c *Cluster) run(ctx context.Context, at place, input io.Reader, out io.Writer, args []string) error {
	exec, err := c.executor(at, append([]string{"/pathwise"}, args...))
	if err != nil {
		return err
	}
	said := &stderr{}
	err = exec.StreamWithContext(klog.NewContext(ctx, logr.Discard()),
		remotecommand.StreamOptions{Stdin: input, Stdout: out, Stderr: said})
	if text := strings.TrimSpace(said.String()); text != "" && err != nil && ctx.Err() == nil {
		return errors.New(strings.TrimPrefix(text, "pathwise: "))
	}
	return err
}

// agent is the one of the client's node.
func (g *Ground) agent(ctx context.Context) (*agent.Client, error) {
	if g.client == nil {
		all, err := g.Ask(ctx, g.nodes[:1], manifest.Dir)
		if err != nil {
			return nil, err
		}
		g.client = all[g.nodes[0]]
	}
	return g.client, nil
}

func testName(pod string) string { return manifest.TestNamespace + "/" + pod }

// Paths are those of the two pods.
func (g *Ground) Paths(ctx context.Context) ([]agent.PathStatus, error) {
	c, err := g.agent(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Paths(ctx)
	if err != nil {
		g.client = nil
		return nil, err
	}
	return slices.DeleteFunc(all, func(p agent.PathStatus) bool {
		return p.Pair != testName(manifest.TestClient)+">"+testName(manifest.TestServer)
	}), nil
}

// Switch moves the flows that the client has opened.
func (g *Ground) Switch(ctx context.Context, network string) error {
	return g.order(ctx, network, false)
}

// Pin also keeps them there; with "" they are kept nowhere.
func (g *Ground) Pin(ctx context.Context, network string) error {
	return g.order(ctx, network, network != "")
}

func (g *Ground) order(ctx context.Context, network string, pin bool) error {
	c, err := g.agent(ctx)
	if err != nil {
		return err
	}
	_, err = c.Order(ctx, agent.Order{Local: testName(manifest.TestClient), Remote: testName(manifest.TestServer),
		Network: network, Pin: pin})
	return err
}

// Kill removes the pod of the agent of the client's node at once.
func (g *Ground) Kill(ctx context.Context) error {
	all, err := g.Cluster.Agents(ctx)
	if err != nil {
		return err
	}
	g.client = nil
	for _, a := range all {
		if a.Node == g.nodes[0] {
			now := int64(0)
			return g.core.Delete().Namespace(g.agents).Resource("pods").Name(a.Pod).
				Body(&metav1.DeleteOptions{GracePeriodSeconds: &now}).Do(ctx).Error()
		}
	}
	return fmt.Errorf("no agent is on %s", g.nodes[0])
}

// Agents waits until every agent is at work.
func (g *Ground) Agents(ctx context.Context) error {
	_, err := g.Await(ctx, time.Minute)
	return err
}

// Hole loses what comes to the server over the network, by a program in the pod of its agent.
func (g *Ground) Hole(ctx context.Context, network string) (io.Closer, error) {
	sandbox, dev, err := g.attachment(ctx, network)
	if err != nil {
		return nil, err
	}
	all, err := g.Cluster.Agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.Node == g.nodes[1] {
			return g.tunnelTo(ctx, place{g.agents, a.Pod, "agent"}, []string{"/pathwise", "agent-hole", "--sandbox",
				fmt.Sprint(sandbox), "--dev", dev}, HoleMade)
		}
	}
	return nil, fmt.Errorf("no agent is on %s", g.nodes[1])
}

// attachment is where the server is on the network, as its node's agent has found it.
func (g *Ground) attachment(ctx context.Context, network string) (sandbox int64, dev string, err error) {
	nodes, err := g.Nodes(ctx)
	if err != nil {
		return 0, "", err
	}
	for _, n := range nodes {
		for _, p := range n.Spec.Pods {
			for _, a := range p.Attachments {
				if p.Name == testName(manifest.TestServer) && a.Network == network {
					return p.Sandbox, a.Device, nil
				}
			}
		}
	}
	return 0, "", fmt.Errorf("no agent has found pod %s on %s", manifest.TestServer, network)
}
