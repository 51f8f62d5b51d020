// Package experiment is the plan of a measurement as a value: networks x
// workloads x loads x repetitions, read from YAML.
//
// It is pure: it runs nothing, and what networks and workloads there are it is
// told by its caller.
package experiment

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
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
	// SkipMissing: a network that the machine lacks something for is recorded as
	// unsupported, with the reason, in place of ending the run before it begins.
	SkipMissing bool
	// Claims are tested on the result; what is measured does not depend on them.
	Claims []claim.Claim
	// Applications of the user's, by which networks are recommended.
	Applications []application.Application
	// Paper is the document whose study the experiment repeats; nil for others.
	Paper *paper.Paper
	// Quick is what a run of minutes has in place of the rest; nil where the
	// file has none.
	Quick *Variant
}

// Variant is what replaces an experiment's own.
type Variant struct {
	Entries []Entry
	Repeat  Repeat
	Budget  time.Duration
}

// AsQuick returns the variant of minutes; ok is false where there is none.
func (e Experiment) AsQuick() (Experiment, bool) {
	if e.Quick == nil {
		return e, false
	}
	e.Name += QuickSuffix
	e.Paper = e.abridged(e.Quick.Entries)
	e.Entries, e.Repeat, e.Budget, e.Quick = e.Quick.Entries, e.Quick.Repeat, e.Quick.Budget, nil
	return e, true
}

// QuickSuffix ends the name of an experiment's quick variant.
const QuickSuffix = "-quick"

// Network is one network of the experiment.
type Network struct {
	Name string
	// Find is what the catalogue is asked for: the name, or cni:FILE.
	Find string
	// Kernel on which it runs: host, or a kind of guest; "" leaves it to the
	// run, and once that has begun is the host's.
	Kernel string
}

// Entry is one workload with the loads and scenarios in which it runs.
type Entry struct {
	Workload string
	// Server is which one the workload asks, where it has a choice; "" is its
	// default.
	Server string
	// Profile is the XML file that the workload runs: that of one of uperf's profiles.
	Profile   string
	Loads     []sample.Load
	Scenarios []topo.Scenario
	Window    workload.Window
	// Extra is what a trial takes besides network and window.
	Extra time.Duration
	// OnlyIPv4 says why the workload cannot speak IPv6; "" where it can.
	OnlyIPv4 string
	// Networks and Kernels limit the workload to some of the experiment's
	// networks, and to those on some kinds of kernels; none means all.
	Networks, Kernels []string
}

// Profiled is the workload that runs a profile from a file.
const Profiled = "uperf"

// Find is what the catalogue is asked for: the workload's name, or uperf:FILE.
func (e Entry) Find() string {
	if e.Profile != "" {
		return Profiled + ":" + e.Profile
	}
	return e.Workload
}

// Repeat is the stopping rule of each cell.
type Repeat struct {
	// Min and Max bound the repetitions.
	Min, Max int
	// Claims, where it is above Min, is the least number for the cells that a claim
	// compares: a verdict rests on few of all cells, and on the repetitions that both
	// sides have.
	Claims int
	// Width is the half width of the confidence interval, as a share of the
	// mean, at which a cell needs no more repetitions.
	Width float64
	// Raced: behind the least number, repetitions go to the claims that are open, those
	// first that the budget can settle, and then to the cells that are wide.
	Raced bool
	// Windows is how many windows each build of a network has, 0 or 1 for one; ChooseWindows
	// leaves it to the run.
	Windows int
	// Shared has the cells of one network and topology that a repetition runs share a build;
	// each cell still has one value for each build.
	Shared bool
}

// ChooseWindows has the run split its time between windows and builds by what they vary.
const ChooseWindows = -1

// Planned is one cell of the plan.
type Planned struct {
	sample.Cell
	Window workload.Window
	// Windows is how many windows a build has; where the run chooses, that it begins with.
	Windows int
	// Extra is what a trial takes besides its window and the half second in which most networks stand.
	Extra time.Duration
	// Least is the number of repetitions that the cell has whatever they tell.
	Least int
	// Unsupported says why the network cannot run in the scenario; "" if it can.
	// The network that carries no traffic by design is planned, as a check.
	Unsupported string
}

