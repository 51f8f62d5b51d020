// Package request offers requests: tcp-rr, many on each connection, as netperf's
// TCP_RR, connect, a connection for each, as its TCP_CRR, and udp-rr, a datagram
// each way, as its UDP_RR. No generator in Debian's main archive does these for
// several connections, so this is one of our own: the pathwise executable, run
// in the pods.
//
// The loops are closed: latencies are service times.
package request

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
)

// Requests is the workload tcp-rr, udp-rr or connect.
type Requests struct {
	// Self is the pathwise executable.
	Self string
	// Proto is TCP unless it says UDP: the workload udp-rr.
	Proto workload.Proto
	// Once opens a connection for each request: the workload connect.
	Once bool
}

// proto of what it sends.
func (r Requests) proto() workload.Proto { return cmp.Or(r.Proto, workload.TCP) }

// Time that generators get.
const (
	// endTimeout is how long after its last answer a client may take to end.
	endTimeout = 5 * time.Second
	// lead is what clients may take to start and connect, beside what a pair
	// and a connection add.
	lead           = 60 * time.Millisecond
	leadPerPair    = 20 * time.Millisecond
	leadPerHundred = 20 * time.Millisecond
)

// maxDatagram is what UDP over IPv4 carries.
const maxDatagram = 65507

// Info implements workload.Workload.
func (r Requests) Info() workload.Info {
	info := workload.Info{
		Name:    "tcp-rr",
		Summary: "requests and answers on lasting TCP connections, one under way on each",
		Tool:    "pathwise generate: answered requests (service time, closed loop)",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean, sample.Errors},
		Knobs:   []string{"connections", "size"},
		Default: sample.Load{Connections: 1, Size: 1},
		Max:     sample.Load{Connections: 1000, Size: 1 << 20},
		Pairs:   true,
	}
	if r.Proto == workload.UDP {
		info.Name = "udp-rr"
		info.Summary = "requests and answers in UDP datagrams, one under way from each socket"
		info.Metrics = append(info.Metrics, sample.Loss)
		info.Max.Size = maxDatagram
	}
	if r.Once {
		info.Name = "connect"
		info.Summary = "TCP connect, a byte each way, close"
		info.Knobs = []string{"connections"}
		info.Default.Size, info.Max.Size = 0, 0
	}
	info.MinDuration = 200 * time.Millisecond
	return info
}

// Run implements workload.Workload.
func (r Requests) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window, m workload.Meter) (workload.Outcome, error) {
	t := &trial{Requests: r, bed: bed, load: load, window: w, clients: make([]workload.Result, len(bed.Pairs)), counts: make([]Count, len(bed.Pairs))}
	if err := t.run(ctx, m); err != nil {
		return workload.Outcome{}, fmt.Errorf("run %s: %w", r.Info().Name, err)
	}
	return t.outcome(), nil
}

// trial is one run.
type trial struct {
	Requests
	bed     workload.Bed
	load    sample.Load
	window  workload.Window
	clients []workload.Result
	counts  []Count
}

func (t *trial) run(ctx context.Context, m workload.Meter) error {
	return workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		started := time.Now()
		for _, pair := range t.bed.Pairs {
			crew.Serve("server in pod "+pair.Server.Name, func(ctx context.Context) error {
				_, err := t.bed.Exec(ctx, pair.Server, t.serverArgs(pair.Server)...)
				return err
			})
		}
		if err := workload.AwaitServers(ctx, t.bed, t.proto()); err != nil {
			return err
		}
		start := lead + time.Duration(len(t.bed.Pairs))*leadPerPair + time.Duration(t.load.Connections)*leadPerHundred/100
		// Clients are the same executable as the servers: where those took long to
		// start, as on a guest's kernel, so will these.
		start = max(start, 2*time.Since(started))
		begin := time.Now().Add(start + t.window.Warmup)
		now, err := workload.Monotonic()
		if err != nil {
			return err
		}
		var clients []*workload.Task
		for i, pair := range t.bed.Pairs {
			args := t.clientArgs(pair.Server, now+time.Until(begin))
			clients = append(clients, crew.Go(func(ctx context.Context) (err error) {
				t.counts[i], t.clients[i], err = t.client(ctx, pair.Client, args)
				return err
			}))
		}
		if _, err := workload.Measure(ctx, begin, t.window.Duration, m); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, patience+endTimeout, errors.New("the clients did not end in time"))
		defer cancel()
		for _, c := range clients {
			if err := c.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// client runs one pair's client to its end.
func (t *trial) client(ctx context.Context, pod topo.Pod, args []string) (c Count, res workload.Result, err error) {
	res, err = t.bed.Exec(ctx, pod, args...)
	if ctx.Err() != nil {
		return c, res, context.Cause(ctx)
	}
	if err != nil {
		return c, res, fmt.Errorf("client in pod %s: %w", pod.Name, err)
	}
	if c, err = parse(res.Stdout); err != nil {
		return c, res, fmt.Errorf("client in pod %s: %w", pod.Name, err)
	}
	return c, res, nil
}

// parse reads what the client printed.
func parse(out []byte) (Count, error) {
	var c Count
	if err := json.Unmarshal(out, &c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	if c.Operations < 1 || c.Failed < 0 || c.Latency == nil || c.Latency.Count() != c.Operations {
		return c, fmt.Errorf("read result: figures that cannot be: %d operations, %d failed", c.Operations, c.Failed)
	}
	return c, nil
}

// size of a request in bytes; connect has no such knob and sends one.
func (t *trial) size() int { return max(t.load.Size, 1) }

func (t *trial) serverArgs(pod topo.Pod) []string {
	args := []string{t.Self, "generate", "serve", "--proto", string(t.proto()), "--addr", netip.AddrPortFrom(netip.IPv6Unspecified(), pod.Listen).String(),
		"--connections", strconv.Itoa(t.load.Connections), "--size", strconv.Itoa(t.size())}
	if t.Once {
		args = append(args, "--once")
	}
	return args
}

func (t *trial) clientArgs(server topo.Pod, begin time.Duration) []string {
	args := []string{t.Self, "generate", "requests", "--proto", string(t.proto()), "--target", server.Service.String(), "--connections", strconv.Itoa(t.load.Connections),
		"--size", strconv.Itoa(t.size()), "--begin", begin.String(), "--duration", t.window.Duration.String()}
	if t.Once {
		args = append(args, "--once")
	}
	return args
}

// outcome merges the pairs' counts.
func (t *trial) outcome() workload.Outcome {
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram(), Details: map[string]string{
		"client": fmt.Sprint(t.clientArgs(t.bed.Pairs[0].Server, 0)[1:])}}
	threads := float64(min(t.load.Connections, runtime.NumCPU()))
	var failed float64
	for i, c := range t.counts {
		failed += float64(c.Failed)
		out.Operations += float64(c.Operations)
		out.Latency.Merge(c.Latency)
		out.AddErrors(t.bed.Pairs[i].Client.Name, c.Failed, c.Operations, c.Failure)
		out.GeneratorUser = max(out.GeneratorUser, t.clients[i].User.Seconds()/threads/max(t.clients[i].Wall.Seconds(), 1e-3))
	}
	if t.proto() == workload.UDP {
		out.Metrics[sample.Loss] = failed / (failed + out.Operations)
	}
	out.Metrics[sample.Rate] = out.Operations / t.window.Duration.Seconds()
	out.SetLatency()
	return out
}
