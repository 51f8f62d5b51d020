package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/mongo"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

// asProgram makes this test's executable FerretDB itself, so that a pod can run it.
const asProgram = "PATHWISE_TEST_FERRETDB"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	if err := run(context.Background(), os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestServers: the workloads take a program for their server, which they start in the
// pod, and one that runs already.
func TestServers(t *testing.T) {
	self, err := filepath.Abs("../../bin/pathwise")
	if err == nil {
		_, err = os.Stat(self)
	}
	if err != nil {
		t.Fatalf("find pathwise: %v: make build", err)
	}
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := []string{"env", asProgram + "=1", me, "--listen", ":${PORT}", "--dir", "${DIR}"}
	t.Run("program", func(t *testing.T) {
		asked(t, testbed.New(t, 1), self, strings.Join(program, " "))
	})
	t.Run("running", func(t *testing.T) {
		g := testbed.New(t, 1)
		pod, dir := g.Pairs[0].Server, t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = g.Exec(ctx, pod, "env", asProgram+"=1", me, "--listen", fmt.Sprintf(":%d", pod.Listen), "--dir", dir)
		}()
		defer func() { cancel(); <-ended }()
		wait, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		if err := workload.AwaitListening(wait, g, pod, workload.TCP); err != nil {
			t.Fatal(err)
		}
		asked(t, g, self, "mongodb://"+pod.Service.String()+"/?directConnection=true")
	})
}

// asked runs a workload against the server on the bed.
func asked(t *testing.T, g *testbed.Ground, self, server string) {
	t.Helper()
	w, err := mongo.Mongo{Self: self, Operation: "query-no-match"}.With(server)
	if err != nil {
		t.Fatal(err)
	}
	m := &testbed.Meter{}
	out, err := w.Run(t.Context(), g.Bed(), sample.Load{Connections: 2},
		workload.Window{Warmup: 200 * time.Millisecond, Duration: time.Second}, m)
	if err != nil {
		t.Fatal(err)
	}
	if out.Operations == 0 || out.Metrics[sample.Errors] != 0 ||
		!strings.Contains(strings.Join(out.Notes, " "), "FerretDB") {
		t.Errorf("%g operations, metrics %v, notes %q", out.Operations, out.Metrics, out.Notes)
	}
}
