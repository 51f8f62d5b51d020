package experiment

import (
	"fmt"
	"io"
	"slices"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/sample"
)

// Encode writes the experiment with every default filled in, without its quick
// variant, which is an experiment of its own. conflist gives the
// path under which a network's CNI configuration list is kept; Parse reads back
// what Encode wrote.
func (e Experiment) Encode(w io.Writer, conflist func(Network) string) error {
	out := file{Name: e.Name, Description: e.Description, Budget: e.Budget, Paper: studyOf(e.Paper),
		Repetitions: repetitions{Min: e.Repeat.Min, Max: e.Repeat.Max, Width: share(e.Repeat.Width), Claims: e.Repeat.Claims}}
	if n := e.Repeat.Windows; n != 1 {
		out.Repetitions.Windows = windows(n)
	}
	if e.Repeat.Shared {
		out.Repetitions.Builds = buildsShared
	}
	if e.Repeat.Raced {
		out.Repetitions.Until = untilVerdicts
	}
	if e.SkipMissing {
		out.Missing = skip
	}
	for _, n := range e.Networks {
		c := custom{Name: n.Name, Kernel: n.Kernel}
		if n.Find != n.Name {
			l, _, _ := network.ParseList(n.Find) // the catalogue has found it
			c.CNI, c.Route = conflist(n), string(l.Route)
		}
		out.Networks = append(out.Networks, c)
	}
	for _, in := range e.Entries {
		out.Workloads = append(out.Workloads, entryOf(in))
	}
	for _, a := range e.Applicable() {
		out.Applications = append(out.Applications, appliedOf(a))
	}
	for _, c := range e.Claims {
		out.Claims = append(out.Claims, statementOf(c))
	}
	if err := config.Write(w, out); err != nil {
		return fmt.Errorf("encode experiment: %w", err)
	}
	return nil
}

func entryOf(in Entry) entry {
	out := entry{Name: in.Workload, Server: in.Server, Places: placesOf(in.Scenarios), Warmup: in.Window.Warmup,
		Duration: in.Window.Duration, Networks: in.Networks, Kernels: in.Kernels}
	if in.Profile != "" {
		out.Name, out.Profile = Profiled, in.Profile
	}
	for _, l := range in.Loads {
		if l != (sample.Load{}) {
			out.Load = append(out.Load, loadOf(l))
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
