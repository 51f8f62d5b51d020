package openshift

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
	"pathwise.dev/pathwise/internal/topo"
)

// writer writes the rules of the hosts' bridges.
type writer struct {
	*ovs.Fabric
	pipeline Pipeline
	// mu guards hosts, for Shortened.
	mu    sync.Mutex
	hosts map[int]*shortened
}

// shortened is a host's rules so far, as Whole has them, and whether those of the bridge are the shortened ones.
type shortened struct {
	rules []string
	done  bool
}

// add adds rules to a host's. Those that are to be shortened are whole until no pod is missing: it takes as long for
// some as for all.
func (w *writer) add(ctx context.Context, h topo.Host, name string, rules []string) error {
	if w.pipeline != Shortened {
		return w.AddFlows(ctx, h, bridge, name, rules)
	}
	w.mu.Lock()
	s := w.hosts[h.Index]
	if s == nil {
		s = &shortened{}
		w.hosts[h.Index] = s
	}
	for _, r := range rules {
		if !slices.Contains(s.rules, r) { // pods of one tenant share a rule
			s.rules = append(s.rules, r)
		}
	}
	all, done := slices.Clone(s.rules), s.done
	s.done = false
	w.mu.Unlock()
	if done {
		return w.ReplaceFlows(ctx, h, bridge, name, all)
	}
	return w.AddFlows(ctx, h, bridge, name, rules)
}

// settled shortens the rules of each host that has new ones.
func (w *writer) settled(ctx context.Context, _ []topo.Pod) error {
	return w.Each(func(h topo.Host) error {
		all := w.take(h)
		if len(all) == 0 {
			return nil
		}
		short, err := shorten(all)
		if err != nil {
			return err
		}
		return w.ReplaceFlows(ctx, h, bridge, "shortened", short)
	})
}

// take takes a host's rules, to be shortened, if it has new ones.
func (w *writer) take(h topo.Host) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.hosts[h.Index]
	if s == nil || s.done {
		return nil
	}
	s.done = true
	return slices.Clone(s.rules)
}

// shorten is what the rules can be proved to do without, left out.
func shorten(rules []string) ([]string, error) {
	// few packets tell what costs least here: the tables are few
	const few = 200
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(strings.Join(rules, "\n"))); err != nil {
		return nil, err
	}
	if len(p.Lost) > 0 {
		return nil, fmt.Errorf("shorten the pipeline: rule %q: %s", p.Lost[0].Text, p.Lost[0].Reason)
	}
	r := reduction.Of(p, reduction.Options{Packets: few, Seed: 1})
	out := make([]string, len(r.Pipeline.Flows))
	for i, f := range r.Pipeline.Flows {
		out[i] = r.Pipeline.Print(f, pipeline.AsGiven)
	}
	return out, nil
}
