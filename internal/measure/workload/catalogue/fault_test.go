package catalogue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

// serverless lists the workloads that run no server in the pair's pod.
func serverless() []string { return []string{"startup", "first-packet", "ping"} }

// faultTimeout is when a run hangs: long after every patience of the workloads.
const faultTimeout = 45 * time.Second

// TestContractFaults strikes the server of every workload while it is measured, and
// lets each talk to one that answers wrongly. A run must end with an error, or
// with counted errors or losses and a warning that gives the reason: never hang,
// and never pass off a silent server for a slow one.
func TestContractFaults(t *testing.T) {
	self := build(t)
	for _, w := range kinds(self) {
		if slices.Contains(serverless(), w.Info().Name) {
			continue
		}
		t.Run(w.Info().Name, func(t *testing.T) {
			t.Parallel()
			var wg sync.WaitGroup
			defer wg.Wait() // also if a bed cannot be made
			for _, f := range testbed.Faults() {
				g := bed(t, 1, self)
				wg.Go(func() { struck(t, g, w, f) })
			}
			if !portless(w) {
				g := bed(t, 1, self)
				wg.Go(func() { misled(t, g, w) })
			}
		})
	}
}

// enough is how much of the window a fault must leave to be seen: requests that
// were under way when it came may take that long to fail.
const enough = 600 * time.Millisecond

// struck runs the workload with a fault in the window. On a busy machine a
// generator may fail before its window, or the fault may come at its end or after
// it; then there was none yet.
func struck(t *testing.T, g *testbed.Ground, w workload.Workload, f testbed.Fault) {
	for try := 1; ; try++ {
		var at time.Time
		hit := make(chan error, 1)
		m := &testbed.Meter{OnBegin: func() {
			time.AfterFunc(300*time.Millisecond, func() {
				err := f.Strike(g, g.Pairs[0])
				at = time.Now()
				hit <- err
			})
		}}
		ctx, cancel := context.WithTimeout(t.Context(), faultTimeout)
		out, err := w.Run(ctx, g.Bed(), load(w),
			workload.Window{Warmup: 300 * time.Millisecond, Duration: 1500 * time.Millisecond}, m)
		hung := ctx.Err() != nil
		cancel()
		var miss error
		if !m.Begun.IsZero() {
			miss = <-hit
		}
		late := err == nil && !told(out) && m.Ended.Sub(at) < enough
		if (m.Begun.IsZero() || late) && try < 3 {
			continue
		}
		if m.Begun.IsZero() {
			t.Errorf("%s: fails before the fault: %v", f.Name, err)
			return
		}
		if miss != nil {
			t.Errorf("%s: %v", f.Name, miss)
		}
		judge(t, f.Name, hung, out, err)
		t.Logf("%s: came %v after the window's begin, which ended after %v", f.Name,
			at.Sub(m.Begun).Round(time.Millisecond), m.Ended.Sub(m.Begun).Round(time.Millisecond))
		alone(t, g)
		return
	}
}

// misled runs the workload against a server that speaks something else.
func misled(t *testing.T, g *testbed.Ground, w workload.Workload) {
	wrong, err := g.Babble(g.Pairs[0].Server)
	if err != nil {
		t.Error(err)
		return
	}
	g.Pairs[0].Server.Service = wrong
	ctx, cancel := context.WithTimeout(t.Context(), faultTimeout)
	defer cancel()
	out, err := w.Run(ctx, g.Bed(), load(w), window(), &testbed.Meter{})
	judge(t, "wrong", ctx.Err() != nil, out, err)
	alone(t, g)
}

// judge holds the end of a run under a fault against the contract.
func judge(t *testing.T, fault string, hung bool, out workload.Outcome, err error) {
	switch {
	case hung:
		t.Errorf("%s: hung until it was ended after %v: %v", fault, faultTimeout, err)
	case err != nil:
		if len(err.Error()) < 20 {
			t.Errorf("%s: %v: no reason is given", fault, err)
		}
		t.Logf("%s: %v", fault, err)
	case !told(out):
		t.Errorf("%s: ended well and says nothing: %v, warnings %v", fault, out.Metrics, out.Warnings)
	default:
		t.Logf("%s: %g errors: %v", fault, out.Metrics[sample.Errors], out.Warnings)
	}
}

// told reports whether the outcome has counted errors or losses, and says why.
func told(out workload.Outcome) bool {
	counted := out.Metrics[sample.Errors] > 0 || out.Metrics[sample.Loss] > 0
	return slices.ContainsFunc(out.Warnings, func(w sample.Warning) bool {
		return w.Text != "" && (w.Gate == "errors" && counted || w.Gate == "loss")
	})
}

// TestJudgeIsStrict: the contract itself tells an outcome that hides a fault
// from one that does not.
func TestJudgeIsStrict(t *testing.T) {
	warn := func(gate string) []sample.Warning { return []sample.Warning{{Gate: gate, Text: "reset by peer"}} }
	for i, tc := range []struct {
		out  workload.Outcome
		want bool
	}{
		{workload.Outcome{Metrics: map[string]float64{sample.Rate: 0}}, false},
		{workload.Outcome{Metrics: map[string]float64{sample.Errors: 3}}, false},
		{workload.Outcome{Warnings: warn("errors")}, false},
		{workload.Outcome{Metrics: map[string]float64{sample.Errors: 3}, Warnings: warn("errors")}, true},
		{workload.Outcome{Warnings: warn("loss")}, true},
		{workload.Outcome{Metrics: map[string]float64{sample.Errors: 3}, Warnings: warn("mtu")}, false},
	} {
		if got := told(tc.out); got != tc.want {
			t.Error(fmt.Sprint(i), got)
		}
	}
}
