// Package example is a whole workload in few lines: see docs/howto/own-workload.md. It is
// in no catalogue; the workloads for round trips are udp-rr and udp-latency.
package example

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Ping is the workload ping: ICMP echo from client to server.
type Ping struct{}

// Info implements workload.Workload.
func (Ping) Info() workload.Info {
	return workload.Info{
		Name: "ping", Summary: "ICMP echo, one under way",
		Tool:    "ping: round trips (service time, closed loop)",
		Needs:   []network.Need{network.NeedRoot(), network.NeedProgram("ping", "iputils-ping")},
		Metrics: []string{sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean, sample.Errors},
		// ping's time stamp needs 16 bytes.
		Knobs: []string{"size"}, Default: sample.Load{Size: 56}, Min: sample.Load{Size: 16}, Max: sample.Load{Size: 65507},
	}
}

// Run implements workload.Workload.
func (p Ping) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	pair, out := bed.Pairs[0], workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram()}
	const every = 10 * time.Millisecond
	ping := func(d time.Duration) ([]byte, error) {
		res, err := bed.Exec(ctx, pair.Client, "ping", "-n", "-i", fmt.Sprint(every.Seconds()), "-c",
			strconv.Itoa(int(d/every)+1), "-W", "1", "-s", strconv.Itoa(load.Size), pair.Server.Addr().String())
		return res.Stdout, err
	}
	if _, err := ping(w.Warmup); err != nil { // fills neighbour tables; nobody answers: an error
		return out, fmt.Errorf("run ping: %w", err)
	}
	m.Begin()
	said, err := ping(w.Duration)
	m.End()
	if err != nil {
		return out, fmt.Errorf("run ping: %w", err)
	}
	for _, match := range regexp.MustCompile(`time=([0-9.]+) ms`).FindAllSubmatch(said, -1) {
		ms, err := strconv.ParseFloat(string(match[1]), 64)
		if err != nil {
			return out, fmt.Errorf("run ping: read round trip: %w", err)
		}
		out.Latency.Record(time.Duration(ms * float64(time.Millisecond)))
	}
	out.Operations = float64(out.Latency.Count())
	out.AddErrors(pair.Client.Name, int64(w.Duration/every)+1-out.Latency.Count(), out.Latency.Count(),
		"no answer within a second")
	out.SetLatency()
	return out, nil
}
