package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/experiment"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/sample"
)

// furnish gives the group its networks. Where the experiment skips what the
// machine lacks, those of them that cannot be built say so, and their cells are
// recorded as unsupported.
func (b *benchRun) furnish(ctx context.Context, g *group) error {
	g.networks = map[string]network.Network{}
	for _, n := range g.exp.Networks {
		net := b.networks[n.Name]
		why, err := b.lack(ctx, *g, net.Info().Needs)
		if err != nil {
			return err
		}
		if why != "" {
			net = network.Absent(net, why)
		}
		g.networks[n.Name] = net
	}
	g.cells = g.exp.Cells(infos(g.networks))
	return nil
}

// leaveOut drops the workloads that the machine lacks something for, where the
// experiment goes on without what is missing, and says so.
func (b *benchRun) leaveOut() {
	if !b.exp.SkipMissing {
		return
	}
	lacking := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(b.workloads)) {
		if miss := b.places.host.Missing(b.workloads[name].Info().Needs); len(miss) > 0 {
			lacking[name] = true
			b.lacks = append(b.lacks, sample.Warning{Gate: "missing", Text: "left out: " + oneLine(missingError("workload "+name, miss))})
			delete(b.workloads, name)
		}
	}
	b.exp.Entries = slices.DeleteFunc(slices.Clone(b.exp.Entries), func(e experiment.Entry) bool { return lacking[e.Workload] })
}

// infos describes networks by name.
func infos(networks map[string]network.Network) map[string]network.Info {
	out := map[string]network.Info{}
	for name, n := range maps.All(networks) {
		out[name] = n.Info()
	}
	return out
}

// lack is why needs are not met on the group's kernel; "" where they are, where
// the experiment does not skip them, and where only root could tell.
func (b *benchRun) lack(ctx context.Context, g group, needs []network.Need) (string, error) {
	switch {
	case !b.exp.SkipMissing || os.Geteuid() != 0:
		return "", nil
	case g.nowhere != "":
		return g.nowhere, nil
	}
	miss, err := b.missingOn(ctx, g, needs)
	if err != nil && !errors.Is(err, errNoRoot) {
		return "", err
	}
	var parts []string
	for _, m := range miss {
		parts = append(parts, m.String())
	}
	return strings.Join(parts, "; "), nil
}

// missingOn lists what a group's kernel and the machine do not have.
func (b *benchRun) missingOn(ctx context.Context, g group, needs []network.Need) ([]network.Missing, error) {
	miss := b.places.host.Missing(needs)
	if g.label == "" || b.inside {
		return miss, nil
	}
	lacks, err := b.places.without(ctx, g.kernel, needs)
	// Programs and plugins are the host's in the guest too.
	miss = slices.DeleteFunc(miss, func(m network.Missing) bool { return m.Kind.Kernel() })
	return append(miss, lacks...), err
}
