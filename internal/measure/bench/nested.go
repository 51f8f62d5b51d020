package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Limits of what the run chooses.
const (
	// mostWindows of a build: builds are what intervals are made of, and few of them know
	// little of their own spread.
	mostWindows = 4
	// knownBy is how many degrees of freedom both variances have to be known by.
	knownBy = 4
)

// windows is how many windows the next build of the cell has. Where the run chooses, it is
// what makes the mean over builds the most precise for the time spent, by what windows and
// builds of the workload have varied so far. Before that is known, and for the least number
// of repetitions, it is that of the plan, so that those fit their estimated time.
func (r *runner) windows(cell experiment.Planned, rep int) int {
	if r.Explain != nil {
		return 1 // a profile is of one window
	}
	if r.Experiment.Repeat.Windows != experiment.ChooseWindows || rep <= cell.Least {
		return cell.Windows
	}
	c, build, window := r.components(cell.Workload)
	if min(c.Windows, c.Builds) < knownBy {
		return cell.Windows
	}
	return c.Split(build, window, mostWindows)
}

// components are what windows and builds of a workload have varied, on logarithms, and the
// mean times in seconds that a build takes besides its windows, and a window.
func (r *runner) components(name string) (c stat.Components, build, window float64) {
	cells := map[sample.Cell]stat.Nested{}
	var windows, trials float64
	for _, t := range r.trials {
		if t.Workload != name || t.Status != sample.OK {
			continue
		}
		logs := slices.Clone(t.Windows)
		if len(logs) == 0 {
			logs = []float64{t.Metrics[r.mainMetric(name)]}
		}
		if slices.Min(logs) <= 0 {
			continue // no logarithm
		}
		for i, v := range logs {
			logs[i] = math.Log(v)
		}
		cells[t.Cell] = append(cells[t.Cell], logs)
		n := float64(len(logs))
		trials++
		windows += n
		window += t.Phases.Loaded
		build += t.Phases.Total - t.Phases.Loaded
	}
	var all []stat.Nested
	for _, cell := range r.cells { // in their order: sums of floats depend on it
		if n, ok := cells[cell.Cell]; ok {
			all = append(all, n)
		}
	}
	return stat.ComponentsOf(all), build / trials, window / windows
}

// load offers the cell's load, for as many windows as the build is to have, and takes the
// figures. A window that fails ends the trial.
func (r *runner) load(ctx context.Context, l Lab, cell experiment.Planned, t *sample.Trial) {
	begin := r.Now()
	n := r.windows(cell, t.Repetition)
	parts := make([]sample.Trial, 0, n)
	for i := range n {
		part := r.whole(ctx, l, cell, *t)
		if part.Status != sample.OK {
			if i > 0 && part.Reason != "" {
				part.Reason = fmt.Sprintf("window %d of %d: %s", i+1, n, part.Reason)
			}
			*t = part
			return
		}
		parts = append(parts, part)
	}
	*t = joined(parts, r.mainMetric(cell.Workload))
	t.Phases.Loaded = r.Now().Sub(begin).Seconds()
}

// tries is how often a window is measured of which the meter saw too little.
const tries = 3

// whole measures one window, again where the machine kept the meter from its ends: other
// programs that make and remove network namespaces hold the kernel's lock for seconds
// by which counters are read (rtnl_mutex). Such a window has no figures, so that nothing is
// chosen by what was measured.
func (r *runner) whole(ctx context.Context, l Lab, cell experiment.Planned, begun sample.Trial) sample.Trial {
	for try := 1; ; try++ {
		t := begun
		t.Warnings, t.Notes = slices.Clone(begun.Warnings), slices.Clone(begun.Notes)
		r.window(ctx, l, cell, &t)
		if try == tries || t.Status != sample.Invalid || !strings.HasPrefix(t.Reason, windowGate) {
			return t
		}
		begun.Warnings = append(slices.Clip(begun.Warnings),
			sample.Warning{Gate: "window", Text: "measured again: " + strings.TrimPrefix(t.Reason, windowGate)})
	}
}

// joined is the trial of a build with several windows: figures are means over the windows,
// CPU times and times in phases sums, and percentiles those of the merged histogram.
func joined(parts []sample.Trial, metric string) sample.Trial {
	t := parts[0]
	if len(parts) == 1 {
		return t
	}
	sums, times := map[string]float64{}, map[string]int{}
	cpu := *t.CPU
	for i, p := range parts {
		t.Windows = append(t.Windows, p.Metrics[metric])
		for name, v := range p.Metrics {
			sums[name] += v
			times[name]++
		}
		if i == 0 {
			continue
		}
		cpu.User, cpu.System, cpu.SoftIRQ, cpu.IRQ = cpu.User+p.CPU.User, cpu.System+p.CPU.System, cpu.SoftIRQ+p.CPU.SoftIRQ,
			cpu.IRQ+p.CPU.IRQ
		cpu.Steal, cpu.Idle = cpu.Steal+p.CPU.Steal, cpu.Idle+p.CPU.Idle
		for _, point := range p.Series {
			point.At += t.Phases.Window
			t.Series = append(t.Series, point)
		}
		t.Phases.Warmup, t.Phases.Window = t.Phases.Warmup+p.Phases.Warmup, t.Phases.Window+p.Phases.Window
		for _, w := range p.Warnings {
			if !slices.ContainsFunc(t.Warnings, func(o sample.Warning) bool { return o.Gate == w.Gate }) {
				t.Warnings = append(t.Warnings, w)
			}
		}
		for _, n := range p.Notes {
			if !slices.Contains(t.Notes, n) {
				t.Notes = append(t.Notes, n)
			}
		}
	}
	for name := range sums {
		sums[name] /= float64(times[name])
	}
	t.Metrics, t.CPU = sums, &cpu
	if t.Latency = merged(parts); t.Latency == nil {
		return t
	}
	pooled := map[string]float64{}
	t.Latency.Figures(pooled)
	for name, v := range pooled {
		if _, ok := sums[name]; ok {
			sums[name] = v
		}
	}
	return t
}

// merged is the histogram of all windows; nil where one has none.
func merged(parts []sample.Trial) *sample.Histogram {
	all := sample.NewHistogram()
	for _, p := range parts {
		if p.Latency == nil {
			return nil
		}
		all.Merge(p.Latency)
	}
	return all
}
