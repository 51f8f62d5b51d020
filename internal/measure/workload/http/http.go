// Package http offers web access (Atici and Boluk 2020): connections side by
// side that ask a web server for an object, again and again for the window, on
// lasting connections (http) or on a new one for each request (http-close).
//
// The server is nginx where it is installed, and Go's own in the pathwise
// executable otherwise; a result says which. The client is our own, an event loop
// as wrk's: it is no browser, and reads what it asked for from one server.
//
// Without a rate the loop is closed and latencies are service times. With one,
// requests are due at fixed times, and latency counts from when each was due, so
// that a slow answer is not hidden by those that it kept from being sent
// (coordinated omission).
package http

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Access is the workload http or http-close.
type Access struct {
	// Self is the pathwise executable.
	Self string
	// Close opens a connection for each request: the workload http-close.
	Close bool
	// Embedded takes our own server even where nginx is installed.
	Embedded bool
}

// Info implements workload.Workload.
func (a Access) Info() workload.Info {
	info := workload.Info{
		Name:    "http",
		Summary: "web access: an object from nginx, asked for again and again on lasting connections",
		Tool:    "pathwise generate: whole answers with status 200 (service time, or at a rate the time since each was due)",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean,
			sample.Throughput, sample.Errors},
		Knobs:   []string{"connections", "size", "rate", "congestion"},
		Default: sample.Load{Connections: 50, Size: 10 << 10},
		Max:     sample.Load{Connections: 1000, Size: 64 << 20, Rate: 1e6},
		Pairs:   true,
	}
	if a.Close {
		info.Name = "http-close"
		info.Summary = "web access: an object from nginx, on a new connection for each request"
	}
	info.MinDuration = 200 * time.Millisecond
	return info
}

// Run implements workload.Workload.
func (a Access) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (out workload.Outcome, err error) {
	name := a.Info().Name
	dir, err := os.MkdirTemp(bed.Dir, "pathwise-http-")
	if err != nil {
		return out, fmt.Errorf("run %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &trial{Access: a, bed: bed, load: load, window: w}
	if err := t.prepare(dir); err != nil {
		return out, fmt.Errorf("run %s: %w", name, err)
	}
	g := workload.Generators{Connections: load.Connections, Patience: patience,
		Server: func(i int) []string { return t.servers[i] }, Client: t.clientArgs}
	if err := g.Run(ctx, bed, w, m); err != nil {
		return out, fmt.Errorf("run %s: %w", name, err)
	}
	if out, err = t.outcome(g.Clients); err != nil {
		return out, fmt.Errorf("run %s: %w", name, err)
	}
	return out, nil
}

// trial is one run.
type trial struct {
	Access
	bed    workload.Bed
	load   sample.Load
	window workload.Window
	// servers are the commands of the pairs' servers.
	servers [][]string
}

// prepare makes the servers' commands, and what they need, in dir.
func (t *trial) prepare(dir string) error {
	_, missing := network.FindProgram("nginx")
	for i, pair := range t.bed.Pairs {
		argv := []string{t.Self, "generate", "http-serve", "--addr", ":" + strconv.Itoa(int(pair.Server.Listen)), "--size",
			strconv.Itoa(t.load.Size), "--congestion", workload.CongestionOf(t.load)}
		if missing == nil && !t.Embedded {
			var err error
			if argv, err = nginx(filepath.Join(dir, strconv.Itoa(i)), pair.Server, t.load.Size); err != nil {
				return err
			}
			argv = append([]string{t.Self, "generate", "http-nginx", "--addr", listen(pair.Server).String(), "--congestion",
				workload.CongestionOf(t.load), "--"}, argv...)
		}
		t.servers = append(t.servers, argv)
	}
	return nil
}

func (t *trial) clientArgs(pair int, begin string) []string {
	args := []string{t.Self, "generate", "http", "--target", t.bed.Pairs[pair].Server.Service.String(),
		"--connections", strconv.Itoa(t.load.Connections), "--size", strconv.Itoa(t.load.Size),
		"--begin", begin, "--duration", t.window.Duration.String(),
		"--congestion", workload.CongestionOf(t.load)}
	if t.load.Rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(t.load.Rate, 'g', -1, 64))
	}
	if t.Close {
		args = append(args, "--close")
	}
	return args
}

// outcome merges what the pairs' clients counted.
func (t *trial) outcome(results []program.Result) (workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram(), Details: map[string]string{
		"client":  strings.Join(t.clientArgs(0, "BEGIN")[1:], " "),
		"latency": "service time: the loop is closed"}}
	out.Details["congestion"] = workload.CongestionOf(t.load)
	if t.load.Rate > 0 {
		out.Details["latency"] = "from when each request was due"
	}
	for i, res := range results {
		pod := t.bed.Pairs[i].Client.Name
		c, err := parse(res.Stdout)
		if err != nil {
			return out, fmt.Errorf("client in pod %s: %w", pod, err)
		}
		out.AddCount(pod, c.Count)
		out.Bytes += float64(c.Bytes)
		out.Latency.Merge(c.Latency)
		if c.Unsent > 0 {
			out.Warnings = append(out.Warnings, sample.Warning{Gate: "overload", Text: fmt.Sprintf(
				"client in pod %s: %d requests were due that could not begin, as earlier ones were not answered: the rate is more than is carried", pod, c.Unsent)})
		}
		out.Details["server"] = c.Server
		out.AddUser(res, t.load.Connections)
	}
	out.Metrics[sample.Rate] = out.Operations / t.window.Duration.Seconds()
	out.Metrics[sample.Throughput] = 8 * out.Bytes / t.window.Duration.Seconds()
	out.SetLatency()
	return out, nil
}
