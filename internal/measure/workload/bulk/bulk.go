// Package bulk offers data as fast as it goes, by messages of a size: tcp-bulk,
// as netperf's TCP_STREAM, and udp-bulk, as its UDP_STREAM. The generator is
// our own: the pathwise executable, run in the pods.
//
// The sender of udp-bulk knows no rate, so what arrives says what the whole path
// does to a flood, not what it can carry without loss: that is udp-max.
package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Stream is the workload tcp-bulk or udp-bulk.
type Stream struct {
	// Self is the pathwise executable.
	Self  string
	Proto workload.Proto
}

// Limits and defaults.
const (
	maxSize        = 1 << 20
	maxDatagram    = 65507
	maxConnections = 1000
	// defaultSize is what netperf 2.7 sends over TCP on Linux.
	defaultSize     = 16 << 10
	defaultDatagram = 1400
	longestWindow   = 24 * time.Hour
)

// Info implements workload.Workload.
func (s Stream) Info() workload.Info {
	info := workload.Info{
		Name:        "tcp-bulk",
		Summary:     "messages of a size as fast as TCP takes them, Nagle's algorithm on",
		Tool:        "pathwise generate: payload that the receiver read in the window",
		Needs:       []network.Need{network.NeedRoot()},
		Metrics:     []string{sample.Throughput, sample.Retransmits},
		Knobs:       []string{"connections", "size", "congestion"},
		Default:     sample.Load{Connections: 1, Size: defaultSize},
		Max:         sample.Load{Connections: maxConnections, Size: maxSize},
		Pairs:       true,
		MinDuration: 200 * time.Millisecond,
	}
	if s.Proto == workload.UDP {
		info.Name = "udp-bulk"
		info.Summary = "datagrams of a size as fast as the sender's socket takes them: a flood"
		info.Tool = "pathwise generate: datagrams that the receiver read in the window"
		info.Metrics = []string{sample.Throughput, sample.Loss}
		info.Knobs = []string{"size"}
		info.Default = sample.Load{Size: defaultDatagram}
		info.Max = sample.Load{Size: maxDatagram}
	}
	return info
}

// Run implements workload.Workload.
func (s Stream) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	o := Offer{Up: max(load.Connections, 1), Size: load.Size, Duration: w.Duration, Datagrams: s.Proto == workload.UDP,
		Congestion: workload.CongestionOf(load)}
	f := NewFleet(s.Self, bed, o)
	err := f.Run(ctx, bed, w, m)
	if err == nil {
		err = f.Read()
	}
	if err == nil {
		err = f.silent()
	}
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run %s: %w", s.Info().Name, err)
	}
	return s.outcome(f, w), nil
}

// outcome adds up what the pairs counted.
func (s Stream) outcome(f *Fleet, w workload.Window) workload.Outcome {
	var up Tally
	var sent, again int64
	var each []string
	for _, c := range f.Counts {
		up.add(c.Up)
		sent, again = sent+c.Sent, again+c.Retransmits
		each = append(each, fmt.Sprintf("%.4g", 8*float64(c.Up.Bytes())/w.Duration.Seconds()))
	}
	out := workload.Outcome{Metrics: map[string]float64{}, Bytes: float64(up.Bytes()),
		Series: up.series(w.Duration), Details: map[string]string{
			"throughput per pair": strings.Join(each, " ") + " bit/s", "client": fmt.Sprint(f.clientArgs(0, "BEGIN")[1:])}}
	f.User(&out)
	out.Metrics[sample.Throughput] = 8 * out.Bytes / w.Duration.Seconds()
	if s.Proto == workload.UDP {
		// One that came twice is not two.
		out.Metrics[sample.Loss] = max(0, 1-float64(up.Datagrams)/float64(max(sent, 1)))
		out.Details["offered"] = fmt.Sprintf("%.6g bit/s", 8*float64(sent)*float64(f.offer.Size)/w.Duration.Seconds())
	} else {
		out.Details["congestion"] = f.offer.Congestion
		out.Metrics[sample.Retransmits] = float64(again) / (out.Bytes / 1e9)
	}
	return out
}

