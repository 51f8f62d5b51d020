package openshift

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/reduction"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

// writer writes the rules of the hosts' bridges.
type writer struct {
	*ovs.Fabric
	pipeline Pipeline
	// mu guards rules: those of each host so far, as Whole has them, for Shortened.
	mu    sync.Mutex
	rules map[int][]string
}

// add adds rules to a host's.
func (w *writer) add(ctx context.Context, h topo.Host, name string, rules []string) error {
	if w.pipeline != Shortened {
		return w.AddFlows(ctx, h, bridge, name, rules)
	}
	w.mu.Lock()
	for _, r := range rules {
		if !slices.Contains(w.rules[h.Index], r) { // pods of one tenant share a rule
			w.rules[h.Index] = append(w.rules[h.Index], r)
		}
	}
	all := slices.Clone(w.rules[h.Index])
	w.mu.Unlock()
	short, err := shorten(all)
	if err != nil {
		return err
	}
	return w.ReplaceFlows(ctx, h, bridge, name, short)
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
