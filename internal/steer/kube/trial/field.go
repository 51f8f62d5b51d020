package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
	"pathwise.dev/pathwise/internal/topo"
)

// field is the pods of a trial. It implements bench.Lab.
type field struct {
	site    *Site
	network string
	names   []string
	pods    []topo.Pod
	gauges  map[string]*gauge // by pod
	stop    context.CancelFunc
	// throttled is how often pods were, when they were looked at last.
	throttled map[string]uint64
}

// settle waits for the pods and finds where they are on the network.
func (f *field) settle(ctx, life context.Context, spec lab.Spec) error {
	for i, name := range f.names {
		p, err := f.site.ready(ctx, name, f.network)
		if err != nil {
			return err
		}
		g := f.site.gauge(life, name)
		f.gauges[name] = g
		r, _, err := g.ask()
		if err != nil {
			return err
		}
		f.throttled[name] = r.Throttled
		addr := p.Addr
		if own := p.Addrs[f.network]; len(own) > 0 {
			addr = own[0]
		}
		on := slices.IndexFunc(r.Links, func(l Link) bool {
			return slices.ContainsFunc(l.Addrs, func(a netip.Prefix) bool { return a.Addr() == addr })
		})
		if on < 0 {
			return fmt.Errorf("pod %s: no interface has its address %v on %s", name, addr, f.network)
		}
		pod := topo.Pod{Name: name, Host: spec.Pods[i].Host, Netns: name, Listen: topo.ServicePort}
		if f.network == Host {
			pod.Listen += uint16(i) // they share their node's ports
		}
		pod.Service = netip.AddrPortFrom(addr, pod.Listen)
		a := topo.Attachment{Network: f.network, Dev: r.Links[on].Name, MTU: r.Links[on].MTU}
		a.SetAddrs([]netip.Addr{addr})
		pod.Attachments = []topo.Attachment{a}
		f.pods = append(f.pods, pod)
	}
	return nil
}

// Pods implements bench.Lab.
func (f *field) Pods() []topo.Pod { return f.pods }

// Dir implements bench.Lab.
func (f *field) Dir() string { return f.site.Dir }

// Plug implements bench.Lab: that pods have interfaces of their own is all that is known.
func (f *field) Plug() network.Plug { return network.Plug{Mode: network.ByCNI} }

// Processes implements bench.Lab.
func (f *field) Processes() ([]int, error) { return nil, nil }

// Failed implements bench.Lab.
func (f *field) Failed() error { return nil }

// Features implements bench.Lab: offloads are not looked at.
func (f *field) Features(network.Device) (map[string]bool, error) { return nil, nil }

// Notes implements bench.Lab.
func (f *field) Notes() []string {
	s := f.site
	out := []string{fmt.Sprintf("pods of a cluster, clients on node %s, servers on %s", s.Nodes[0], s.Nodes[1])}
	if s.shared {
		out = append(out, "both nodes are on one machine: its CPU time is that of both")
	}
	return out
}

// clocks is how well the nodes' clocks have to be known.
const clocks = 50 * time.Millisecond

// Warnings implements bench.Inspector.
func (f *field) Warnings() (out []sample.Warning) {
	for _, name := range f.names {
		r, _, err := f.gauges[name].ask()
		if n := r.Throttled - f.throttled[name]; err == nil && n > 0 {
			f.throttled[name] = r.Throttled
			out = append(out, sample.Warning{Gate: "throttled",
				Text: fmt.Sprintf("pod %s was kept from the processor %d times by a limit on its CPU time", name, n)})
		}
	}
	for i, off := range f.site.off {
		if off > clocks {
			out = append(out, sample.Warning{Gate: "clock", Text: fmt.Sprintf(
				"the clock of node %s is known to %v alone: CPU time may be of a little earlier or later", f.site.Nodes[i],
				off.Round(time.Millisecond))})
		}
	}
	return out
}

// Counters implements bench.Lab.
func (f *field) Counters(d network.Device) (lab.Counters, error) {
	r, _, err := f.gauges[d.Netns].ask()
	if err != nil {
		return lab.Counters{}, err
	}
	for _, l := range r.Links {
		if l.Name == d.Name {
			return l.Counters, nil
		}
	}
	return lab.Counters{}, fmt.Errorf("pod %s has no interface %s any more", d.Netns, d.Name)
}

// Exec implements workload.Ground.
func (f *field) Exec(ctx context.Context, pod topo.Pod, argv ...string) (program.Result, error) {
	order := lab.Program{Argv: slices.Clone(argv), Ahead: f.Clock(pod)}
	if argv[0] == f.site.Self {
		order.Argv[0] = Self
	}
	line, err := json.Marshal(order)
	if err != nil {
		return program.Result{}, fmt.Errorf("order a program: %w", err)
	}
	raw, err := f.site.order(ctx, pod.Name, line)
	var ran lab.Ran
	if err == nil {
		err = json.Unmarshal(raw, &ran)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return ran.Result, &program.Error{Argv: argv, Err: err}
	}
	if ran.Failure != "" {
		return ran.Result, &program.Error{Argv: argv, Stderr: ran.Stderr, Err: errors.New(ran.Failure)}
	}
	return ran.Result, nil
}

// Do implements workload.Ground.
func (f *field) Do(pod topo.Pod, _ func() error) error {
	return fmt.Errorf("enter pod %s: %w", pod.Name, program.ErrElsewhere)
}

// Launch implements workload.Ground.
func (f *field) Launch(context.Context, int, oci.Runtime) (l oci.Launch, err error) {
	return l, errors.New("start a container: a cluster does that by itself")
}

// Clock implements workload.Clocked.
func (f *field) Clock(pod topo.Pod) time.Duration { return f.site.behind[min(pod.Host, 2)-1] }

// Down implements bench.Lab.
func (f *field) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readying)
	defer cancel()
	var errs []error
	for _, g := range f.gauges {
		errs = append(errs, g.close())
	}
	err := f.site.Remove(ctx, manifest.BenchNamespace, f.names)
	f.stop()
	return errors.Join(append(errs, err)...)
}
