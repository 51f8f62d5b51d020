// Package loaded measures what load does to latency: round trips on an idle
// path first, and then alongside streams that fill it in both directions, as
// flent's RRUL test does and as sparkyfish tells bandwidth and latency (Suo et
// al. 2018).
//
// One request is under way at a time, so latencies are service times.
package loaded

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/bulk"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Latency is the workload loaded-latency.
type Latency struct {
	// Self is the pathwise executable.
	Self string
}

const (
	// message is the size of requests in bytes, that of a ping.
	message = 64
	// chunk is the size of the streams' writes, iperf3's.
	chunk = 128 << 10
	// streams in each direction where the experiment names none, as in RRUL.
	streams = 4
	// least is the shortest look at the idle path.
	least = 200 * time.Millisecond
	// patience is how long after the window an answer may come.
	patience = 2 * time.Second
)

// Info implements workload.Workload.
func (Latency) Info() workload.Info {
	return workload.Info{
		Name:    "loaded-latency",
		Summary: "round trips on the idle path, then alongside TCP streams that fill it both ways",
		Tool:    "pathwise generate: answered requests (service time, closed loop) and payload that the receivers read",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.LatencyLoaded, sample.LatencyIdle, sample.LatencyGrowth, sample.ThroughputDown,
			sample.ThroughputUp,
			sample.LatencyP99, sample.Retransmits, sample.Errors},
		Knobs:       []string{"connections", "congestion"},
		Default:     sample.Load{Connections: streams},
		Max:         sample.Load{Connections: 500},
		Pairs:       true,
		MinDuration: least,
	}
}

// trial is one run.
type trial struct {
	self         string
	streams      int
	congestion   string
	bed          workload.Bed
	fleet        *bulk.Fleet
	idle, loaded *workload.Generators
}

// Run implements workload.Workload. The idle path is looked at for half of the
// window's length before the streams begin; the window is under load.
func (l Latency) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	t := &trial{self: l.Self, streams: load.Connections, bed: bed, congestion: workload.CongestionOf(load),
		fleet: bulk.NewFleet(l.Self, bed, bulk.Offer{Up: load.Connections, Down: load.Connections, Size: chunk,
			Duration: w.Duration, Congestion: workload.CongestionOf(load)})}
	err := t.run(ctx, w, m)
	var out workload.Outcome
	if err == nil {
		out, err = t.outcome(w)
	}
	if err != nil {
		return out, fmt.Errorf("run loaded-latency: %w", err)
	}
	return out, nil
}

func (t *trial) run(ctx context.Context, w workload.Window, m workload.Meter) error {
	return workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		lead, err := t.fleet.Serve(ctx, t.bed, crew)
		if err != nil {
			return err
		}
		idle := max(w.Duration/2, least)
		t.idle = t.asking(idle)
		if err := t.idle.Gather(ctx, t.bed, crew); err != nil {
			return err
		}
		begin := time.Now().Add(lead)
		if err := t.idle.Begin(begin); err != nil {
			return err
		}
		if err := workload.SleepUntil(ctx, begin.Add(idle)); err != nil {
			return err
		}
		if err := t.idle.Wait(ctx); err != nil {
			return fmt.Errorf("idle path: %w", err)
		}
		t.loaded = t.asking(w.Duration)
		if err := errors.Join(t.fleet.Gather(ctx, t.bed, crew), t.loaded.Gather(ctx, t.bed, crew)); err != nil {
			return errors.Join(err, t.fleet.Release(), t.loaded.Release())
		}
		begin = time.Now().Add(lead + w.Warmup)
		if err := errors.Join(t.fleet.Begin(begin), t.loaded.Begin(begin)); err != nil {
			return err
		}
		if _, err := workload.Measure(ctx, begin, w.Duration, m); err != nil {
			return err
		}
		if err := errors.Join(t.loaded.Wait(ctx), t.fleet.Wait(ctx)); err != nil {
			return err
		}
		return t.fleet.Read()
	})
}

// asking is a client for requests on each pair.
func (t *trial) asking(d time.Duration) *workload.Generators {
	return &workload.Generators{Patience: patience, Client: func(pair int, begin string) []string {
		return t.args(t.bed.Pairs[pair].Server, begin, d)
	}}
}

func (t *trial) args(server topo.Pod, begin string, d time.Duration) []string {
	hello := bulk.Hello{Direction: bulk.Echo, Size: message, Duration: d} // who echoes has no use for its beginning
	return []string{t.self, "generate", "requests", "--target", server.Service.String(), "--size", strconv.Itoa(message),
		"--hello", hello.Line(), "--begin", begin, "--duration", d.String(), "--congestion", t.congestion}
}

// outcome merges the pairs' figures. Growth is of medians: the mean of a few
// round trips that met a full queue would say little.
func (t *trial) outcome(w workload.Window) (workload.Outcome, error) {
	idle, loaded := sample.NewHistogram(), sample.NewHistogram()
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: loaded}
	t.fleet.User(&out)
	var up, down, again float64
	for i, c := range t.fleet.Counts {
		up, down = up+float64(c.Up.Bytes()), down+float64(c.Down.Bytes())
		again += float64(c.Retransmits)
		for _, of := range []struct {
			*workload.Generators
			*sample.Histogram
		}{{t.idle, idle}, {t.loaded, loaded}} {
			pod := t.bed.Pairs[i].Client.Name
			n, err := workload.ParseCount(of.Clients[i].Stdout)
			if err != nil {
				return out, fmt.Errorf("client in pod %s: %w", pod, err)
			}
			of.Merge(n.Latency)
			out.AddErrors(pod, n.Failed, n.Operations, n.Failure)
		}
	}
	seconds := w.Duration.Seconds()
	out.Metrics[sample.ThroughputUp], out.Metrics[sample.ThroughputDown] = 8*up/seconds, 8*down/seconds
	out.Metrics[sample.LatencyIdle], out.Metrics[sample.LatencyLoaded] = idle.Percentile(50), loaded.Percentile(50)
	out.Metrics[sample.LatencyGrowth] = out.Metrics[sample.LatencyLoaded] / out.Metrics[sample.LatencyIdle]
	out.Metrics[sample.LatencyP99] = loaded.Percentile(99)
	out.Metrics[sample.Retransmits] = again / max(up/1e9, 1e-9)
	out.Bytes = up + down
	out.Details = map[string]string{
		"congestion": t.congestion,
		"idle path": fmt.Sprintf("%d round trips: median %.4g s, p99 %.4g s", idle.Count(), idle.Percentile(50),
			idle.Percentile(99)),
		"under load": fmt.Sprintf("%d round trips: median %.4g s, p99 %.4g s, p99.9 %.4g s", loaded.Count(),
			loaded.Percentile(50), loaded.Percentile(99), loaded.Percentile(99.9)),
		"streams": fmt.Sprintf("%d each way per pair, writes of %d bytes", t.streams, chunk),
	}
	return out, nil
}
