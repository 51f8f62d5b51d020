// Package loaded measures what load does to latency: round trips on an idle
// path first, and then beside streams that fill it in both directions, as
// flent's RRUL test does and as sparkyfish tells bandwidth and latency (Suo et
// al. 2018).
//
// One request is under way at a time, so latencies are service times.
package loaded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
	"pathwise.dev/pathwise/internal/workload/bulk"
	"pathwise.dev/pathwise/internal/workload/request"
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
	// endTimeout is how long after its last answer a client may take to end.
	endTimeout = 7 * time.Second
)

// Info implements workload.Workload.
func (Latency) Info() workload.Info {
	return workload.Info{
		Name:    "loaded-latency",
		Summary: "round trips on the idle path, then beside TCP streams that fill it both ways",
		Tool:    "pathwise generate: answered requests (service time, closed loop) and payload that the receivers read",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.LatencyLoaded, sample.LatencyIdle, sample.LatencyGrowth, sample.ThroughputDown, sample.ThroughputUp,
			sample.LatencyP99, sample.Retransmits, sample.Errors},
		Knobs:       []string{"connections"},
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
	bed          workload.Bed
	fleet        *bulk.Fleet
	idle, loaded []request.Count
}

// Run implements workload.Workload. The idle path is looked at for half of the
// window's length before the streams begin; the window is under load.
func (l Latency) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window, m workload.Meter) (workload.Outcome, error) {
	n := len(bed.Pairs)
	t := &trial{self: l.Self, streams: load.Connections, bed: bed, idle: make([]request.Count, n), loaded: make([]request.Count, n),
		fleet: bulk.NewFleet(l.Self, bed, bulk.Offer{Up: load.Connections, Down: load.Connections, Size: chunk, Duration: w.Duration})}
	if err := t.run(ctx, w, m); err != nil {
		return workload.Outcome{}, fmt.Errorf("run loaded-latency: %w", err)
	}
	return t.outcome(w), nil
}

func (t *trial) run(ctx context.Context, w workload.Window, m workload.Meter) error {
	return workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		lead, err := t.fleet.Serve(ctx, crew)
		if err != nil {
			return err
		}
		begin := time.Now().Add(lead)
		alone, err := t.ask(crew, t.idle, begin, max(w.Duration/2, least))
		if err != nil {
			return err
		}
		if err := wait(ctx, alone, begin.Add(max(w.Duration/2, least))); err != nil {
			return fmt.Errorf("idle path: %w", err)
		}
		begin = time.Now().Add(lead + w.Warmup)
		if err := t.fleet.Start(crew, begin); err != nil {
			return err
		}
		beside, err := t.ask(crew, t.loaded, begin, w.Duration)
		if err != nil {
			return err
		}
		span, err := workload.Measure(ctx, begin, w.Duration, m)
		if err != nil {
			return err
		}
		return errors.Join(wait(ctx, beside, span.End), t.fleet.Wait(ctx))
	})
}

// ask starts a client for requests on each pair.
func (t *trial) ask(crew *workload.Crew, counts []request.Count, begin time.Time, d time.Duration) ([]*workload.Task, error) {
	now, err := workload.Monotonic()
	if err != nil {
		return nil, err
	}
	at := now + time.Until(begin)
	var out []*workload.Task
	for i, pair := range t.bed.Pairs {
		out = append(out, crew.Go(func(ctx context.Context) (err error) {
			counts[i], err = t.client(ctx, pair.Client, t.args(pair.Server, at, d))
			return err
		}))
	}
	return out, nil
}

func (t *trial) client(ctx context.Context, pod topo.Pod, args []string) (c request.Count, err error) {
	res, err := t.bed.Exec(ctx, pod, args...)
	if ctx.Err() != nil {
		return c, context.Cause(ctx)
	}
	if err == nil {
		err = json.Unmarshal(res.Stdout, &c)
	}
	if err == nil && (c.Operations < 1 || c.Latency == nil || c.Latency.Count() != c.Operations) {
		err = fmt.Errorf("read result: figures that cannot be: %d operations", c.Operations)
	}
	if err != nil {
		return c, fmt.Errorf("client in pod %s: %w", pod.Name, err)
	}
	return c, nil
}

func (t *trial) args(server topo.Pod, begin, d time.Duration) []string {
	hello := bulk.Hello{Direction: bulk.Echo, Size: message, Begin: begin, Duration: d}
	return []string{t.self, "generate", "requests", "--target", server.Service.String(), "--size", strconv.Itoa(message),
		"--hello", hello.Line(), "--begin", begin.String(), "--duration", d.String()}
}

// wait returns when all clients have ended, which is soon after end.
func wait(ctx context.Context, clients []*workload.Task, end time.Time) error {
	ctx, cancel := context.WithDeadlineCause(ctx, end.Add(endTimeout), errors.New("the clients did not end in time"))
	defer cancel()
	for _, c := range clients {
		if err := c.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// outcome merges the pairs' figures. Growth is of medians: the mean of a few
// round trips that met a full queue would say little.
func (t *trial) outcome(w workload.Window) workload.Outcome {
	idle, loaded := sample.NewHistogram(), sample.NewHistogram()
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: loaded, GeneratorUser: t.fleet.User()}
	var up, down, again float64
	for i, c := range t.fleet.Counts {
		idle.Merge(t.idle[i].Latency)
		loaded.Merge(t.loaded[i].Latency)
		up, down = up+float64(c.Up.Bytes()), down+float64(c.Down.Bytes())
		again += float64(c.Retransmits)
		for _, n := range []request.Count{t.idle[i], t.loaded[i]} {
			out.AddErrors(t.bed.Pairs[i].Client.Name, n.Failed, n.Operations, n.Failure)
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
		"idle path":  fmt.Sprintf("%d round trips: median %.4g s, p99 %.4g s", idle.Count(), idle.Percentile(50), idle.Percentile(99)),
		"under load": fmt.Sprintf("%d round trips: median %.4g s, p99 %.4g s, p99.9 %.4g s", loaded.Count(), loaded.Percentile(50), loaded.Percentile(99), loaded.Percentile(99.9)),
		"streams":    fmt.Sprintf("%d each way per pair, writes of %d bytes", t.streams, chunk),
	}
	return out
}
