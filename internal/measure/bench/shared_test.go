package bench_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/sample"
)

// TestSharedBuilds: the cells of a network that a repetition runs are measured in one
// build, those of another repetition in another; a trial that fails ends its build.
func TestSharedBuilds(t *testing.T) {
	var r run
	runs := 0
	w := datagrams{}
	c := config(t, &r, w, plain.Host{}, vxlan.New())
	c.Experiment.Repeat.Shared = true
	c.Experiment.Entries[0].Loads = []sample.Load{{Size: 1}, {Size: 2}, {Size: 3}}
	w.before = func() { runs++ }
	c.Workloads["datagrams"] = w
	res := r.do(t, c)
	if len(res.Trials) != 2*2*3 || runs != 12 {
		t.Fatalf("%d trials, %d runs", len(res.Trials), runs)
	}
	builds := map[int]int{}
	for _, trial := range res.Trials {
		if trial.Status != sample.OK {
			t.Errorf("%v: %s", trial.Cell, trial.Reason)
		}
		switch built := trial.Built; {
		case built == 0 && trial.Phases.Build == 0:
			t.Errorf("%v #%d: no build", trial.Cell, trial.Repetition)
		case built == 0:
			builds[trial.Order]++
		default:
			builds[built]++
			first := res.Trials[built-1]
			if trial.Phases.Build != 0 || first.Network != trial.Network || first.Repetition != trial.Repetition {
				t.Errorf("%v #%d was in the build of %v #%d", trial.Cell, trial.Repetition, first.Cell, first.Repetition)
			}
		}
	}
	if len(builds) != 4 {
		t.Errorf("builds and their trials: %v", builds)
	}
	for order, n := range builds {
		if n != 3 {
			t.Errorf("%d trials in the build of trial %d", n, order)
		}
	}
	nothingLeft(t, &r)
}

// TestFailureEndsASharedBuild: what follows a failure has a build of its own.
func TestFailureEndsASharedBuild(t *testing.T) {
	var r run
	w := datagrams{fail: errors.New("no luck")}
	c := config(t, &r, w, vxlan.New())
	c.Experiment.Repeat.Shared = true
	c.Experiment.Repeat.Min, c.Experiment.Repeat.Max = 1, 1
	c.Experiment.Entries[0].Loads = []sample.Load{{Size: 1}, {Size: 2}}
	for _, trial := range r.do(t, c).Trials {
		if trial.Status != sample.Failed || trial.Built != 0 || trial.Phases.Build == 0 {
			t.Errorf("%v: %s, build %d, %v", trial.Cell, trial.Status, trial.Built, time.Duration(trial.Phases.Build*1e9))
		}
	}
	nothingLeft(t, &r)
}

// TestWindowThatWasNotSeen: one of which the meter saw nothing is measured again, and the
// trial says so; three of them are a trial without figures.
func TestWindowThatWasNotSeen(t *testing.T) {
	for unseen, want := range map[int]sample.Status{2: sample.OK, 3: sample.Invalid} {
		var r run
		left := unseen
		c := config(t, &r, datagrams{unseen: func() bool { left--; return left >= 0 }}, plain.Host{})
		c.Experiment.Repeat.Min, c.Experiment.Repeat.Max = 1, 1
		trials := r.do(t, c).Trials
		again := 0
		for _, w := range trials[0].Warnings {
			if w.Gate == "window" {
				again++
			}
		}
		if len(trials) != 1 || trials[0].Status != want || again != 2 {
			t.Errorf("%d unseen: %s (%s), %d warnings", unseen, trials[0].Status, trials[0].Reason, again)
		}
	}
}

func nothingLeft(t *testing.T, r *run) {
	t.Helper()
	if _, err := os.Stat(r.store.Root); !os.IsNotExist(err) {
		t.Errorf("store left: %v", err)
	}
}