// series is the tally as a rate by tenths of a second.
func (t Tally) series(d time.Duration) (out []sample.Point) {
	for i, b := range t.Bins {
		width := min(step, d-time.Duration(i)*step).Seconds()
		out = append(out, sample.Point{At: float64(i) * step.Seconds(), Value: 8 * float64(b) / width})
	}
	return out
}

// Fleet is the servers and clients of all pairs in one run.
type Fleet struct {
	// Counts of the clients, by pair; see Read.
	Counts []Count

	self  string
	bed   workload.Bed
	offer Offer
	*workload.Generators
}

// NewFleet returns one that offers o, but for its target and begin, on every
// pair of the bed.
func NewFleet(self string, bed workload.Bed, o Offer) *Fleet {
	f := &Fleet{self: self, bed: bed, offer: o}
	f.Generators = &workload.Generators{Connections: o.Up + o.Down, Patience: patience, Client: f.clientArgs,
		Server: func(pair int) []string { return f.serverArgs(bed.Pairs[pair].Server) }}
	if o.Datagrams {
		f.Protos = []workload.Proto{workload.TCP, workload.UDP}
	}
	return f
}

// Read reads what the clients printed, once they have ended.
func (f *Fleet) Read() error {
	f.Counts = nil
	for i, res := range f.Clients {
		c, err := parse(res.Stdout)
		if err != nil {
			return fmt.Errorf("client in pod %s: %w", f.bed.Pairs[i].Client.Name, err)
		}
		f.Counts = append(f.Counts, c)
	}
	return nil
}

// parse reads what the client printed.
func parse(out []byte) (c Count, err error) {
	if err := json.Unmarshal(out, &c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	if err = errors.Join(c.Up.check(), c.Down.check()); err == nil && (c.Sent < 0 || c.Retransmits < 0) {
		err = fmt.Errorf("read result: figures that cannot be: %d sent, %d retransmits", c.Sent, c.Retransmits)
	}
	return c, err
}

// silent is the error of a pair that ran and carried nothing.
func (f *Fleet) silent() error {
	for i, c := range f.Counts {
		if f.offer.Up > 0 && c.Up.Bytes() == 0 || f.offer.Down > 0 && c.Down.Bytes() == 0 {
			return fmt.Errorf("pods %s and %s: no payload arrived in the window", f.bed.Pairs[i].Client.Name,
				f.bed.Pairs[i].Server.Name)
		}
	}
	return nil
}

// User adds the user-mode share of the busiest process to the outcome. There is a
// thread for each connection.
func (f *Fleet) User(out *workload.Outcome) {
	for _, r := range append(f.Servers, f.Clients...) {
		out.AddUser(r, f.offer.Up+f.offer.Down)
	}
}

func (f *Fleet) serverArgs(pod topo.Pod) []string {
	args := []string{f.self, "generate", "bulk-serve", "--addr",
		netip.AddrPortFrom(netip.IPv6Unspecified(), pod.Listen).String(), "--connections",
		strconv.Itoa(f.offer.Up + f.offer.Down), "--congestion", f.offer.Congestion}
	if f.offer.Datagrams {
		args = append(args, "--datagrams")
	}
	return args
}

func (f *Fleet) clientArgs(pair int, begin string) []string {
	args := []string{f.self, "generate", "bulk", "--target", f.bed.Pairs[pair].Server.Service.String(), "--size",
		strconv.Itoa(f.offer.Size), "--begin", begin, "--duration", f.offer.Duration.String()}
	if f.offer.Datagrams {
		return append(args, "--datagrams")
	}
	return append(args, "--congestion", f.offer.Congestion, "--up", strconv.Itoa(f.offer.Up), "--down",
		strconv.Itoa(f.offer.Down))
}
