package catalogue_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/catalogue"
	"pathwise.dev/pathwise/internal/measure/workload/example"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// build makes the real executable, static as the container of startup needs it.
func build(t *testing.T) string {
	t.Helper()
	testbed.RequireRoot(t)
	self := filepath.Join(t.TempDir(), "pathwise")
	cmd := exec.Command("go", "build", "-o", self, "pathwise.dev/pathwise/cmd/pathwise")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build pathwise: %v\n%s", err, out)
	}
	return self
}

// bed makes a bed in which self can be launched.
func bed(t *testing.T, pairs int, self string) *testbed.Ground {
	t.Helper()
	g := testbed.New(t, pairs)
	g.Self = self
	return g
}

func window() workload.Window {
	return workload.Window{Warmup: 300 * time.Millisecond, Duration: time.Second}
}

// load is the workload's default, with what keeps a search short.
func load(w workload.Workload) sample.Load {
	l := w.Info().Fill(sample.Load{})
	if w.Info().Name == "udp-max" {
		l.Rate = 50e6
	}
	return l
}

// portless reports whether the workload talks to the pods themselves and not to
// the port of a service: startup goes to pods that it launches, MPI to all, the docs'
// example to a kernel.
func portless(w workload.Workload) bool {
	name := w.Info().Name
	return strings.HasPrefix(name, "startup") || strings.HasPrefix(name, "mpi-") || name == "ping"
}

// alone reports that nothing of the workload runs in the bed. What startup
// launched belongs to the bed: its first process is runc's until it executes the pod's,
// some time after "runc start" has returned.
func alone(t *testing.T, g *testbed.Ground) {
	t.Helper()
	for _, p := range g.Processes() {
		if !strings.Contains(p, "generate pause") && !strings.HasSuffix(strings.TrimSpace(p), "runc init") {
			t.Errorf("process left: %s", p)
		}
	}
}

// present lists the workloads and the docs' example, but those of netperf where it is not
// installed: not every Debian may install it (section non-free).
func present(self string) []workload.Workload {
	_, missing := network.FindProgram("netperf")
	all := append(catalogue.All(catalogue.Options{Self: self}), example.Ping{})
	return slices.DeleteFunc(all, func(w workload.Workload) bool {
		// the lab's test runs it
		return missing != nil && strings.HasPrefix(w.Info().Name, "netperf-") || w.Info().Name == "startup-containerd"
	})
}

// kinds lists those present, but one alone of those that differ only in what they
// ask of the same server with the same generator: how they fail is the same.
func kinds(self string) []workload.Workload {
	return slices.DeleteFunc(present(self), func(w workload.Workload) bool {
		for family, one := range map[string]string{"mongo-": "mongo-insert-int-vector", "mpi-": "mpi-alltoall",
			"netperf-": "netperf-tcp-rr"} {
			if name := w.Info().Name; strings.HasPrefix(name, family) && name != one {
				return true
			}
		}
		return false
	})
}

func TestContractPromises(t *testing.T) {
	self := build(t)
	for _, w := range present(self) {
		info := w.Info()
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel() // half of it is waiting
			pairs := 1
			if info.Pairs && !portless(w) { // the bed joins pods in pairs only
				pairs = 2
			}
			g := bed(t, pairs, self)
			m := &testbed.Meter{}
			out, err := w.Run(t.Context(), g.Bed(), load(w), window(), m)
			if err != nil { // a busy machine may leave less than one batch in a second
				t.Logf("tried again: %v", err)
				m = &testbed.Meter{}
				long := workload.Window{Warmup: time.Second, Duration: 4 * time.Second}
				out, err = w.Run(t.Context(), g.Bed(), load(w), long, m)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range info.Metrics {
				v, ok := out.Metrics[name]
				if !ok {
					t.Errorf("promised %s is missing", name)
				}
				// Losses, retransmits and jitter may be 0, and are good then.
				if known, _ := sample.MetricByName(name); v < 0 || (v == 0 && known.Aspect == sample.Performance) {
					t.Errorf("%s is %g", name, v)
				}
			}
			if slices.Contains(info.Metrics, sample.LatencyP50) && (out.Latency == nil || out.Latency.Count() == 0) {
				t.Error("latency metrics without a histogram to merge")
			}
			if !slices.Equal(m.Told, []string{"begin", "end"}) {
				t.Errorf("meter was told %v", m.Told)
			}
			// A busy machine ends it late, but nothing may end it early.
			if got := m.Ended.Sub(m.Begun); got < window().Duration-50*time.Millisecond {
				t.Errorf("window lasted %v, want %v", got, window().Duration)
			}
			if out.Bytes == 0 && out.Operations == 0 {
				t.Error("neither bytes nor operations: CPU time cannot be put in relation")
			}
			alone(t, g)
			t.Logf("%v %v", out.Metrics, out.Warnings)
		})
	}
}

