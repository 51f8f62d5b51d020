package campaign

import (
	"cmp"
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/sample"
)

// virtual finds the virtual machines of the group's scenarios, and gives these their
// names. A guest's part of a run has none.
func (c *Campaign) virtual(g *group, exp experiment.Experiment) error {
	g.vms, g.exp = map[string]vm.Config{}, exp
	if g.label != "" {
		return nil
	}
	labels := map[string]string{}
	for _, kind := range exp.VMs() {
		machine, err := c.VM(kind)
		switch {
		case err == nil:
			labels[kind], g.vms[machine.Label()] = machine.Label(), machine
		case c.exp.SkipMissing:
			labels[kind] = cmp.Or(kind, "vm") // its trials fail, with the reason
		default:
			return err
		}
	}
	g.exp = exp.Virtual(func(kind string) string { return labels[kind] })
	return nil
}

// vmWarnings say what the run's virtual machines are.
func (c *Campaign) vmWarnings() []sample.Warning {
	var out []sample.Warning
	for _, g := range c.groups {
		for _, label := range slices.Sorted(maps.Keys(g.vms)) {
			if text := g.vms[label].Warning(); text != "" {
				out = append(out, sample.Warning{Gate: "emulated", Text: text})
			}
		}
	}
	return out
}

// hypervisors boot the machines, by their name in results.
func hypervisors(configs map[string]vm.Config) map[string]bench.Hypervisor {
	out := map[string]bench.Hypervisor{}
	for label, c := range configs {
		h := bench.Hypervisor{Hypervisor: vm.Hypervisor{Config: c}, Note: c.Note()}
		if text := c.Warning(); text != "" {
			h.Warnings = []sample.Warning{{Gate: "emulated", Text: text}}
		}
		out[label] = h
	}
	return out
}
