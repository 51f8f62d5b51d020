package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// grace is how much longer than its window a workload may take before the trial
// is given up: searches run several windows, servers need a moment.
const grace = 60 * time.Second

// measure runs one trial and fills in t; every failure becomes t's status, but that of
// taking down a lab that other trials shared. With hold a lab that did well stays up.
func (r *runner) measure(ctx context.Context, cell experiment.Planned, t *sample.Trial, hold bool) error {
	net := r.Networks[cell.Network]
	full := overflows()
	defer func() { t.Warnings = append(t.Warnings, neighbourGate(full)...) }()
	if info := net.Info(); cell.Unsupported != "" && (!info.Closed || info.Absent != "") {
		t.Status, t.Reason = sample.Unsupported, cell.Unsupported
		return nil
	}
	h, err := r.take(ctx, cell)
	if err != nil {
		return err
	}
	if h == nil {
		if h, err = r.build(ctx, cell, t); err != nil {
			t.Status, t.Reason = sample.Failed, Reason(err)
			return nil
		}
	} else {
		t.Built = h.built
	}
	t.Warnings = append(t.Warnings, r.VMs[cell.Scenario.VM].Warnings...)
	t.Notes = h.lab.Notes()
	if note := r.VMs[cell.Scenario.VM].Note; note != "" {
		t.Notes = append(t.Notes, note)
	}
	if own, ok := h.lab.(*lab.Lab); ok && net.Info().Closed {
		checkIsolation(own, t)
	} else {
		r.load(ctx, h.lab, cell, t)
	}
	if hold && t.Status == sample.OK {
		r.held = h
		return nil
	}
	begin := r.Now()
	if err := h.lab.Down(context.WithoutCancel(ctx)); err != nil {
		t.Status, t.Reason = sample.Failed, Reason(fmt.Errorf("after the trial: %w", err))
	}
	t.Phases.Teardown = r.Now().Sub(begin).Seconds()
	return nil
}

// build builds the cell's lab.
func (r *runner) build(ctx context.Context, cell experiment.Planned, t *sample.Trial) (*held, error) {
	opts := r.Lab
	if kind := cell.Scenario.VM; kind != "" {
		opts.Hypervisor = r.VMs[kind].Hypervisor // nil where there is none, which the lab says
	}
	l, built, waited, err := r.up(ctx, r.spec(cell.Scenario), cell.Network, opts)
	if err != nil {
		return nil, err
	}
	if err := setRmem(ctx, l, cell.Scenario.Rmem); err != nil {
		return nil, errors.Join(err, l.Down(context.WithoutCancel(ctx)))
	}
	t.Phases.Build, t.Phases.Ready = built.Seconds(), waited.Seconds()
	return &held{l, t.Order, buildOf(cell)}, nil
}

// spec is the lab of a trial: the clients on the first host, the servers on the
// last. Lab names are never used twice, so that nothing can be left from the
// trial before.
func (r *runner) spec(s topo.Scenario) lab.Spec {
	r.names++
	spec := lab.Spec{Name: fmt.Sprintf("b%d-%d", os.Getpid(), r.names), Hosts: s.Placement.Hosts(), MTU: s.MTU,
		VMs: s.Placement.VMs(), Outside: s.Outside, Family: s.IP()}
	for i := 1; i <= s.Pairs; i++ {
		spec.Pods = append(spec.Pods, lab.PodSpec{Name: fmt.Sprintf("c%d", i), Host: 1},
			lab.PodSpec{Name: fmt.Sprintf("s%d", i), Host: spec.Hosts})
	}
	return spec
}

// bed pairs the pods of a lab that spec describes.
func bed(l Lab) workload.Bed {
	b := workload.Bed{Ground: l, Dir: l.Dir()}
	pods := l.Pods()
	for i := 0; i+1 < len(pods); i += 2 {
		b.Pairs = append(b.Pairs, workload.Pair{Client: pods[i], Server: pods[i+1]})
	}
	return b
}

