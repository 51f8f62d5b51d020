package experiment

import (
	"fmt"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/topo"
)

// scenarios combines the keys. A key that a topology has no use for makes no more
// scenarios of it.
func (p places) scenarios() ([]topo.Scenario, error) {
	var out []topo.Scenario
	for _, place := range p.Topologies {
		for _, m := range p.MTU {
			for _, n := range p.Pairs {
				for _, o := range orZero(p.Outside) {
					for _, vm := range orZero(p.VM) {
						s := topo.Scenario{Placement: place, Pairs: n, MTU: m}.On(o, vm)
						if s.Wire() < topo.MinMTU {
							return nil, fmt.Errorf("mtu: %d leaves %d bytes inside the outside %s: expected %d or more", m, s.Wire(), o, topo.MinMTU)
						}
						for _, s.Cores = range orZero(p.Cores) {
							for _, s.Rmem = range orZero(p.Rmem) {
								for _, s.Family = range orZero(families(p.Family)) {
									out = appendNew(out, s)
								}
							}
						}
					}
				}
			}
		}
	}
	return out, nil
}

// placesOf are the keys whose combinations the scenarios are. Those that say what is so
// without them are left out.
func placesOf(scenarios []topo.Scenario) (out places) {
	var nested, bound, buffered, ipv6 bool
	for _, s := range scenarios {
		out.Topologies, out.Pairs, out.MTU = appendNew(out.Topologies, s.Placement), appendNew(out.Pairs, s.Pairs),
			appendNew(out.MTU, s.MTU)
		if s.VM != "" {
			out.VM = appendNew(out.VM, s.VM)
		}
		out.Outside, nested = appendNew(out.Outside, s.Outside), nested || s != s.On("", s.VM)
		out.Cores, bound = appendNew(out.Cores, s.Cores), bound || s.Cores != topo.CoresFree
		out.Rmem, buffered = appendNew(out.Rmem, s.Rmem), buffered || s.Rmem != topo.RmemAuto
		out.Family, ipv6 = appendNew(out.Family, s.IP()), ipv6 || s.IP() != topo.IPv4
	}
	if !nested {
		out.Outside = nil
	}
	if !bound {
		out.Cores = nil
	}
	if !buffered {
		out.Rmem = nil
	}
	if !ipv6 {
		out.Family = nil
	}
	return out
}

func (p place) where() claim.Where {
	w := claim.Where{Workload: p.Workload, Placements: p.Topologies, Pairs: p.Pairs, MTUs: p.MTU, Outsides: p.Outside,
		Families: families(p.Family), Kernels: p.Kernels}
	for _, l := range p.Load {
		w.Loads = append(w.Loads, l.combinations()...)
	}
	return w
}

func placeOf(w claim.Where) place {
	out := place{Workload: w.Workload, Topologies: w.Placements, Pairs: w.Pairs, MTU: w.MTUs, Outside: w.Outsides,
		Kernels: w.Kernels}
	for _, f := range w.Families {
		out.Family = append(out.Family, topo.Scenario{Family: f}.IP())
	}
	for _, l := range w.Loads {
		out.Load = append(out.Load, loadOf(l))
	}
	return out
}

func (p place) empty() bool {
	return p.Workload == "" && len(p.Topologies)+len(p.Pairs)+len(p.MTU)+len(p.Outside)+len(p.Family)+len(p.Kernels)+len(
		p.Load) == 0
}
