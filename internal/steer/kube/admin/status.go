package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// Status is how Pathwise fares on a cluster.
type Status struct {
	// Wanted is the number of nodes that are to have an agent.
	Wanted   int       `json:"wanted"`
	Agents   []Agent   `json:"agents"`
	Networks []Network `json:"networks"`
	// Pods are those on several networks, and Refused those that are left alone as what is
	// said of them is not so.
	Pods     int                `json:"pods"`
	Refused  int                `json:"refused"`
	Refusals []v1alpha1.Refusal `json:"refusals,omitempty"`
	Pairs    Pairs              `json:"pairs"`
}

// Network is one that flows could be moved to.
type Network struct {
	// Names of its PathNetworks, none where there is none.
	Names      []string `json:"path_networks,omitempty"`
	Attachment string   `json:"attachment"`
	// Allowed: flows may be moved there; else Why says what forbids it.
	Allowed bool   `json:"allowed"`
	Why     string `json:"why,omitempty"`
	// Agents and Pods count those that are on it, and Barred the pods whose flows may not go
	// there.
	Agents int `json:"agents"`
	Pods   int `json:"pods"`
	Barred int `json:"barred"`
}

// Pairs count those of pods with traffic.
type Pairs struct {
	// Steered are on another network than the default one; Native are on that though others
	// are up.
	Steered int `json:"steered"`
	Native  int `json:"native"`
	// Alone have no other path that is up, by why.
	Alone map[string]int `json:"alone,omitempty"`
}

// Await reads the status again and again until every node's agent is at work, within so long.
func (c *Cluster) Await(ctx context.Context, within time.Duration) (s Status, err error) {
	err = until(ctx, within, func() (string, error) {
		var fault error
		if s, fault = c.Status(ctx); fault != nil {
			return fault.Error(), nil // it may come
		}
		return s.Ready(), nil
	})
	return s, err
}

// Ready says what is still missing until every node's agent is at work; "" is nothing.
func (s Status) Ready() string {
	ready := 0
	for _, a := range s.Agents {
		if !a.Ready {
			return fmt.Sprintf("the agent of %s is not ready: %s", a.Node, a.Why)
		}
		if a.Version == "" {
			return fmt.Sprintf("the agent of %s has written of no pod yet", a.Node)
		}
		ready++
	}
	if ready < s.Wanted || ready == 0 {
		return fmt.Sprintf("%d of %d agents are there", ready, s.Wanted)
	}
	return ""
}

// Status asks the API server, and not the agents.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	s := Status{Pairs: Pairs{Alone: map[string]int{}}}
	var err error
	if s.Wanted, err = c.wanted(ctx); err != nil {
		return s, err
	}
	if s.Agents, err = c.Agents(ctx); err != nil {
		return s, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return s, err
	}
	networks, err := c.Networks(ctx)
	if err != nil {
		return s, err
	}
	for i, a := range s.Agents {
		if n := slices.IndexFunc(nodes, func(n v1alpha1.PathNode) bool { return n.Name == a.Node }); n >= 0 {
			s.Agents[i].Version = nodes[n].Spec.Version
		}
	}
	s.count(nodes, networks)
	return s, nil
}

// wanted is how many nodes are to have an agent.
func (c *Cluster) wanted(ctx context.Context) (int, error) {
	n, err := c.rolled(ctx, daemonSet(c.agents, agentSet))
	if apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("namespace %s has no DaemonSet %s: make it with \"pathwise kube install\"", c.agents, agentSet)
	}
	return n.Desired, err
}

// count says of the networks and pods what the objects do.
func (s *Status) count(nodes []v1alpha1.PathNode, networks []v1alpha1.PathNetwork) {
	by := map[string]*Network{}
	at := func(name string) *Network {
		if by[name] == nil {
			by[name] = &Network{Attachment: name}
		}
		return by[name]
	}
	for _, n := range networks {
		o := at(n.Spec.Attachment)
		o.Names = append(o.Names, n.Name)
	}
	for _, n := range nodes {
		s.Refused += int(n.Status.Refused)
		s.Refusals = append(s.Refusals, n.Status.Refusals...)
		for _, p := range n.Spec.Pods {
			if !p.Agent {
				s.Pods++
			}
			for _, a := range p.Attachments {
				o := at(a.Network)
				if p.Agent {
					o.Agents++
					continue
				}
				o.Pods++
				if a.Barred != "" {
					o.Barred++
				}
			}
		}
	}
	delete(by, sandbox.Default)
	for name, o := range by {
		if o.Why = (scene{networks: networks}).allowed(name); o.Why == "" && o.Agents == 0 {
			o.Why = "no agent is on it, and so none probes it: name it to \"pathwise kube install --network\""
		}
		o.Allowed = o.Why == ""
		s.Networks = append(s.Networks, *o)
	}
	slices.SortFunc(s.Networks, func(a, b Network) int { return strings.Compare(a.Attachment, b.Attachment) })
}

// Traffic counts the pairs that agents tell of.
func (s *Status) Traffic(paths []agent.PathStatus) {
	pairs := map[string][]agent.PathStatus{}
	for _, p := range paths {
		pairs[p.Pair] = append(pairs[p.Pair], p)
	}
	for _, ps := range pairs {
		steered, up, why := false, false, ""
		for _, p := range ps {
			if p.Network == sandbox.Default {
				continue
			}
			steered, up = steered || p.Active, up || p.State == "up"
			if p.State != "up" && why == "" {
				why = strings.TrimSuffix(p.State+": "+p.Why, ": ")
			}
		}
		switch {
		case steered:
			s.Pairs.Steered++
		case up:
			s.Pairs.Native++
		default:
			s.Pairs.Alone[why]++
		}
	}
}
