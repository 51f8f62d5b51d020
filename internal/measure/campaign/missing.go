package campaign

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/sample"
)

// furnish gives the group its networks. Where the experiment skips what the
// machine lacks, those of them that cannot be built say so, and their cells are
// recorded as unsupported.
func (c *Campaign) furnish(ctx context.Context, g *group) error {
	g.networks = map[string]network.Network{}
	for _, n := range g.exp.Networks {
		net := c.networks[n.Name]
		why, err := c.lack(ctx, *g, net.Info().Needs)
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
func (c *Campaign) leaveOut() {
	if !c.exp.SkipMissing {
		return
	}
	lacking := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.workloads)) {
		if miss := c.Kernels.host.Missing(c.needs(name)); len(miss) > 0 {
			lacking[name] = true
			text := "left out: " + bench.Reason(network.CannotRun("workload "+name, miss))
			c.lacks = append(c.lacks, sample.Warning{Gate: "missing", Text: text})
			delete(c.workloads, name)
		}
	}
	lost := func(e experiment.Entry) bool { return lacking[e.Workload] }
	c.exp.Entries = slices.DeleteFunc(slices.Clone(c.exp.Entries), lost)
}

// needs are what the workload needs of the machine, the congestion controls of its loads
// too where the host's kernel is the one that gives them.
func (c *Campaign) needs(name string) []network.Need {
	out := slices.Clone(c.workloads[name].Info().Needs)
	onHost := func(n experiment.Network) bool { return n.Kernel == "" }
	if !slices.ContainsFunc(c.exp.Networks, onHost) {
		return slices.DeleteFunc(out, func(n network.Need) bool { return n.Kind == network.Congestion })
	}
	for _, e := range c.exp.Entries {
		for _, l := range e.Loads {
			need := network.NeedCongestion(l.Congestion)
			if e.Workload == name && l.Congestion != "" && !slices.Contains(out, need) {
				out = append(out, need)
			}
		}
	}
	return out
}

// infos describes networks by name.
func infos(networks map[string]network.Network) map[string]network.Info {
	out := map[string]network.Info{}
	for name, n := range maps.All(networks) {
		out[name] = n.Info()
	}
	return out
}

// Uninstalled says, a line each, what networks and workloads cannot run for want of programs
// or plugins: a dry run can tell of these without root and without asking a kernel.
func (c *Campaign) Uninstalled() error {
	var errs []error
	told := map[string]bool{} // a network may be on several kernels
	for _, g := range c.groups {
		for _, n := range g.exp.Networks {
			info := g.networks[n.Name].Info()
			if info.Absent != "" || told[n.Name] {
				continue
			}
			told[n.Name] = true
			errs = append(errs, c.Kernels.host.Uninstalled("network "+n.Name, info.Needs))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.workloads)) {
		errs = append(errs, c.Kernels.host.Uninstalled("workload "+name, c.needs(name)))
	}
	return errors.Join(errs...)
}

// lack is why needs are not met on the group's kernel; "" where they are, where
// the experiment does not skip them, and where only root could tell.
func (c *Campaign) lack(ctx context.Context, g group, needs []network.Need) (string, error) {
	switch {
	case !c.exp.SkipMissing || os.Geteuid() != 0:
		return "", nil
	case g.nowhere != "":
		return g.nowhere, nil
	}
	miss, err := c.missingOn(ctx, g, needs)
	if err != nil && !errors.Is(err, ErrNoRoot) {
		return "", err
	}
	var parts []string
	for _, m := range miss {
		parts = append(parts, m.String())
	}
	return strings.Join(parts, "; "), nil
}

// missingOn lists what a group's kernel and the machine do not have.
func (c *Campaign) missingOn(ctx context.Context, g group, needs []network.Need) ([]network.Missing, error) {
	miss := c.Kernels.host.Missing(needs)
	if g.label == "" || c.inside {
		return miss, nil
	}
	lacks, err := c.Kernels.without(ctx, g.kernel, needs)
	// Programs and plugins are the host's in the guest too.
	miss = slices.DeleteFunc(miss, func(m network.Missing) bool { return m.Kind.Kernel() })
	return append(miss, lacks...), err
}
