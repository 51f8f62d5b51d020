// Package sockperf measures round trips of single messages with sockperf in
// ping-pong mode: one message under way at a time per pair.
//
// The loop is closed, so the latencies are service times and not responses
// under an offered load. They are whole round trips; sockperf's own default is
// to print the half.
package sockperf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Latency is the workload tcp-latency or udp-latency.
type Latency struct {
	Proto workload.Proto
}

// What sockperf 3.7 does besides measuring (client.cpp, sockperf.cpp).
const (
	// pause is what it sleeps before it measures: 0.1 s to calibrate the TSC
	// and 2 s after connecting.
	pause = 2100 * time.Millisecond
	// With --no-rdtsc its own constants stretch by the TSC's rate in GHz, as
	// they are converted to TSC ticks before the option is read. Room is left
	// for stretch. Among them are the beginning and the end that are left out
	// of the log, 400 and 50 ms.
	stretch   = 4
	dropFirst = stretch * 400 * time.Millisecond
	dropLast  = stretch * 50 * time.Millisecond
	// settle is what a client may take from its start to the pause, besides
	// what a pair adds; most of it goes into clearing memory, see rateCap.
	settle        = 100 * time.Millisecond
	settlePerPair = 20 * time.Millisecond

	startTimeout = 20 * time.Second
	// endTimeout is how long it may take to sort and write its log.
	endTimeout = 20 * time.Second
)

// Info implements workload.Workload.
func (l Latency) Info() workload.Info {
	return workload.Info{
		Name:        string(l.Proto) + "-latency",
		Summary:     strings.ToUpper(string(l.Proto)) + " round trips, one message under way per pair",
		Tool:        "sockperf ping-pong: whole round-trip times (service time, closed loop) of messages sent in the window",
		Needs:       []network.Need{network.NeedRoot(), network.NeedProgram("sockperf", "sockperf")},
		Metrics:     []string{sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean, sample.Rate},
		Knobs:       []string{"size"},
		Default:     sample.Load{Size: 64},
		Min:         sample.Load{Size: 14}, // sockperf's header
		Max:         sample.Load{Size: 64000},
		Pairs:       true,
		OnlyIPv4:    "sockperf speaks IPv6 from version 3.8 on, and Debian 12 has 3.7: measure udp-rr or tcp-rr",
		MinDuration: 500 * time.Millisecond,
		Extra:       3500 * time.Millisecond, // its pause, and whole seconds
	}
}

