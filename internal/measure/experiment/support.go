package experiment

import (
	"fmt"
	"slices"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// unsupported says why the network, or the workload, cannot run in the scenario; "" where
// both can.
func unsupported(n network.Info, e Entry, s topo.Scenario) string {
	_, why := n.Supports(s.Placement)
	switch {
	case why != "":
		return why
	case s.Kernel != "" && s.Outside != "":
		return "virtual machines and what is outside of them need the machine's own kernel, not a guest's"
	case s.Placement.Virtual() && s.Cores != topo.CoresFree:
		return "generators in virtual machines run on the processors of these: cores is of the machine's own"
	}
	if why := n.Speaks(s.IP()); why != "" {
		return why
	}
	if s.IP() == topo.IPv6 {
		return overIPv6(n, e, s)
	}
	return ""
}

// overIPv6 says why a network with IPv6 addresses cannot be measured over IPv6 there.
func overIPv6(n network.Info, e Entry, s topo.Scenario) string {
	left := s.Wire() - n.Overhead
	switch {
	case e.OnlyIPv4 != "":
		return e.OnlyIPv4
	case s.Placement.Virtual():
		return "hosts in virtual machines have IPv4 addresses alone: expected family: 4"
	case left < topo.LeastIPv6:
		return fmt.Sprintf("MTU %d leaves %d bytes inside the network, and IPv6 needs %d (RFC 8200 section 5)", s.MTU, left, topo.LeastIPv6)
	default:
		return ""
	}
}

// Over returns the experiment with each scenario in the IP families called so, in place of
// its own.
func (e Experiment) Over(words []string) (Experiment, error) {
	var families []int
	for _, w := range words {
		f, err := topo.ParseFamily(w)
		if err != nil {
			return e, err
		}
		families = appendNew(families, f)
	}
	e.Entries = slices.Clone(e.Entries)
	for i := range e.Entries {
		var all []topo.Scenario
		for _, s := range e.Entries[i].Scenarios {
			for _, s.Family = range families {
				all = appendNew(all, s)
			}
		}
		e.Entries[i].Scenarios = all
	}
	return e, nil
}
