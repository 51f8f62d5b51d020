package catalogue_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/catalogue"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

// profile is the workload that runs a profile.
func profile(t *testing.T, f txtar.File, self string, env map[string]string) (workload.Workload, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), f.Name)
	if err := os.WriteFile(path, f.Data, 0o644); err != nil {
		t.Fatal(err)
	}
	return catalogue.ByName("uperf:"+path, catalogue.Options{Self: self, Getenv: func(n string) string { return env[n] }})
}

// TestFaultsByUDP: what befalls a server by UDP is told as of any other.
func TestFaultsByUDP(t *testing.T) {
	self := build(t)
	a, err := txtar.ParseFile("../uperf/testdata/profiles.txtar")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "k8s-netperf-rr-udp.xml" })
	w, err := profile(t, a.Files[i], self, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait() // also if a bed cannot be made
	for _, f := range testbed.Faults() {
		g := bed(t, 1, self)
		wg.Go(func() { struck(t, g, w, f) })
	}
	g := bed(t, 1, self)
	wg.Go(func() { misled(t, g, w) })
}

// slow reports whether a profile failed as one does on a machine that is too busy
// for its window.
func slow(err error) bool {
	for _, sign := range []string{"connecting", "too busy", "ended in the window"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return false
}

// TestPlaysProfiles plays for a fraction of a second every profile of uperf's shapes
// that is taken; TestProfiles of package uperf says which are.
func TestPlaysProfiles(t *testing.T) {
	self := build(t)
	a, err := txtar.ParseFile("../uperf/testdata/profiles.txtar")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"nthr": "2", "iter": "10", "conn": "2", "proto": "udp", "nth": "2"}
	played := 0
	for _, f := range a.Files {
		w, err := profile(t, f, self, env)
		if err != nil {
			continue
		}
		played++
		t.Run(f.Name, func(t *testing.T) {
			g := bed(t, 1, self)
			info := w.Info()
			window := workload.Window{Warmup: 100 * time.Millisecond, Duration: max(300*time.Millisecond, info.MinDuration)}
			out, err := w.Run(t.Context(), g.Bed(), sample.Load{}, window, &testbed.Meter{})
			for ; err != nil && slow(err) && window.Warmup < 10*time.Second; window.Warmup *= 4 {
				// Thousands of strands on a busy machine.
				window.Duration *= 2
				out, err = w.Run(t.Context(), g.Bed(), sample.Load{}, window, &testbed.Meter{})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range info.Metrics {
				known, _ := sample.MetricByName(name)
				if v, ok := out.Metrics[name]; !ok || known.Aspect == sample.Performance && !(v > 0) {
					t.Errorf("promised %s is %v (%t)", name, v, ok)
				}
			}
			if tcp := !slices.Contains(info.Metrics, sample.Loss); tcp && out.Details["congestion"] != workload.Congestion {
				t.Errorf("congestion control %q, want %q", out.Details["congestion"], workload.Congestion)
			}
			alone(t, g)
			t.Logf("%v %v %v", out.Metrics, out.Details, out.Warnings)
		})
	}
	if played != 16+6 {
		t.Errorf("played %d of %d profiles", played, len(a.Files))
	}
}
