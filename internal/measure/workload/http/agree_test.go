//go:build agree

package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/stat"
	"pathwise.dev/pathwise/internal/topo"
)

// said is what a generator says of one run: answers per second, and the mean and
// the median of their times in seconds.
type said struct{ Rate, Mean, Median float64 }

// TestAgreeWithWrk compares the client with wrk, by turns, with the same nginx:
// over loopback and between two pods. It must do as many requests within 5 %, and
// not take longer; more than wrk is no fault. "make agree" runs it.
func TestAgreeWithWrk(t *testing.T) {
	g := testbed.New(t, 1)
	g.Self = filepath.Join(t.TempDir(), "pathwise")
	if out, err := exec.Command("go", "build", "-o", g.Self, "pathwise.dev/pathwise/cmd/pathwise").CombinedOutput(); err !=
		nil {
		t.Fatalf("build pathwise: %v\n%s", err, out)
	}
	server := g.Pairs[0].Server
	argv, err := nginx(t.TempDir(), server, 10<<10)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = g.Exec(ctx, server, argv...) }()
	if err := workload.AwaitServers(ctx, g.Bed(), workload.TCP); err != nil {
		t.Fatal(err)
	}
	if out, err := g.Exec(ctx, server, "ip", "link", "set", "lo", "up"); err != nil {
		t.Fatalf("%v: %s", err, out.Stdout)
	}
	fmt.Printf("%-10s %-12s %-11s %28s %28s\n", "path", "connections", "", "answers/s to wrk's", "mean time to wrk's")
	for _, from := range []topo.Pod{server, g.Pairs[0].Client} {
		for _, connections := range []int{1, 50} {
			for _, shut := range []bool{false, true} {
				compare(t, g, from, connections, shut)
			}
		}
	}
}

// compare compares one load from one pod.
func compare(t *testing.T, g *testbed.Ground, from topo.Pod, connections int, shut bool) {
	rounds := 6
	if v := os.Getenv("PATHWISE_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	rate, mean := [2]stat.Blocks{{}, {}}, [2]stat.Blocks{{}, {}}
	for r := 1; r <= rounds; r++ {
		for k := range 2 {
			who := (k + r) % 2 // in turn, as the machine may change
			run := ours
			if who == 1 {
				run = wrk
			}
			s := run(t, g, from, connections, shut)
			rate[who][r], mean[who][r] = s.Rate, s.Mean
		}
	}
	more, longer := stat.RatioT(rate[0], rate[1], stat.Level), stat.RatioT(mean[0], mean[1], stat.Level)
	path, how, verdict := "veth", "keep-alive", "agree"
	if from.Name == g.Pairs[0].Server.Name {
		path = "loopback"
	}
	if shut {
		how = "close"
	}
	// wrk's clock starts when a connection is there (socket_writeable in its wrk.c),
	// ours before it is asked for: with a connection for each request only the
	// rates mean the same.
	if more.High < 0.95 || !shut && longer.Low > 1.05 {
		verdict = "differ"
		t.Errorf("%s %d %s: differs from wrk", path, connections, how)
	}
	fmt.Printf("%-10s %-12d %-11s %8.3f (%.3f to %.3f) %8.3f (%.3f to %.3f) %s\n", path, connections, how,
		more.Center, more.Low, more.High, longer.Center, longer.Low, longer.High, verdict)
}

const seconds = 2

// ours runs the client.
func ours(t *testing.T, g *testbed.Ground, from topo.Pod, connections int, shut bool) said {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{g.Self, "generate", "http", "--target", g.Pairs[0].Server.Service.String(), "--connections",
		strconv.Itoa(connections), "--size", strconv.Itoa(10 << 10), "--begin", (now + 400*time.Millisecond).String(),
		"--duration", fmt.Sprintf("%ds", seconds)}
	if shut {
		args = append(args, "--close")
	}
	res, err := g.Exec(t.Context(), from, args...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(res.Stdout)
	if err != nil || c.Failed > 0 {
		t.Fatalf("%v: %d failed: %s", err, c.Failed, c.Failure)
	}
	return said{float64(c.Operations) / seconds, c.Latency.Mean(), c.Latency.Percentile(50)}
}

// script makes wrk tell its figures exactly; times are in microseconds.
const script = `done = function(s, latency, _)
  io.write(string.format('\n{"Rate": %f, "Mean": %f, "Median": %f}\n', s.requests / s.duration * 1e6, latency.mean / 1e6, latency:percentile(50) / 1e6))
end`

// wrk runs wrk.
func wrk(t *testing.T, g *testbed.Ground, from topo.Pod, connections int, shut bool) said {
	t.Helper()
	lua := filepath.Join(g.Dir, "wrk.lua")
	if err := os.WriteFile(lua, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"wrk", "-t", strconv.Itoa(min(connections, 2)), "-c", strconv.Itoa(connections), "-d",
		fmt.Sprintf("%ds", seconds), "-s", lua}
	if shut {
		args = append(args, "-H", "Connection: close")
	}
	res, err := g.Exec(t.Context(), from, append(args, "http://"+g.Pairs[0].Server.Service.String()+"/"+object)...)
	if err != nil {
		t.Fatal(err)
	}
	var s said
	if at := bytes.LastIndexByte(res.Stdout, '{'); at < 0 || json.Unmarshal(res.Stdout[at:], &s) != nil {
		t.Fatalf("wrk said %s", res.Stdout)
	}
	return s
}
