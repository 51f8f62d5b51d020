// Package workload is the catalogue of load generators: what load is offered
// between pods, and which figures come back.
//
// A workload knows pods only by their addresses and runs its generators inside
// them; which network carries the traffic, how often it is measured and what
// the figures mean are other packages' business.
package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Workload offers one kind of load.
type Workload interface {
	Info() Info
	// Run offers the load for the window's warm-up and duration and returns
	// what was measured in its duration only. It calls meter.Begin and
	// meter.End at the ends of exactly that part. It leaves no process
	// behind, also when ctx ends.
	Run(ctx context.Context, bed Bed, load sample.Load, window Window, meter Meter) (Outcome, error)
}

// Congestion is the congestion control of both ends of TCP connections where the load
// names none, whatever the machine's default: it is Linux's own, and BBR, which some
// machines set, paces its sending and so measures something else.
const Congestion = "cubic"

// CongestionOf is the load's congestion control.
func CongestionOf(l sample.Load) string { return cmp.Or(l.Congestion, Congestion) }

// congestionKnob is the load key "congestion".
const congestionKnob = "congestion"

// Served is a workload whose server the user may choose.
type Served interface {
	// With returns the workload with that server in place of its default.
	With(server string) (Workload, error)
}

// Info describes a workload of the catalogue.
type Info struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Tool is the generator and what is counted.
	Tool  string         `json:"tool"`
	Needs []network.Need `json:"-"`
	// Metrics names the figures that an outcome carries; the first is the main one.
	Metrics []string `json:"metrics"`
	// Knobs are the load keys that the workload understands: "connections", "size",
	// "rate", "congestion".
	Knobs []string `json:"knobs"`
	// Default is the load where the experiment names none.
	Default sample.Load `json:"default"`
	// Min is the least value of each knob that makes sense; 0 means anything above 0.
	Min sample.Load `json:"min,omitzero"`
	// Max is the largest value of each knob that makes sense; 0 means no such knob.
	Max sample.Load `json:"max"`
	// Pairs says whether several pod pairs at once make sense.
	Pairs bool `json:"pairs"`
	// OnlyIPv4 says why the workload cannot speak IPv6; "" where it can.
	OnlyIPv4 string `json:"only_ipv4,omitempty"`
	// Server says which servers there can be, where the user may choose; such a
	// workload is Served.
	Server string `json:"server,omitempty"`
	// MinDuration is the window's least sensible length.
	MinDuration time.Duration `json:"-"`
	// Extra is about what a trial takes besides its network and its window, as to
	// search for a rate or to fill a database: by it plans are timed.
	Extra time.Duration `json:"-"`
}

// Check returns an error that names the load key that the workload cannot take.
func (i Info) Check(l sample.Load) error {
	for _, k := range []struct {
		name            string
		value, min, max float64
	}{
		{"connections", float64(l.Connections), float64(i.Min.Connections), float64(i.Max.Connections)},
		{"size", float64(l.Size), float64(i.Min.Size), float64(i.Max.Size)},
		{"rate", l.Rate, i.Min.Rate, i.Max.Rate},
	} {
		switch {
		case k.value == 0:
		case k.max == 0:
			return fmt.Errorf("%s: workload %s has no such load; it takes %v", k.name, i.Name, i.Knobs)
		case !(k.value > 0) || k.value > k.max:
			return fmt.Errorf("%s: %g is out of range: expected more than 0 and at most %g", k.name, k.value, k.max)
		case k.value < k.min:
			return fmt.Errorf("%s: %g is out of range: expected at least %g and at most %g", k.name, k.value, k.min, k.max)
		}
	}
	if l.Congestion != "" && !slices.Contains(i.Knobs, congestionKnob) {
		return fmt.Errorf("%s: workload %s has no such load; it takes %v", congestionKnob, i.Name, i.Knobs)
	}
	return nil
}

// Fill returns l with the workload's defaults where l says nothing. A congestion control
// that is the default is left out, as results say nothing of it.
func (i Info) Fill(l sample.Load) sample.Load {
	if l.Connections == 0 {
		l.Connections = i.Default.Connections
	}
	if l.Size == 0 {
		l.Size = i.Default.Size
	}
	if l.Rate == 0 {
		l.Rate = i.Default.Rate
	}
	if l.Congestion == Congestion {
		l.Congestion = ""
	}
	return l
}

// Window is how long load is offered.
type Window struct {
	// Warmup is offered and not measured.
	Warmup time.Duration
	// Duration is measured.
	Duration time.Duration
}

// Meter is told the ends of the measured window.
type Meter interface {
	Begin()
	End()
}

// Bed is where the load runs.
type Bed struct {
	// Pairs of pods; all of them carry load at once.
	Pairs []Pair
	// Dir takes files of the run; it goes with the bed, also after a kill. ""
	// means the system's directory for temporary files.
	Dir string
	Ground
}

// Pair is a client pod and the server pod that it talks to, at Server.Service.
type Pair struct {
	Client, Server topo.Pod
}

// Ground acts in pods.
type Ground interface {
	// Exec runs a program in the pod's network namespace until it ends or ctx
	// does, and then kills it and its children. A non-zero exit is an
	// *ExecError; the program.Result holds what the program wrote and used even then,
	// as some tools explain themselves on standard output.
	Exec(ctx context.Context, pod topo.Pod, argv ...string) (program.Result, error)
	// Do runs fn on a thread in the pod's network namespace.
	Do(pod topo.Pod, fn func() error) error
	// Launch starts one more pod on the host by a real container runtime and
	// returns when the runtime says that it runs.
	Launch(ctx context.Context, host int, r oci.Runtime) (oci.Launch, error)
}

// Forgetful is a Ground whose network may cache flows.
type Forgetful interface {
	// Forget has the network forget the flows that it caches; false where it caches none.
	Forget(ctx context.Context) (bool, error)
}

// Forget has the ground's network forget the flows that it caches; false where it caches
// none.
func Forget(ctx context.Context, g Ground) (bool, error) {
	if f, ok := g.(Forgetful); ok {
		return f.Forget(ctx)
	}
	return false, nil
}

// Outcome is what a workload measured.
type Outcome struct {
	Metrics map[string]float64
	Latency *sample.Histogram
	Series  []sample.Point
	// Bytes of payload received and Operations finished in the window: the
	// work that CPU cost is divided by. Zero where the workload has no such notion.
	Bytes, Operations float64
	// Window is how long it was measured, where that is not as asked for.
	Window time.Duration
	// GeneratorUser is the user-mode CPU time of the busiest single-threaded
	// generator process, as a share of its wall time: near 1 it bounds the figure.
	GeneratorUser float64
	Warnings      []sample.Warning
	// Notes are facts that the workload's name leaves open, such as which
	// server it was.
	Notes   []string
	Details map[string]string
}