// TestContractContext cuts each workload off before, in and after its warm-up.
func TestContractContext(t *testing.T) {
	self := build(t)
	for _, w := range kinds(self) {
		t.Run(w.Info().Name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			g := bed(t, 1, self)
			for _, after := range []time.Duration{5, 150, 900, 2500} {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(after*time.Millisecond, cancel)
				begun := time.Now()
				long := workload.Window{Warmup: 300 * time.Millisecond, Duration: 20 * time.Second}
				_, err := w.Run(ctx, g.Bed(), load(w), long, &testbed.Meter{})
				took := time.Since(begun)
				timer.Stop()
				cancel()
				if err != nil && strings.Contains(err.Error(), "too busy") {
					t.Logf("cancelled after %d ms: the machine had ended it before: %v", after, err)
				} else if err == nil && took < after*time.Millisecond && w.Info().Name == "startup" {
					t.Logf("ended by itself after %v: it starts a hundred pods at most", took)
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled after %d ms: got %v, want the context's error", after, err)
				}
				if took > after*time.Millisecond+15*time.Second { // long before it would have ended by itself
					t.Errorf("cancelled after %d ms: returned after %v", after, took)
				}
				alone(t, g)
				if left, err := os.ReadDir(g.Dir); err != nil || len(left) > 0 {
					t.Errorf("files left: %v, %v", left, err)
				}
			}
		})
	}
}

// TestContractNotReached: the server's own side is fine, but nothing answers
// where the client goes.
func TestContractNotReached(t *testing.T) {
	self := build(t)
	for _, w := range kinds(self) {
		if portless(w) {
			continue
		}
		for what, service := range map[string]string{"refused": "10.201.0.2:9", "no route": "203.0.113.9:5201",
			"silent": "10.201.0.2:5201"} {
			t.Run(w.Info().Name+"/"+what, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				g := bed(t, 1, self)
				g.Pairs[0].Server.Service = testbed.AddrPort(service)
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				defer cancel()
				begun := time.Now()
				run := func() {
					_, err := w.Run(ctx, g.Bed(), load(w), window(), &testbed.Meter{})
					if err == nil || ctx.Err() != nil || len(err.Error()) < 20 {
						t.Errorf("got %v, want an error with a reason", err)
					}
					t.Log(err)
				}
				if what != "silent" {
					run()
				} else if err := g.Lose(0, run); err != nil {
					t.Error(err)
				}
				t.Logf("after %v", time.Since(begun).Round(time.Millisecond))
				alone(t, g)
			})
		}
	}
}

// TestContractPrograms: a tool that cannot be run is named.
func TestContractPrograms(t *testing.T) {
	g := testbed.New(t, 1)
	for _, w := range kinds("/nowhere/pathwise") {
		if w.Info().Name == "first-packet" {
			continue // it runs none
		}
		t.Run(w.Info().Name, func(t *testing.T) {
			begun := time.Now()
			_, err := w.Run(t.Context(), workload.Bed{Pairs: g.Pairs, Ground: bare{g}}, load(w), window(), &testbed.Meter{})
			if !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("got %v, want that the program is missing", err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// bare is a bed on a machine on which nothing is installed.
type bare struct{ *testbed.Ground }

func (bare) Exec(_ context.Context, _ topo.Pod, argv ...string) (program.Result, error) {
	return program.Result{}, &program.Error{Argv: argv, Err: exec.ErrNotFound}
}

func (bare) Launch(context.Context, int, oci.Runtime) (oci.Launch, error) {
	return oci.Launch{}, exec.ErrNotFound
}