// window offers the cell's load for one window and takes the figures.
func (r *runner) window(ctx context.Context, l Lab, cell experiment.Planned, t *sample.Trial) {
	b := bed(l)
	if err := pin(&b, cell.Scenario.Cores, l.Processes); err != nil {
		t.Status, t.Reason = sample.Unsupported, Reason(err)
		return
	}
	w := r.Workloads[cell.Workload]
	t.Warnings = append(t.Warnings, podGates(l, b, r.Networks[cell.Network].Info(), cell.Scenario.Wire())...)
	m := &meter{devices: watch(l, b, cell.Scenario), datapath: l.Plug().Datapath, spent: r.machines}
	if own, ok := l.(*lab.Lab); ok && r.Explain != nil {
		v, err := newLens(own, b, cell.Window.Duration)
		if err != nil {
			t.Status, t.Reason = sample.Failed, Reason(err)
			return
		}
		defer v.close() // nothing of it is pinned: it ends with this process at the latest
		m.lens = v
	}
	limit := cell.Window.Warmup + cell.Window.Duration + grace
	run, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("workload took longer than %v", limit))
	defer cancel()
	out, err := w.Run(run, b, cell.Load, cell.Window, m)
	t.Warnings = append(t.Warnings, out.Warnings...)
	t.Notes = append(t.Notes, out.Notes...)
	t.Details, t.Series = out.Details, out.Series
	if i, ok := l.(Inspector); ok {
		t.Warnings = append(t.Warnings, i.Warnings()...)
	}
	apart(m.from, m.to, t)
	if err = errors.Join(err, m.err); err == nil && m.end.At.IsZero() {
		err = errors.New("workload ended without a measured window")
	}
	if daemon := l.Failed(); err != nil && daemon != nil {
		err = errors.Join(err, daemon)
	}
	if err != nil {
		if cause := context.Cause(run); cause != nil && ctx.Err() == nil {
			err = errors.Join(cause, err)
		}
		t.Status, t.Reason = sample.Failed, Reason(err)
		return
	}
	r.figures(cell, m, out, t)
	if m.lens != nil && t.Status == sample.OK {
		r.keep(m, out, t)
	}
}

// keep hands on what was seen inside the window.
func (r *runner) keep(m *meter, out workload.Outcome, t *sample.Trial) {
	p, err := m.lens.profile(t, m, out)
	if err == nil {
		err = r.Explain(p)
	}
	if err != nil {
		t.Warnings = append(t.Warnings,
			sample.Warning{Gate: "explain", Text: "the trial cannot be explained: " + Reason(err)})
	}
}

// figures turns a finished workload into the sample's figures and applies the
// gates that need them.
func (r *runner) figures(cell experiment.Planned, m *meter, out workload.Outcome, t *sample.Trial) {
	window := m.end.At.Sub(m.begin.At)
	t.Phases.Window, t.Phases.Warmup = window.Seconds(), cell.Window.Warmup.Seconds()
	raw := cost.Between(m.begin, m.end)
	cpu := cost.Net(raw, window, r.idle, r.idleFor)
	t.Status, t.Metrics, t.Latency, t.CPU = sample.OK, out.Metrics, out.Latency, &cpu
	if t.Metrics == nil {
		t.Metrics = map[string]float64{}
	}
	if out.Bytes > 0 {
		t.Metrics[sample.CPUPerGB] = cpu.Busy() / (out.Bytes / 1e9)
	}
	if out.Operations > 0 {
		t.Metrics[sample.CPUPerKop] = cpu.Busy() / (out.Operations / 1e3)
	}
	if n := float64(m.passed.Packets); n > 0 {
		t.Metrics[sample.Passes], t.Metrics[sample.CPUPerPacket] = float64(m.passed.Passes)/n, cpu.Busy()/n
	}
	t.Warnings = append(t.Warnings, cpuGates(raw, window, out)...)
	if r.disturbed > otherWork {
		t.Warnings = append(t.Warnings, sample.Warning{Gate: "busy",
			Text: fmt.Sprintf("other work kept %.0f %% of the machine busy before the repetition: figures are noisy and the cost includes it", 100*r.disturbed)})
	}
	for _, why := range []string{m.crossed(out), cut(window, cell.Window, out)} {
		if why != "" {
			t.Status, t.Reason = sample.Invalid, why
		}
	}
	if why := missing(r.Workloads[cell.Workload].Info(), t.Metrics); why != "" {
		t.Status, t.Reason = sample.Failed, why
	}
}

// missing names a metric that the workload promises and did not measure.
func missing(info workload.Info, metrics map[string]float64) string {
	for _, name := range info.Metrics {
		if _, ok := metrics[name]; !ok {
			return fmt.Sprintf("workload %s measured no %s", info.Name, name)
		}
	}
	return ""
}

// Reason is the text of an error on one line, as samples have it: errors.Join breaks lines.
func Reason(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