// Cells returns every cell once, in the order of the file.
func (e Experiment) Cells(networks map[string]network.Info) []Planned {
	var out []Planned
	claimed := e.claimed()
	for _, entry := range e.Entries {
		for _, scenario := range entry.Scenarios {
			for _, load := range entry.Loads {
				for _, n := range e.Networks {
					if len(entry.Networks) > 0 && !slices.Contains(entry.Networks, n.Name) {
						continue
					}
					cell := sample.Cell{Network: n.Name, Scenario: scenario, Workload: entry.Workload, Load: load}
					why := unsupported(networks[n.Name], entry, scenario)
					least := e.Repeat.Min
					if claimed(cell) {
						least = max(least, e.Repeat.Claims)
					}
					out = append(out, Planned{cell, entry.Window, e.Repeat.windowsOf(entry), entry.Extra + networks[n.Name].Extra,
						least, why})
				}
			}
		}
	}
	return out
}

// windowsOf is how many windows a build has of whose workload nothing is known yet: where
// the run chooses two, but for a workload that takes long apart from each of its windows, and
// where cells share a build, which so costs each of them next to nothing.
func (r Repeat) windowsOf(e Entry) int {
	if !r.Shared && r.Windows == ChooseWindows && e.Extra <= e.Window.Warmup+e.Window.Duration {
		return 2
	}
	return max(r.Windows, 1)
}

// On returns the part of the experiment that runs on a kernel: the networks of
// that kind, and the scenarios marked with the kernel's name in results. The
// host's own kernel has kind and name "".
func (e Experiment) On(kind, name string) Experiment {
	e.Networks = slices.DeleteFunc(slices.Clone(e.Networks), func(n Network) bool { return n.guest() != kind })
	e.Entries = slices.DeleteFunc(slices.Clone(e.Entries), func(entry Entry) bool {
		return len(entry.Kernels) > 0 && !slices.Contains(entry.Kernels, cmp.Or(kind, HostKernel))
	})
	for i := range e.Entries {
		scenarios := slices.Clone(e.Entries[i].Scenarios)
		for j := range scenarios {
			scenarios[j].Kernel = name
		}
		e.Entries[i].Scenarios = scenarios
	}
	return e
}

// Virtual returns the experiment with the kernels of virtual machines as they are
// called in results; label is told the kind, "" where that is left to the run.
func (e Experiment) Virtual(label func(kind string) string) Experiment {
	e.Entries = slices.Clone(e.Entries)
	for i := range e.Entries {
		scenarios := slices.Clone(e.Entries[i].Scenarios)
		for j := range scenarios {
			if s := &scenarios[j]; s.Placement.Virtual() {
				s.VM = label(s.VM)
			}
		}
		e.Entries[i].Scenarios = scenarios
	}
	return e
}

// VMs lists the kinds of virtual machines that the experiment asks for, "" being
// one that is left to the run.
func (e Experiment) VMs() []string {
	var out []string
	for _, entry := range e.Entries {
		for _, s := range entry.Scenarios {
			if s.Placement.Virtual() {
				out = appendNew(out, s.VM)
			}
		}
	}
	return out
}

// guest is the kind of guest that the network runs on; "" for the host.
func (n Network) guest() string {
	if n.Kernel == HostKernel {
		return ""
	}
	return n.Kernel
}

// HostKernel asks for the machine's own kernel.
const HostKernel = "host"

// Kernels lists the kinds of kernels that the networks run on, the host's, "",
// first, then in the order of the file.
func (e Experiment) Kernels() []string {
	var out []string
	for _, n := range e.Networks {
		switch kind := n.guest(); {
		case slices.Contains(out, kind):
		case kind == "":
			out = slices.Insert(out, 0, kind)
		default:
			out = append(out, kind)
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
			n := len(keep)
			for _, has := range e.Networks { // one may stand there for each kernel
				if has.Name == name {
					keep = append(keep, has)
				}
			}
			if len(keep) > n {
				continue
			}
			add := named(name)
			if i := slices.IndexFunc(keep, func(k Network) bool { return k.Name == add.Name && k.Find != add.Find }); i >= 0 {
				return e, fmt.Errorf("--networks: %s and %s would both be called %s: give them names in an experiment's file", keep[i].Find, add.Find, add.Name)
			}
			keep = append(keep, add)
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
			return e, fmt.Errorf("--workloads: experiment %s has no workload %q", e.Name, name)
		}
	}
	e.Entries = keep
	return e, nil
}

// named is the network that a user names on the command line; cni:FILE is
// called after its file.
func named(find string) Network {
	if l, ok, _ := network.ParseList(find); ok { // what is wrong with it the catalogue says
		return Network{Name: l.Name(), Find: find}
	}
	return Network{Name: find, Find: find}
}
