// Package experiment is the plan of a measurement as a value: networks x
// workloads x loads x repetitions, read from YAML.
//
// It is pure: it runs nothing, and what networks and workloads there are it is
// told by its caller.
package experiment

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
)

// Experiment says what is measured.
type Experiment struct {
	Name        string
	Description string
	// Networks in the order of the file.
	Networks []Network
	Entries  []Entry
	Repeat   Repeat
	// Budget bounds the wall time of the run; 0 means none. The least number
	// of repetitions is run all the same.
	Budget time.Duration
}

// Network is one network of the experiment.
type Network struct {
	Name string
	// Find is what the catalogue is asked for: the name, or cni:FILE.
	Find string
}

// Entry is one workload with the loads and scenarios in which it runs.
type Entry struct {
	Workload  string
	Loads     []sample.Load
	Scenarios []topo.Scenario
	Window    workload.Window
}

// Repeat is the stopping rule of each cell.
type Repeat struct {
	// Min and Max bound the repetitions.
	Min, Max int
	// Width is the half width of the confidence interval, as a share of the
	// mean, at which a cell needs no more repetitions.
	Width float64
}

// Planned is one cell of the plan.
type Planned struct {
	sample.Cell
	Window workload.Window
	// Unsupported says why the network cannot run in the scenario; "" if it can.
	// The network that carries no traffic by design is planned, as a check.
	Unsupported string
}

// Cells returns every cell once, in the order of the file.
func (e Experiment) Cells(networks map[string]network.Info) []Planned {
	var out []Planned
	for _, entry := range e.Entries {
		for _, scenario := range entry.Scenarios {
			for _, load := range entry.Loads {
				for _, n := range e.Networks {
					cell := sample.Cell{Network: n.Name, Scenario: scenario, Workload: entry.Workload, Load: load}
					_, why := networks[n.Name].Supports(scenario.Placement)
					out = append(out, Planned{cell, entry.Window, why})
				}
			}
		}
	}
	return out
}

// Order returns the order of n cells in repetition rep, a random one that
// depends on the seed and the repetition alone, so that a resumed run goes on
// as the first would have.
func Order(seed uint64, rep, n int) []int {
	return rand.New(rand.NewPCG(seed, uint64(rep))).Perm(n)
}

// Only returns the experiment with the named networks and workloads alone;
// empty lists keep all. Networks that the experiment does not have are added.
func (e Experiment) Only(networks, workloads []string) (Experiment, error) {
	if len(networks) > 0 {
		e.Networks = slices.Clone(e.Networks)
		var keep []Network
		for _, name := range networks {
			i := slices.IndexFunc(e.Networks, func(n Network) bool { return n.Name == name })
			if i >= 0 {
				keep = append(keep, e.Networks[i])
			} else {
				keep = append(keep, named(name))
			}
		}
		e.Networks = keep
	}
	if len(workloads) == 0 {
		return e, nil
	}
	var keep []Entry
	for _, name := range workloads {
		n := len(keep)
		for _, entry := range e.Entries {
			if entry.Workload == name {
				keep = append(keep, entry)
			}
		}
		if len(keep) == n {
			return e, fmt.Errorf("experiment %s has no workload %q", e.Name, name)
		}
	}
	e.Entries = keep
	return e, nil
}

// named is the network that a user names on the command line; cni:FILE is
// called after its file.
func named(find string) Network {
	if path, ok := strings.CutPrefix(find, "cni:"); ok {
		base := filepath.Base(path)
		return Network{"cni-" + strings.TrimSuffix(base, filepath.Ext(base)), find}
	}
	return Network{find, find}
}