// Run implements workload.Workload. The window's ends are exact: the log's
// times and this process's are of the same monotonic clock.
func (l Latency) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (out workload.Outcome, err error) {
	dir, err := os.MkdirTemp(bed.Dir, "pathwise-sockperf-")
	if err != nil {
		return out, fmt.Errorf("run %s: %w", l.Info().Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := trial{Latency: l, bed: bed, size: load.Size, window: w, dir: dir,
		servers: make([]program.Result, len(bed.Pairs))}
	asked, err := workload.AskCongestion(ctx, bed)
	if err == nil {
		err = t.run(ctx, m)
	}
	if err == nil {
		out, err = t.outcome()
	}
	if err != nil {
		return out, fmt.Errorf("run %s: %w", l.Info().Name, err)
	}
	if l.Proto == workload.TCP {
		asked.Tell(&out, "sockperf")
	}
	return out, nil
}

// trial is one run of the workload.
type trial struct {
	Latency
	bed    workload.Bed
	size   int
	window workload.Window
	dir    string
	// begin and end of the window by the monotonic clock.
	begin, end time.Duration
	// servers is what the servers used.
	servers []program.Result
	// speed is how fast the machine clears memory, and extra what a client may
	// take to start on a slow one.
	speed clearing
	extra time.Duration
}

// lead is what passes from the start of the round trips to the window.
func (t *trial) lead() time.Duration { return max(t.window.Warmup, dropFirst) }

// slack is what clients may start apart.
func (t *trial) slack() time.Duration {
	return settle + t.extra + time.Duration(len(t.bed.Pairs))*settlePerPair
}

// seconds is how long sockperf must measure; it knows whole seconds only.
func (t *trial) seconds() int {
	return int(math.Ceil((t.slack() + t.lead() + t.window.Duration + dropLast + settle).Seconds()))
}

func (t *trial) serverArgs(pod topo.Pod) []string {
	args := []string{"sockperf", "server", "-p", strconv.Itoa(int(pod.Listen))}
	if t.Proto == workload.TCP {
		// Or else the port stays taken for a minute after a server was killed.
		args = append(args, "--uc-reuseaddr")
	}
	return append(args, t.transport()...)
}

func (t *trial) clientArgs(server topo.Pod, log string) []string {
	args := []string{"sockperf", "ping-pong", "-i", server.Service.Addr().String(), "-p",
		strconv.Itoa(int(server.Service.Port())), "-m", strconv.Itoa(t.size), "-t", strconv.Itoa(t.seconds()), "--full-rtt",
		"--no-rdtsc", "--full-log", log}
	if limit := t.cap(); limit > 0 {
		args = append(args, "--mps", strconv.Itoa(limit))
	}
	return append(args, t.transport()...)
}

func (t *trial) transport() []string {
	if t.Proto == workload.TCP {
		return []string{"--tcp"}
	}
	return nil
}

func (t *trial) log(pair int) string { return filepath.Join(t.dir, fmt.Sprintf("%d.csv", pair)) }

// run offers the load and leaves the logs in the trial's directory.
func (t *trial) run(ctx context.Context, m workload.Meter) error {
	var err error
	if t.speed, err = clearingSpeed(); err != nil {
		return err
	}
	return workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		begun := time.Now()
		for i, pair := range t.bed.Pairs {
			crew.Serve("sockperf server in pod "+pair.Server.Name, func(ctx context.Context) (err error) {
				t.servers[i], err = execute(ctx, t.bed, pair.Server, t.serverArgs(pair.Server))
				return err
			})
		}
		if err := workload.AwaitServers(ctx, t.bed, t.Proto); err != nil {
			return err
		}
		t.extra = patience(time.Since(begun))
		var clients []*workload.Task
		for i, pair := range t.bed.Pairs {
			if err := workload.ShareDir(ctx, t.bed, pair.Client, t.dir); err != nil {
				return err
			}
			clients = append(clients, crew.Go(func(ctx context.Context) error {
				if _, err := execute(ctx, t.bed, pair.Client, t.clientArgs(pair.Server, t.log(i))); err != nil {
					return err
				}
				return workload.Fetch(ctx, t.bed, pair.Client, t.log(i))
			}))
		}
		connected, err := t.awaitClients(ctx)
		if err != nil {
			return err
		}
		started := connected.Add(pause)
		span, err := workload.Measure(ctx, started.Add(t.lead()), t.window.Duration, m)
		if err != nil {
			return err
		}
		if t.begin, err = monotonic(span.Begin); err != nil {
			return err
		}
		t.end = t.begin + span.End.Sub(span.Begin)
		return workload.WaitAll(ctx, clients, started.Add(time.Duration(t.seconds())*time.Second+endTimeout),
			fmt.Errorf("sockperf did not end within %v after its time", endTimeout))
	})
}

// awaitClients returns by when all clients have connected, which they do before
// the pause. A UDP client does not show itself; it gets the time that it may take.
func (t *trial) awaitClients(ctx context.Context) (time.Time, error) {
	latest := time.Now().Add(t.slack())
	if t.Proto != workload.TCP {
		return latest, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("gave up after %v", startTimeout))
	defer cancel()
	for _, pair := range t.bed.Pairs {
		if err := workload.AwaitConnected(ctx, t.bed, pair.Server, workload.TCP, 1); err != nil {
			return latest, err
		}
	}
	if now := time.Now(); now.After(latest) {
		latest = now
	}
	return latest, nil
}

// monotonic is the moment on the kernel's monotonic clock, which sockperf's
// log uses with --no-rdtsc.
func monotonic(at time.Time) (time.Duration, error) {
	now, err := program.Monotonic()
	return now - time.Since(at), err
}

// execute runs one sockperf process to its end.
func execute(ctx context.Context, bed workload.Bed, pod topo.Pod, argv []string) (program.Result, error) {
	res, err := bed.Exec(ctx, pod, argv...)
	switch said := complaint(res.Stdout); {
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	case said != "":
		return res, fmt.Errorf("run sockperf in pod %s: %s", pod.Name, said)
	case err != nil:
		return res, fmt.Errorf("run sockperf in pod %s: %w", pod.Name, err)
	}
	return res, nil
}
