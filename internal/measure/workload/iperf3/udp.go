package iperf3

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// UDPStream is the workload udp-stream.
type UDPStream struct{}

// Defaults of the UDP workloads.
const (
	// defaultDatagram fits an MTU of 1500 and most encapsulations below it.
	defaultDatagram = 1400
	defaultRate     = 200e6
)

// Info implements workload.Workload.
func (UDPStream) Info() workload.Info {
	return workload.Info{
		Name:        "udp-stream",
		Summary:     "UDP datagrams at a given rate, split over the connections of a pair",
		Tool:        "iperf3: datagrams that the receiver counted, per-interval records without the warm-up",
		Needs:       needs(),
		Metrics:     []string{sample.Throughput, sample.Jitter, sample.Loss},
		Knobs:       []string{"connections", "size", "rate"},
		Default:     sample.Load{Connections: 1, Size: defaultDatagram, Rate: defaultRate},
		Min:         sample.Load{Size: minUDPSize},
		Max:         sample.Load{Connections: maxStreams, Size: maxUDPSize, Rate: maxRate},
		Pairs:       true,
		MinDuration: 500 * time.Millisecond,
	}
}

// Run implements workload.Workload.
func (UDPStream) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	o := offer{proto: workload.UDP, streams: load.Connections, rate: load.Rate,
		buffer: buffer(len(bed.Pairs) * load.Connections)}
	var warning *sample.Warning
	o.size, warning = datagram(bed, load.Size)
	pairs, err := o.run(ctx, bed, w, m)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run udp-stream: %w", err)
	}
	out, sum, err := o.outcome(bed, pairs, w)
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run udp-stream: %w", err)
	}
	sum.udp(&out)
	if warning != nil {
		out.Warnings = append(out.Warnings, *warning)
	}
	o.checkOffered(&out, sum, len(pairs))
	return out, nil
}

// shortfall is the part of the wanted rate by which iperf3 may miss it without
// remark. Its pacing is an average from the start, so it is off by about one
// burst, a millisecond's worth, in a window.
const shortfall = 0.01

// checkOffered warns if less was sent than was asked for.
func (o offer) checkOffered(out *workload.Outcome, sum tally, pairs int) {
	if offered, want := sum.sent.bits(), o.rate*float64(pairs); offered < (1-shortfall)*want {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "generator-bound",
			Text: fmt.Sprintf("iperf3 sent %.4g bit/s where %.4g were asked for: the generator is at its limit on this machine", offered, want)})
	}
}

// udp writes the figures of UDP workloads into the outcome.
func (t tally) udp(out *workload.Outcome) {
	out.Metrics[sample.Jitter] = t.got.Jitter
	out.Metrics[sample.Loss] = t.lost / t.of
	out.Details["offered"] = fmt.Sprintf("%.6g bit/s", t.sent.bits())
}

// buffer is the size of each socket's buffers: as large as the kernel allows a
// program to ask, shared between all streams. With Linux's default of 208 KiB
// a receiver that is scheduled some milliseconds late loses datagrams that the
// network had delivered: on two busy cores up to 15 % at 200 Mbit/s.
func buffer(streams int) int {
	const most, all, least = 4 << 20, 64 << 20, 208 << 10
	limit := most
	for _, name := range []string{"rmem_max", "wmem_max"} {
		// iperf3 refuses to run if it does not get what it asks for.
		raw, err := os.ReadFile("/proc/sys/net/core/" + name)
		n, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil || bad != nil {
			return 0
		}
		limit = min(limit, n)
	}
	return min(limit, max(least, all/streams))
}

// datagram is the size of the datagrams to send. The default is cut to what the
// pods' interfaces take unfragmented; a size that was asked for is left, with a
// warning if it does not fit.
func datagram(bed workload.Bed, size int) (int, *sample.Warning) {
	const udpHeader, ip4Header, ip6Header = 8, 20, 40
	room := maxUDPSize
	for _, p := range bed.Pairs {
		header := udpHeader + ip4Header
		if p.Server.Service.Addr().Is6() {
			header = udpHeader + ip6Header
		}
		for _, pod := range []topo.Pod{p.Client, p.Server} {
			if len(pod.Attachments) > 0 && pod.Attachments[0].MTU > header {
				room = min(room, pod.Attachments[0].MTU-header)
			}
		}
	}
	if size == defaultDatagram {
		return min(size, room), nil
	}
	if size > room {
		return size,
			&sample.Warning{Gate: "mtu",
				Text: fmt.Sprintf("datagrams of %d bytes are fragmented: the pods' MTU leaves room for %d", size, room)}
	}
	return size, nil
}
