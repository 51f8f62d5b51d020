// Package bench runs an experiment: trial after trial in random order, each on a
// network built fresh, and writes what they measured as samples.
//
// It must not know what the figures mean: it never imports rank, so that no
// ranking can steer what is measured.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Level is the confidence of the intervals that the stopping rule looks at.
const Level = 0.95

// idleWindow is how long the idle machine is watched before each repetition.
const idleWindow = 500 * time.Millisecond

// Config is one run.
type Config struct {
	Experiment experiment.Experiment
	// Networks and Workloads by name, as many as the experiment names.
	Networks  map[string]network.Network
	Workloads map[string]workload.Workload
	Seed      uint64
	Store     lab.Store
	Lab       lab.Options
	// Site is where labs are made in place of this machine; nil: here.
	Site Site
	// VMs boot the scenarios' virtual machines, by Scenario.VM.
	VMs map[string]Hypervisor
	// Log takes the samples; trials in Done are not run again.
	Log  *sample.Writer
	Done []sample.Trial
	// After is the order of the last trial before, also of one that is not in Done.
	After int
	// Doubts lists what trials leave open, where the experiment's repetitions are raced.
	// What they mean is its business: here they are cells that want more repetitions.
	Doubts func([]sample.Trial) []Doubt
	// Explain takes what was seen inside the window of each trial that ended
	// well; nil means that nobody looks. Looking costs some per cent of CPU.
	Explain func(explain.Profile) error
	// Observe is told of each step; nil means nobody watches.
	Observe func(Event)
	// Now is the clock.
	Now func() time.Time
}

// Hypervisor boots virtual machines of one kind.
type Hypervisor struct {
	lab.Hypervisor
	// Note says what they are, and Warnings what is to be said of figures from them.
	Note     string
	Warnings []sample.Warning
}

// Event is a step of a run, for progress.
type Event struct {
	// Trial is about to run, or has just ended when Ended is set.
	Trial sample.Trial
	Ended bool
	// Done and Total count trials; Total grows when cells need more
	// repetitions than the least.
	Done, Total int
	// Left is the estimated time until the end.
	Left time.Duration
}

// runner is a run in progress.
type runner struct {
	Config
	cells   []experiment.Planned
	values  map[sample.Cell][]float64
	trials  []sample.Trial
	had     map[sample.Cell]int
	ran     map[trialKey]bool
	began   time.Time
	spent   time.Duration // measuring in this session
	session int           // trials run in this session
	order   int
	idle    sample.CPU
	idleFor time.Duration
	// disturbed is the share of the machine that was busy with other work
	// before the repetition.
	disturbed float64
	names     int
	// held is a lab that stays up for the next trial; nil where none does.
	held *held
}

type trialKey struct {
	cell sample.Cell
	rep  int
}

// Run measures until every cell has enough repetitions, the budget is spent or
// ctx ends. It returns what is to be said about the run as a whole.
func Run(ctx context.Context, c Config) (sample.Footer, error) {
	infos := map[string]network.Info{}
	for name, n := range c.Networks {
		infos[name] = n.Info()
	}
	r := &runner{Config: c, cells: c.Experiment.Cells(infos), values: map[sample.Cell][]float64{},
		had: map[sample.Cell]int{}, ran: map[trialKey]bool{}, began: c.Now(), order: c.After}
	for _, t := range c.Done {
		r.note(t)
	}
	for rep := 1; rep <= c.Experiment.Repeat.Max; rep++ {
		more, err := r.repetition(ctx, rep)
		if err != nil {
			return sample.Footer{}, err
		}
		if !more {
			break
		}
	}
	return sample.Footer{Trials: len(r.ran), Wall: r.wall(), Warnings: r.wide()}, nil
}

// wall is the time of all sessions of the run, as far as trials tell it.
func (r *runner) wall() float64 {
	total := r.Now().Sub(r.began).Seconds()
	for _, t := range r.Done {
		total += t.Phases.Total
	}
	return total
}

// note takes a trial into account, one just run or one of an earlier session.
func (r *runner) note(t sample.Trial) {
	if key := (trialKey{t.Cell, t.Repetition}); !r.ran[key] {
		r.ran[key] = true
		r.had[t.Cell]++
	}
	r.trials = append(r.trials, t)
	r.order = max(r.order, t.Order)
	if t.Status == sample.OK {
		if v, ok := t.Metrics[r.mainMetric(t.Workload)]; ok {
			r.values[t.Cell] = append(r.values[t.Cell], v)
		}
	}
}

func (r *runner) mainMetric(name string) string {
	if w, ok := r.Workloads[name]; ok {
		return w.Info().Metrics[0]
	}
	return ""
}

// repetition runs what is due of repetition rep, in its random order. It reports
// whether another repetition may be due.
func (r *runner) repetition(ctx context.Context, rep int) (more bool, err error) {
	due := r.due(rep)
	if len(due) == 0 {
		return rep < r.least(), nil
	}
	if err := r.watchIdle(ctx); err != nil {
		return false, err
	}
	ran := false
	defer func() { err = errors.Join(err, r.release(ctx)) }()
	for i, cell := range due {
		if rep > cell.Least && r.overBudget(cell) {
			continue // one that has to run may come after it
		}
		hold := r.shareable(cell) && i+1 < len(due) && buildOf(due[i+1]) == buildOf(cell)
		if err := r.trial(ctx, cell, rep, hold); err != nil {
			return false, err
		}
		ran = true
	}
	return ran || rep < r.least(), nil
}

