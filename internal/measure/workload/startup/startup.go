// Package startup measures how long a pod takes from the request for it until
// it answers a ping (Suo et al. 2018): namespace, CNI ADD, container runtime,
// and what the network needs until the first packet passes.
//
// It does not start pods itself: the bed does, by a real container runtime.
package startup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// Startup is the workload startup, or startup-containerd.
type Startup struct {
	// Runtime is runc unless it says otherwise.
	Runtime oci.Runtime
}

// Limits of a trial.
const (
	// least is how many starts a median is made of, also if they take longer
	// than the window.
	least = 3
	// most starts in a trial, warm-up included: they all stay until the bed
	// goes, and a host's address range has some 250.
	most = 100
	// patience bounds the wait for one pod's answer, spacing its pings.
	patience = 10 * time.Second
	spacing  = time.Millisecond
)

// Info implements workload.Workload.
func (k Startup) Info() workload.Info {
	info := workload.Info{
		Name:    "startup",
		Summary: "start of a pod, from the request to its first answered ping",
		Tool:    "runc and CNI, pinged every millisecond by pathwise; the median of the starts that fit the window, at least " + fmt.Sprint(least),
		Needs:   []network.Need{network.NeedRoot(), network.NeedMachineRoot("the runtime wants a control group"), oci.Need()},
		Metrics: []string{sample.Startup}, // and StartupNetwork, where an engine does not attach its pods itself
	}
	if k.Runtime == oci.Containerd {
		info.Name = "startup-containerd"
		info.Summary += ", by containerd"
		info.Tool = strings.Replace(info.Tool, "runc", "containerd with runc", 1)
		info.Needs = append(info.Needs, oci.ContainerdNeeds()...)
	}
	return info
}

// start is one pod's.
type start struct {
	oci.Launch
	// Answered is when its first ping was, or when the runtime said that it
	// runs where nothing can ping it.
	Answered time.Time
}

// Run implements workload.Workload. The window begins with a start and ends
// with the end of one, so it is longer than asked by up to one start; the
// starts of the warm-up, at least one if there is any, fill the page cache.
func (k Startup) Run(ctx context.Context, bed workload.Bed, _ sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	pair := bed.Pairs[0]
	begun := time.Now()
	warm := 0
	for ; w.Warmup > 0 && warm < most/2 && (warm == 0 || time.Since(begun) < w.Warmup); warm++ {
		if _, err := k.one(ctx, bed, pair); err != nil {
			return workload.Outcome{}, fmt.Errorf("run %s: %w", k.Info().Name, err)
		}
	}
	var starts []start
	begun = time.Now()
	m.Begin()
	for len(starts) < least || (time.Since(begun) < w.Duration && warm+len(starts) < most) {
		s, err := k.one(ctx, bed, pair)
		if err != nil {
			return workload.Outcome{}, fmt.Errorf("run %s: %w", k.Info().Name, err)
		}
		starts = append(starts, s)
	}
	m.End()
	out := outcome(starts)
	out.Window = time.Since(begun)
	return out, nil
}

// one starts a pod on the server's host and pings it from the client.
//
// The pinger is ready before the launch begins, but the first ping leaves when
// the runtime says that the pod runs: earlier, nobody knows the pod's address,
// and a ping to an address that is not there yet makes the client's kernel
// repeat its ARP request once a second, which would round every figure up to
// whole seconds. Answered at once, it adds one round trip.
func (k Startup) one(ctx context.Context, bed workload.Bed, pair workload.Pair) (start, error) {
	echo, err := newEcho(bed, pair.Client)
	if err != nil {
		return start{}, err
	}
	defer echo.Close()
	launch, err := bed.Launch(ctx, pair.Server.Host, cmp.Or(k.Runtime, oci.Runc))
	if err != nil {
		return start{}, err
	}
	s := start{Launch: launch, Answered: time.Now()}
	if !launch.Pod.Addr().IsValid() {
		return s, nil
	}
	wait, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	probe := echo.ping
	if published(launch.Pod) {
		probe = func(ctx context.Context, pod topo.Pod) (time.Time, error) { return knock(ctx, bed, pair.Client, pod) }
	}
	if s.Answered, err = probe(wait, launch.Pod); err != nil {
		return s, fmt.Errorf("ping pod %s from pod %s: %w", launch.Pod.Name, pair.Client.Name, err)
	}
	return s, nil
}

// published reports whether others reach only a port of the pod, and at another address.
func published(pod topo.Pod) bool {
	return pod.Service.IsValid() && !pod.Has(pod.Service.Addr())
}

// outcome turns the starts into figures.
func outcome(starts []start) workload.Outcome {
	var whole, net, runtime []float64
	var silent bool
	for _, s := range starts {
		whole = append(whole, s.Answered.Sub(s.Requested).Seconds())
		net = append(net, s.Network.Seconds())
		runtime = append(runtime, s.Runtime.Seconds())
		silent = silent || !s.Pod.Addr().IsValid()
	}
	out := workload.Outcome{
		Metrics:    map[string]float64{sample.Startup: stat.Median(whole)},
		Operations: float64(len(starts)),
		Details: map[string]string{
			"starts":                  list(whole),
			"runtime part of starts":  list(runtime),
			"median of runtime parts": fmt.Sprintf("%.4g s", stat.Median(runtime)),
			"answer":                  "ICMP echo from pod to pod",
		},
	}
	if starts[0].Engine {
		out.Details["network part of starts"] = "not told apart: the engine attaches its pods itself"
	} else {
		out.Metrics[sample.StartupNetwork] = stat.Median(net)
		out.Details["network part of starts"] = list(net)
	}
	switch {
	case silent:
		out.Details["answer"] = "none: until the runtime says that the pod runs"
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "unreachable",
			Text: "the pods have no address to ping: their start ends when the runtime says that they run"})
	case published(starts[0].Pod):
		out.Details["answer"] = "TCP connection to the published port, accepted or refused"
	}
	return out
}

func list(v []float64) string {
	text := make([]string, len(v))
	for i, x := range v {
		text[i] = fmt.Sprintf("%.4g", x)
	}
	return strings.Join(text, " ") + " s"
}
