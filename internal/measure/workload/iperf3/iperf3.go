// Package iperf3 offers TCP and UDP streams with iperf3, and searches with it
// for the highest UDP rate within a loss bound.
//
// What is reported is what the receiver counted in the measured window, cut out
// of its per-interval records. iperf3's own totals, its -O and its CPU figures
// are not used.
package iperf3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Limits of iperf3 3.12 (iperf.h, iperf_api.h).
const (
	maxStreams  = 128
	maxTCPSize  = 1 << 20
	maxUDPSize  = 65507
	minUDPSize  = 16 // its header of sequence number and time stamp
	defaultSize = 128 << 10
	maxRate     = 1e12
)

func needs() []network.Need {
	return []network.Need{network.NeedRoot(), network.NeedProgram("iperf3", "iperf3")}
}

// TCPStream is the workload tcp-stream.
type TCPStream struct{}

// Info implements workload.Workload.
func (TCPStream) Info() workload.Info {
	return workload.Info{
		Name:        "tcp-stream",
		Summary:     "TCP streams as fast as they go",
		Tool:        "iperf3: payload that the receiver read, per-interval records without the warm-up",
		Needs:       needs(),
		Metrics:     []string{sample.Throughput, sample.Retransmits},
		Knobs:       []string{"connections", "size", "congestion"},
		Default:     sample.Load{Connections: 1, Size: defaultSize},
		Max:         sample.Load{Connections: maxStreams, Size: maxTCPSize},
		Pairs:       true,
		MinDuration: 500 * time.Millisecond,
	}
}

// Run implements workload.Workload.
func (TCPStream) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	o := offer{proto: workload.TCP, congestion: workload.CongestionOf(load), streams: load.Connections, size: load.Size}
	pairs, err := o.run(ctx, bed, w, m)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run tcp-stream: %w", err)
	}
	out, sum, err := o.outcome(bed, pairs, w)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run tcp-stream: %w", err)
	}
	out.Metrics[sample.Retransmits] = sum.sent.Retransmits / (sum.got.Bytes / 1e9)
	out.Details["congestion"] = pairs[0].client.Congestion
	return out, nil
}

// tally is what all pairs counted in the window.
type tally struct {
	sent, got totals
	// lost of all datagrams that were sent.
	lost, of float64
}

// add adds a pair's figures; rates of pairs add up, so Seconds stays one window's.
func (t *totals) add(o totals) {
	if sum := t.Packets + o.Packets; sum > 0 {
		t.Jitter = (t.Packets*t.Jitter + o.Packets*o.Jitter) / sum
	}
	t.Bytes += o.Bytes
	t.Packets += o.Packets
	t.Lost += o.Lost
	t.Retransmits += o.Retransmits
	t.Seconds = max(t.Seconds, o.Seconds)
}

// errSilent: a pair whose test ran carried nothing.
var errSilent = errors.New("no payload arrived in the window")

// outcome turns the pairs' records into figures of the window.
func (o offer) outcome(bed workload.Bed, pairs []pairRun, w workload.Window) (workload.Outcome, tally, error) {
	var sum tally
	var each []string
	var within time.Duration
	out := workload.Outcome{Metrics: map[string]float64{}, Details: map[string]string{}}
	for i, p := range pairs {
		got := clip(p.server.Spans, p.from, p.from+w.Duration.Seconds())
		sent := clip(p.client.Spans, p.from, p.from+w.Duration.Seconds())
		if err := covered(got, w); err != nil {
			return out, sum, fmt.Errorf("iperf3 server in pod %s: %w", bed.Pairs[i].Server.Name, err)
		}
		if got.Bytes == 0 {
			return out, sum, fmt.Errorf("iperf3 server in pod %s: %w", bed.Pairs[i].Server.Name, errSilent)
		}
		lost, of := lost(sent, got)
		sum.lost, sum.of = sum.lost+lost, sum.of+of
		out.Metrics[sample.Throughput] += got.bits()
		each = append(each, fmt.Sprintf("%.4g", got.bits()))
		sum.got.add(got)
		sum.sent.add(sent)
		within = max(within, p.within)
		for _, u := range p.usage {
			out.GeneratorUser = max(out.GeneratorUser, u.User.Seconds()/max(u.Wall.Seconds(), 1e-3))
		}
	}
	out.Bytes = out.Metrics[sample.Throughput] / 8 * w.Duration.Seconds()
	out.Series = series(pairs, w.Duration, o.step())
	out.Details["throughput per pair"] = strings.Join(each, " ") + " bit/s"
	out.Details["window known within"] = within.Round(100 * time.Microsecond).String()
	if within > w.Duration/20 {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "window",
			Text: fmt.Sprintf("when iperf3 started is known within %v only: the machine is too busy, and CPU time may be counted against other traffic", within.Round(time.Millisecond))})
	}
	out.Details["client"] = strings.Join(o.clientArgs(bed.Pairs[0].Server, o.seconds(w, len(pairs))), " ")
	out.Details["server"] = strings.Join(o.serverArgs(bed.Pairs[0].Server), " ")
	return out, sum, nil
}

// mayMiss is the share of the window that records may leave out.
const mayMiss = 0.1

// covered checks that the records reach over all but mayMiss of the window.
// Rates are those of the part that is covered.
func covered(t totals, w workload.Window) error {
	if missing := w.Duration.Seconds() - t.Seconds; missing > mayMiss*w.Duration.Seconds() {
		return fmt.Errorf("its records cover %.2f s of a window of %.2f s", t.Seconds, w.Duration.Seconds())
	}
	return nil
}
