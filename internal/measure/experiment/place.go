package experiment

import (
	"fmt"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/topo"
)

// places are the keys that say where pods stand; scenarios are their combinations.
type places struct {
	placements []topo.Placement
	pairs      []int
	mtus       []int
	// outsides and vms are empty where the file leaves them to the topologies and to
	// the run.
	outsides []topo.Outside
	vms      []string
	cores    []topo.Cores
	rmems    []topo.Rmem
	// families are as Scenario has them.
	families []int
}

// everywhere is what an experiment has that says nothing.
func everywhere() places {
	return places{placements: []topo.Placement{topo.TwoHosts}, pairs: []int{1}, mtus: []int{topo.DefaultMTU}}
}

// fields adds the keys to others.
func (p *places) fields(others map[string]config.Field, c Catalogue) map[string]config.Field {
	others["topologies"] = placements(&p.placements)
	others["pairs"] = ints(&p.pairs, 1, topo.MaxPairs)
	others["mtu"] = ints(&p.mtus, topo.MinMTU, topo.MaxMTU)
	others["outside"] = outsides(&p.outsides)
	others["cores"] = list(&p.cores, func(v config.Value) (topo.Cores, error) {
		s, err := v.Text()
		if err != nil {
			return "", err
		}
		return topo.ParseCores(s)
	})
	others["rmem"] = list(&p.rmems, parseRmem)
	others["family"] = families(&p.families)
	others["vm"] = list(&p.vms, func(v config.Value) (string, error) {
		kind, err := v.Text()
		if err == nil && kind == HostKernel {
			return "", fmt.Errorf("%q is no kernel of a virtual machine", kind)
		}
		if err == nil && c.Kernel != nil {
			err = c.Kernel(kind)
		}
		return kind, err
	})
	return others
}

// scenarios combines the keys. A key that a topology has no use for makes no more
// scenarios of it.
func (p places) scenarios() ([]topo.Scenario, error) {
	var out []topo.Scenario
	for _, place := range p.placements {
		for _, m := range p.mtus {
			for _, n := range p.pairs {
				for _, o := range orZero(p.outsides) {
					for _, vm := range orZero(p.vms) {
						s := topo.Scenario{Placement: place, Pairs: n, MTU: m}.On(o, vm)
						if s.Wire() < topo.MinMTU {
							return nil, fmt.Errorf("mtu: %d leaves %d bytes inside the outside %s: expected %d or more", m, s.Wire(), o, topo.MinMTU)
						}
						for _, s.Cores = range orZero(p.cores) {
							for _, s.Rmem = range orZero(p.rmems) {
								for _, s.Family = range orZero(p.families) {
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

// parseRmem reads a receive buffer to begin with.
func parseRmem(v config.Value) (topo.Rmem, error) {
	if word, err := v.Text(); err == nil && word == topo.RmemAuto.Word() {
		return topo.RmemAuto, nil
	}
	n, err := v.Size(int(topo.MinRmem), int(topo.MaxRmem))
	return topo.Rmem(n), err
}

// families reads IP families as Scenario has them.
func families(dst *[]int) config.Field {
	return list(dst, func(v config.Value) (int, error) {
		s, err := v.Text()
		if err != nil {
			return 0, err
		}
		return topo.ParseFamily(s)
	})
}

func placements(dst *[]topo.Placement) config.Field {
	return list(dst, func(v config.Value) (topo.Placement, error) {
		s, err := v.Text()
		if err != nil {
			return "", err
		}
		return topo.ParsePlacement(s)
	})
}

func outsides(dst *[]topo.Outside) config.Field {
	return list(dst, func(v config.Value) (topo.Outside, error) {
		s, err := v.Text()
		if err != nil {
			return "", err
		}
		return topo.ParseOutside(s)
	})
}
