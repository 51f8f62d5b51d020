package experiment

import (
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// file is an experiment as it is written.
type file struct {
	Name        string      `yaml:"name"`
	Description string      `yaml:"description,omitempty"`
	Networks    []any       `yaml:"networks"`
	Repetitions repetitions `yaml:"repetitions"`
	Budget      string      `yaml:"budget,omitempty"`
	Missing     string      `yaml:"missing,omitempty"`
	Workloads   []entry     `yaml:"workloads"`
	Paper       *study      `yaml:"paper,omitempty"`
	// Applications of the user's.
	Applications []applied   `yaml:"applications,omitempty"`
	Claims       []statement `yaml:"claims,omitempty"`
}

type repetitions struct {
	Min   int    `yaml:"min"`
	Max   int    `yaml:"max"`
	Width string `yaml:"width"`
	// Claims is left out where it changes nothing.
	Claims int `yaml:"claims,omitempty"`
	// Until is left out where it is the width.
	Until string `yaml:"until,omitempty"`
	// Windows is a number or auto, and left out where it is one.
	Windows any `yaml:"windows,omitempty"`
	// Builds is left out where each cell has its own.
	Builds string `yaml:"builds,omitempty"`
}

type custom struct {
	Name   string `yaml:"name"`
	CNI    string `yaml:"cni,omitempty"`
	Route  string `yaml:"route,omitempty"`
	Kernel string `yaml:"kernel,omitempty"`
}

type entry struct {
	Name       string           `yaml:"name"`
	Topologies []topo.Placement `yaml:"topologies,flow"`
	Pairs      []int            `yaml:"pairs,flow"`
	MTU        []int            `yaml:"mtu,flow"`
	Outside    []topo.Outside   `yaml:"outside,omitempty,flow"`
	VM         []string         `yaml:"vm,omitempty,flow"`
	Cores      []string         `yaml:"cores,omitempty,flow"`
	Rmem       []string         `yaml:"rmem,omitempty,flow"`
	Family     []int            `yaml:"family,omitempty,flow"`
	Warmup     string           `yaml:"warmup"`
	Duration   string           `yaml:"duration"`
	Networks   []string         `yaml:"networks,omitempty,flow"`
	Kernels    []string         `yaml:"kernels,omitempty,flow"`
	Server     string           `yaml:"server,omitempty"`
	Profile    string           `yaml:"profile,omitempty"`
	Load       []load           `yaml:"load,omitempty"`
}

type load struct {
	Connections int     `yaml:"connections,omitempty"`
	Size        int     `yaml:"size,omitempty"`
	Rate        float64 `yaml:"rate,omitempty"`
	Congestion  string  `yaml:"congestion,omitempty"`
}

// Encode writes the experiment with every default filled in, without its quick
// variant, which is an experiment of its own. conflist gives the
// path under which a network's CNI configuration list is kept; Parse reads back
// what Encode wrote.
func (e Experiment) Encode(w io.Writer, conflist func(Network) string) error {
	out := file{Name: e.Name, Description: e.Description,
		Repetitions: repetitions{e.Repeat.Min, e.Repeat.Max, fmt.Sprintf("%g%%", e.Repeat.Width*100), e.Repeat.Claims, "",
			nil, ""}}
	switch n := e.Repeat.Windows; {
	case n == ChooseWindows:
		out.Repetitions.Windows = chosen
	case n > 1:
		out.Repetitions.Windows = n
	}
	if e.Repeat.Shared {
		out.Repetitions.Builds = buildsShared
	}
	if e.Repeat.Raced {
		out.Repetitions.Until = untilVerdicts
	}
	if e.Budget > 0 {
		out.Budget = e.Budget.String()
	}
	if e.SkipMissing {
		out.Missing = skip
	}
	for _, n := range e.Networks {
		switch entry := (custom{Name: n.Name, Kernel: n.Kernel}); {
		case n.Find != n.Name:
			l, _, _ := network.ParseList(n.Find) // the catalogue has found it
			entry.CNI, entry.Route = conflist(n), string(l.Route)
			out.Networks = append(out.Networks, entry)
		case n.Kernel != "":
			out.Networks = append(out.Networks, entry)
		default:
			out.Networks = append(out.Networks, n.Name)
		}
	}
	for _, in := range e.Entries {
		out.Workloads = append(out.Workloads, encodeEntry(in))
	}
	for _, a := range e.Applicable() {
		out.Applications = append(out.Applications, encodeApplication(a))
	}
	out.Paper = encodePaper(e.Paper)
	for _, c := range e.Claims {
		out.Claims = append(out.Claims, encodeClaim(c))
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("encode experiment: %w", err)
	}
	return enc.Close()
}

func encodeEntry(in Entry) entry {
	out := entry{Name: in.Workload, Server: in.Server, Warmup: in.Window.Warmup.String(),
		Duration: in.Window.Duration.String(), Networks: in.Networks, Kernels: in.Kernels}
	if in.Profile != "" {
		out.Name, out.Profile = Profiled, in.Profile
	}
	for _, s := range in.Scenarios {
		out.Topologies = appendNew(out.Topologies, s.Placement)
		out.Pairs = appendNew(out.Pairs, s.Pairs)
		out.MTU = appendNew(out.MTU, s.MTU)
		if s.VM != "" {
			out.VM = appendNew(out.VM, s.VM)
		}
	}
	if slices.ContainsFunc(in.Scenarios, func(s topo.Scenario) bool { return s != s.On("", s.VM) }) {
		for _, s := range in.Scenarios {
			out.Outside = appendNew(out.Outside, s.Outside)
		}
	}
	if slices.ContainsFunc(in.Scenarios, func(s topo.Scenario) bool { return s.Cores != topo.CoresFree }) {
		for _, s := range in.Scenarios {
			out.Cores = appendNew(out.Cores, s.Cores.Word())
		}
	}
	if slices.ContainsFunc(in.Scenarios, func(s topo.Scenario) bool { return s.Rmem != topo.RmemAuto }) {
		for _, s := range in.Scenarios {
			out.Rmem = appendNew(out.Rmem, s.Rmem.Word())
		}
	}
	if slices.ContainsFunc(in.Scenarios, func(s topo.Scenario) bool { return s.IP() != topo.IPv4 }) {
		for _, s := range in.Scenarios {
			out.Family = appendNew(out.Family, s.IP())
		}
	}
	for _, l := range in.Loads {
		if l != (sample.Load{}) {
			out.Load = append(out.Load, load(l))
		}
	}
	return out
}

func appendNew[T comparable](list []T, x T) []T {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}
