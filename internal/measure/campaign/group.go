package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/sample"
)

// group is the part of an experiment that runs on one kernel.
type group struct {
	// kernel is the guest's; the zero value is the host.
	kernel guest.Kernel
	// label marks the group's trials; "" for the host.
	label string
	// nowhere says why the kernel cannot be booted, where the experiment goes on
	// without what is missing.
	nowhere string
	exp     experiment.Experiment
	// networks by name, as they are on this kernel.
	networks map[string]network.Network
	cells    []experiment.Planned
	// vms are the virtual machines of its scenarios, by their name in results.
	vms map[string]vm.Config
}

// choose decides on which kernel each network runs, as the caller and the
// experiment ask, and says so where it was not asked.
func (c *Campaign) choose(ctx context.Context, choice string) error {
	for i := range c.exp.Networks {
		n := &c.exp.Networks[i]
		switch {
		case choice == guest.Host:
			n.Kernel = ""
		case choice != Auto:
			n.Kernel = choice
		case n.Kernel == "":
			p, err := c.Kernels.Find(ctx, c.networks[n.Name].Info())
			if err != nil && !errors.Is(err, ErrNoRoot) {
				return err
			}
			if p.Kernel != guest.Host {
				n.Kernel = p.Kernel // "" is the host's, where ready tells what is missing
			}
			if n.Kernel != "" {
				c.moved = append(c.moved, moved{n.Name, n.Kernel, kinds(p.Missing)})
			}
		}
	}
	// The experiment may have named a network once for each of several kernels.
	var once []experiment.Network
	for _, n := range c.exp.Networks {
		if !slices.Contains(once, n) {
			once = append(once, n)
		}
	}
	c.exp.Networks = once
	return nil
}

// moved is a network for which a guest was chosen without being asked for.
type moved struct{ network, kernel, lacks string }

// baselines adds to each kernel its own host network, the only one that the
// others on it can be compared with.
func (c *Campaign) baselines() {
	base := catalogue.Baseline()
	for _, kind := range c.exp.Kernels() {
		if slices.ContainsFunc(c.exp.On(kind, "").Networks, func(n experiment.Network) bool { return n.Name == base }) {
			continue
		}
		c.exp.Networks = append([]experiment.Network{{Name: base, Find: base, Kernel: kind}}, c.exp.Networks...)
	}
}

// group splits the experiment by kernels, the host's first.
func (c *Campaign) group(ctx context.Context) error {
	c.groups = nil
	for _, kind := range c.exp.Kernels() {
		var g group
		if kind != "" {
			var err error
			g.kernel, err = c.Kernels.guest(kind)
			switch {
			case err == nil:
				g.label = g.kernel.Label()
			case c.exp.SkipMissing:
				g.label, g.nowhere = kind, bench.Reason(err)
			default:
				return err
			}
		}
		if err := c.virtual(&g, c.exp.On(kind, g.label)); err != nil {
			return err
		}
		if err := c.furnish(ctx, &g); err != nil {
			return err
		}
		if len(g.cells) > 0 { // a guest would be booted for nothing
			c.groups = append(c.groups, g)
		}
	}
	share(c.groups, c.exp.Budget)
	return nil
}

// share divides the budget by the time that the groups' cells are expected to take.
func share(groups []group, budget time.Duration) {
	var all time.Duration
	for _, g := range groups {
		all += g.length()
	}
	for i := range groups {
		if all > 0 {
			groups[i].exp.Budget = time.Duration(float64(budget) * float64(groups[i].length()) / float64(all))
		}
	}
}

// length is the time that each of the group's cells takes once.
func (g group) length() (d time.Duration) {
	for _, cell := range g.cells {
		d += bench.Estimate(cell)
	}
	return d
}

// shortest is the time that the group takes at least.
func (g group) shortest() (d time.Duration) {
	for _, cell := range g.cells {
		d += time.Duration(cell.Least) * bench.Estimate(cell)
	}
	return d
}

// least is the number of trials that the group has at least.
func (g group) least() (n int) {
	for _, cell := range g.cells {
		if cell.Unsupported == "" {
			n += cell.Least
		} else {
			n++
		}
	}
	return n
}

// readyOn checks that a kernel and the machine have what the group's networks need.
func (c *Campaign) readyOn(ctx context.Context, g group) error {
	for _, n := range g.exp.Networks {
		info := g.networks[n.Name].Info()
		if info.Absent != "" {
			continue
		}
		miss, err := c.missingOn(ctx, g, info.Needs)
		if err != nil {
			return err
		}
		if len(miss) > 0 {
			where := ""
			if g.label != "" {
				where = " on the guest kernel " + g.label
			}
			return network.CannotRun("network "+n.Name+where, miss)
		}
	}
	return nil
}

// kernelWarnings tell a reader of the report what ran where, and why.
func (c *Campaign) kernelWarnings() []sample.Warning {
	var out []sample.Warning
	for _, g := range c.groups {
		if g.label == "" || g.nowhere != "" {
			continue
		}
		var asked, chosen []string
		for _, n := range g.exp.Networks {
			i := slices.IndexFunc(c.moved, func(m moved) bool { return m.network == n.Name && m.kernel == g.kernel.Name })
			switch {
			case i >= 0:
				chosen = append(chosen, fmt.Sprintf("%s (the host's kernel lacks %s)", n.Name, c.moved[i].lacks))
			default:
				asked = append(asked, n.Name)
			}
		}
		text := "on the guest kernel " + g.label + ": " + strings.Join(append(chosen, asked...), ", ") +
			"; figures of different kernels are not ranked against each other"
		out = append(out, sample.Warning{Gate: "kernel", Text: text})
		if g.kernel.Emulated() {
			out = append(out, sample.Warning{Gate: "emulated", Text: g.label +
				" has emulated processors: that its networks work is shown, and their cost " +
				"relative to one another, but no figure says anything about a real machine's speed"})
		}
	}
	return append(out, c.vmWarnings()...)
}
