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
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
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

// maxDatagram is what UDP over IPv4 carries.
const maxDatagram = 65507

// Info implements workload.Workload.
func (r Requests) Info() workload.Info {
	info := workload.Info{
		Name:    "tcp-rr",
		Summary: "requests and answers on lasting TCP connections, one under way on each",
		Tool:    "pathwise generate: answered requests (service time, closed loop)",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean,
			sample.Errors},
		Knobs:   []string{"connections", "size", "congestion"},
		Default: sample.Load{Connections: 1, Size: 1},
		Max:     sample.Load{Connections: 1000, Size: 1 << 20},
		Pairs:   true,
	}
	if r.Proto == workload.UDP {
		info.Name = "udp-rr"
		info.Summary = "requests and answers in UDP datagrams, one under way from each socket"
		info.Metrics = append(info.Metrics, sample.Loss)
		info.Max.Size = maxDatagram
		info.Knobs = []string{"connections", "size"}
	}
	if r.Once {
		info.Name = "connect"
		info.Summary = "TCP connect, a byte each way, close"
		info.Knobs = []string{"connections", "congestion"}
		info.Default.Size, info.Max.Size = 0, 0
	}
	info.MinDuration = 200 * time.Millisecond
	return info
}

// Run implements workload.Workload.
func (r Requests) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	t := &trial{Requests: r, bed: bed, load: load, window: w}
	t.Generators = workload.Generators{Connections: load.Connections, Patience: patience,
		Protos: []workload.Proto{r.proto()}, Server: func(i int) []string { return t.serverArgs(bed.Pairs[i].Server) },
		Client: t.clientArgs}
	err := t.Generators.Run(ctx, bed, w, m)
	var out workload.Outcome
	if err == nil {
		out, err = t.outcome()
	}
	if err != nil {
		return out, fmt.Errorf("run %s: %w", r.Info().Name, err)
	}
	return out, nil
}

// trial is one run.
type trial struct {
	Requests
	workload.Generators
	bed    workload.Bed
	load   sample.Load
	window workload.Window
}

// size of a request in bytes; connect has no such knob and sends one.
func (t *trial) size() int { return max(t.load.Size, 1) }

func (t *trial) serverArgs(pod topo.Pod) []string {
	args := []string{t.Self, "generate", "serve", "--proto", string(t.proto()), "--addr",
		netip.AddrPortFrom(netip.IPv6Unspecified(), pod.Listen).String(), "--connections", strconv.Itoa(t.load.Connections),
		"--size", strconv.Itoa(t.size())}
	return append(args, t.options()...)
}

// options are those of both ends.
func (t *trial) options() (args []string) {
	if t.Once {
		args = append(args, "--once")
	}
	if t.proto() == workload.TCP {
		args = append(args, "--congestion", workload.CongestionOf(t.load))
	}
	return args
}

func (t *trial) clientArgs(pair int, begin string) []string {
	args := []string{t.Self, "generate", "requests", "--proto", string(t.proto()), "--target",
		t.bed.Pairs[pair].Server.Service.String(), "--connections", strconv.Itoa(t.load.Connections),
		"--size", strconv.Itoa(t.size()), "--begin", begin, "--duration", t.window.Duration.String()}
	return append(args, t.options()...)
}

// outcome merges the pairs' counts.
func (t *trial) outcome() (workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram(), Details: map[string]string{
		"client": fmt.Sprint(t.clientArgs(0, "BEGIN")[1:])}}
	if t.proto() == workload.TCP {
		out.Details["congestion"] = workload.CongestionOf(t.load)
	}
	for i, res := range t.Clients {
		pod := t.bed.Pairs[i].Client.Name
		c, err := workload.ParseCount(res.Stdout)
		if err != nil {
			return out, fmt.Errorf("client in pod %s: %w", pod, err)
		}
		out.AddCount(pod, c)
		out.Latency.Merge(c.Latency)
		out.AddUser(res, t.load.Connections)
	}
	if failed := out.Metrics[sample.Errors]; t.proto() == workload.UDP {
		out.Metrics[sample.Loss] = failed / (failed + out.Operations)
	}
	out.Metrics[sample.Rate] = out.Operations / t.window.Duration.Seconds()
	out.SetLatency()
	return out, nil
}
