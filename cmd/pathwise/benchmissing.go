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

// uninstalled says, a line each, what networks and workloads cannot run for want of programs
// or plugins: a dry run can tell of these without root and without asking a kernel.
func (b *benchRun) uninstalled() error {
	var errs []error
	told := map[string]bool{} // a network may be on several kernels
	for _, g := range b.groups {
		for _, n := range g.exp.Networks {
			info := g.networks[n.Name].Info()
			if info.Absent != "" || told[n.Name] {
				continue
			}
			told[n.Name] = true
			errs = append(errs, uninstalled(b.places.host, "network "+n.Name, info.Needs))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.workloads)) {
		errs = append(errs, uninstalled(b.places.host, "workload "+name, b.workloads[name].Info().Needs))
	}
	return errors.Join(errs...)
}

// uninstalled is the error of what is not installed of the needs.
func uninstalled(m *network.Machine, what string, needs []network.Need) error {
	needs = slices.DeleteFunc(slices.Clone(needs), func(n network.Need) bool { return n.Kind != network.Program && n.Kind != network.Plugin })
	if miss := m.Missing(needs); len(miss) > 0 {
		return missingError(what, miss)
	}
	return nil
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
