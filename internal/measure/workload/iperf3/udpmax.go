package iperf3

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// UDPMax is the workload udp-max.
type UDPMax struct {
	// LossBound is the largest loss that a rate may have; 0 means 0.1 %, the
	// partial drop rate that NFVbench uses.
	LossBound float64
}

// Parts of the search.
const (
	lossBound = 0.001
	// A trial of the search lasts iperf3's least, a second; what counts of it
	// leaves room for late starts at both ends.
	trialWarmup   = 200 * time.Millisecond
	trialDuration = 700 * time.Millisecond
	leastRate     = 1e6
	precision     = 0.03
	repeats       = 2
	hopeless      = 0.1
	// mostTrials keeps a search on a disturbed machine within a minute.
	mostTrials = 24
)

// Info implements workload.Workload.
func (UDPMax) Info() workload.Info {
	return workload.Info{
		Name:        "udp-max",
		Summary:     "the highest UDP rate within a loss bound, found by bisection with verified losses",
		Tool:        "iperf3: datagrams that the receiver counted at the rate found; rates that could not be offered count as lost",
		Needs:       needs(),
		Metrics:     []string{sample.Throughput, sample.Loss, sample.Jitter},
		Knobs:       []string{"connections", "size", "rate"},
		Default:     sample.Load{Connections: 1, Size: defaultDatagram},
		Min:         sample.Load{Size: minUDPSize, Rate: leastRate},
		Max:         sample.Load{Connections: maxStreams, Size: maxUDPSize, Rate: maxRate},
		Pairs:       true,
		MinDuration: time.Second,
		Extra:       9 * time.Second, // the search
	}
}

// Run implements workload.Workload. The search runs before the window, in short
// trials; the window is one more trial at the rate that was found. The load's
// rate is the highest that is tried, for each pair.
func (u UDPMax) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	g := goal{Least: leastRate, Most: load.Rate, Loss: u.LossBound, Hopeless: hopeless, Repeats: repeats,
		Precision: precision, Trials: mostTrials}
	if g.Most == 0 {
		g.Most = maxRate
	}
	if g.Loss == 0 {
		g.Loss = lossBound
	}
	o := offer{proto: workload.UDP, streams: load.Connections, buffer: buffer(len(bed.Pairs) * load.Connections)}
	var warning *sample.Warning
	o.size, warning = datagram(bed, load.Size)
	f, err := search(g, func(rate float64) (attempt, error) {
		o.rate = rate
		return o.attempt(ctx, bed)
	})
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run udp-max: %w", err)
	}
	o.rate = f.Rate
	pairs, err := o.run(ctx, bed, w, m)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run udp-max: %w", err)
	}
	out, sum, err := o.outcome(bed, pairs, w)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run udp-max: %w", err)
	}
	sum.udp(&out)
	if warning != nil {
		out.Warnings = append(out.Warnings, *warning)
	}
	o.checkOffered(&out, sum, len(pairs))
	f.tell(&out, g)
	return out, nil
}

// attempt runs one trial of the search. Rates are a pair's, on average.
func (o *offer) attempt(ctx context.Context, bed workload.Bed) (attempt, error) {
	w := workload.Window{Warmup: trialWarmup, Duration: trialDuration}
	pairs, err := o.run(ctx, bed, w, unmetered{})
	if err != nil {
		return attempt{}, err
	}
	out, sum, err := o.outcome(bed, pairs, w)
	if errors.Is(err, errSilent) {
		return attempt{Intended: o.rate, Sent: o.rate, Loss: 1}, nil
	} else if err != nil {
		return attempt{}, err
	}
	n := float64(len(pairs))
	return attempt{Intended: o.rate, Sent: sum.sent.bits() / n, Got: out.Metrics[sample.Throughput] / n,
		Loss: sum.lost / sum.of}, nil
}

// unmetered is the meter of trials that are not the measurement.
type unmetered struct{}

func (unmetered) Begin() {}
func (unmetered) End()   {}

// tell writes what the search did into the outcome.
func (f found) tell(out *workload.Outcome, g goal) {
	out.Details["search trials"] = strconv.Itoa(len(f.Trials))
	out.Details["search"] = f.log()
	out.Details["rate found"] = fmt.Sprintf("%.6g bit/s per pair with a loss of at most %g %%", f.Rate, 100*g.Loss)
	if f.Failed > f.Rate*(1+g.Precision) && f.Rate < g.Most {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "search",
			Text: fmt.Sprintf("the search was given up after %d trials: the rate lies between %.4g and %.4g bit/s per pair", len(f.Trials), f.Rate, f.Failed)})
	}
	if f.Bound {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "generator-bound",
			Text: fmt.Sprintf("iperf3 cannot send much more than %.4g bit/s per pair on this machine: the network may carry more", f.Rate)})
	}
	if loss := out.Metrics[sample.Loss]; loss > g.Loss {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "loss",
			Text: fmt.Sprintf("the measured window lost %.3g %% at the rate found, over the bound of %g %%: the rate is at the edge", 100*loss, 100*g.Loss)})
	}
}