// due lists the cells that repetition rep has to run, in random order.
func (r *runner) due(rep int) []experiment.Planned {
	cells := r.shuffled(rep)
	if r.Experiment.Repeat.Raced && rep > r.least() {
		cells = r.raced(rep)
	}
	if r.Experiment.Repeat.Shared {
		cells = r.grouped(cells)
	}
	var out []experiment.Planned
	for _, cell := range cells {
		switch {
		case r.ran[trialKey{cell.Cell, rep}]:
		case cell.Unsupported != "" && rep > 1:
		case rep > cell.Least && !r.Experiment.Repeat.Raced && r.enough(cell.Cell):
		case rep > cell.Least && r.Experiment.Repeat.Raced && rep <= r.least(): // others are not ready yet
		default:
			out = append(out, cell)
		}
	}
	return out
}

// least is the number of repetitions that some cell has to have.
func (r *runner) least() (n int) {
	for _, c := range r.cells {
		n = max(n, c.Least)
	}
	return n
}

// enough applies the stopping rule to a cell. One without a single figure is
// not tried again beyond the least number of repetitions.
func (r *runner) enough(c sample.Cell) bool {
	values := r.values[c]
	return len(values) == 0 || stat.Narrow(values, Level, r.Experiment.Repeat.Width, r.Experiment.Repeat.Min)
}

func (r *runner) overBudget(next experiment.Planned) bool {
	budget := r.Experiment.Budget
	return budget > 0 && r.Now().Sub(r.began)+r.estimate(next) > budget
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// trial runs one trial and writes its sample; with hold its lab stays up. An error means that the run
// cannot go on; a trial that failed is a sample with a reason.
func (r *runner) trial(ctx context.Context, cell experiment.Planned, rep int, hold bool) error {
	r.order++
	t := sample.Trial{Cell: cell.Cell, Repetition: rep, Order: r.order, Started: r.Now().UTC(),
		Kernel: cmp.Or(cell.Scenario.Kernel, "host")}
	r.observe(t, false)
	begin := r.Now()
	if err := r.measure(ctx, cell, &t, hold); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.Phases.Total = r.Now().Sub(begin).Seconds()
	if err := r.Log.Trial(t); err != nil {
		return err
	}
	r.note(t)
	if cell.Unsupported == "" {
		r.session++
		r.spent += r.Now().Sub(begin)
	}
	r.observe(t, true)
	return nil
}

func (r *runner) observe(t sample.Trial, ended bool) {
	if r.Observe == nil {
		return
	}
	total, left := r.outlook()
	r.Observe(Event{Trial: t, Ended: ended, Done: len(r.ran), Total: total, Left: left})
}

// outlook estimates how many trials the run will have and the time still to go:
// the least number of repetitions, and beyond it what the budget holds.
func (r *runner) outlook() (total int, left time.Duration) {
	for _, c := range r.cells {
		reps := c.Least
		if c.Unsupported != "" {
			reps = 1
		}
		for rep := 1; rep <= reps; rep++ {
			if !r.ran[trialKey{c.Cell, rep}] {
				total++
				left += r.estimate(c)
			}
		}
	}
	total += len(r.ran)
	if rest := r.Experiment.Budget - r.Now().Sub(r.began); rest > left &&
		r.Experiment.Repeat.Max > r.Experiment.Repeat.Min {
		left = rest
	}
	return total, left
}

// estimate is the time that a trial of the cell will take: its window, and the
// overhead that trials had so far.
func (r *runner) estimate(c experiment.Planned) time.Duration {
	if c.Unsupported != "" {
		return 0
	}
	return Estimate(c) + r.drift()
}

// drift is how much longer than estimated the trials of this session took.
func (r *runner) drift() time.Duration {
	if r.session == 0 {
		return 0
	}
	var planned time.Duration
	var n int
	for _, c := range r.cells {
		if c.Unsupported == "" {
			planned += Estimate(c)
			n++
		}
	}
	return r.spent/time.Duration(r.session) - planned/time.Duration(max(n, 1))
}

// Estimate is the time that one trial of the cell is expected to take.
func Estimate(c experiment.Planned) time.Duration {
	if c.Unsupported != "" {
		return 0
	}
	perPair := 250 * time.Millisecond
	build, extra := 400*time.Millisecond, c.Extra
	switch {
	case c.Scenario.VM != "":
		build = 8 * time.Second // a boot
	case c.Scenario.Kernel != "":
		// A guest makes pods and starts programs slowly: on User-mode Linux a stream's trial took
		// 6.2 s with one pair and 13.3 s with four, of two windows of a second each (2026-11-25).
		build, perPair, extra = 4*time.Second, 2200*time.Millisecond, 2*extra
	}
	windows := time.Duration(max(c.Windows, 1))
	return windows*(c.Window.Warmup+c.Window.Duration) + extra + build + time.Duration(c.Scenario.Pairs-1)*perPair
}

// wide says how many cells have an interval wider than asked for, and which is
// the widest.
func (r *runner) wide() []sample.Warning {
	var wide, measured int
	var worst float64
	var where string
	for _, c := range r.cells {
		values := r.values[c.Cell]
		if len(values) == 0 {
			continue
		}
		measured++
		if stat.Narrow(values, Level, r.Experiment.Repeat.Width, r.Experiment.Repeat.Min) {
			continue
		}
		wide++
		if half := stat.MeanT(values, Level).RelHalfWidth(); !(half <= worst) {
			worst, where = half, fmt.Sprintf("%v after %d repetitions", c.Cell, len(values))
		}
	}
	if wide == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d cells have an interval wider than the ±%g %% asked for", wide, measured,
		100*r.Experiment.Repeat.Width)
	if math.IsInf(worst, 0) || math.IsNaN(worst) {
		text += ", or none at all: " + where
	} else {
		text += fmt.Sprintf(", the widest ±%.0f %%: %s", 100*worst, where)
	}
	return []sample.Warning{{Gate: "wide", Text: text}}
}
