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
	"runtime"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
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

	// endTimeout is how long after its patience a client may take to end.
	endTimeout = 5 * time.Second
)

// Info implements workload.Workload.
func (s Stream) Info() workload.Info {
	info := workload.Info{
		Name:        "tcp-bulk",
		Summary:     "messages of a size as fast as TCP takes them, Nagle's algorithm on",
		Tool:        "pathwise generate: payload that the receiver read in the window",
		Needs:       []network.Need{network.NeedRoot()},
		Metrics:     []string{sample.Throughput, sample.Retransmits},
		Knobs:       []string{"connections", "size"},
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
func (s Stream) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window, m workload.Meter) (workload.Outcome, error) {
	o := Offer{Up: max(load.Connections, 1), Size: load.Size, Duration: w.Duration, Datagrams: s.Proto == workload.UDP}
	f := NewFleet(s.Self, bed, o)
	err := workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		lead, err := f.Serve(ctx, crew)
		if err != nil {
			return err
		}
		begin := time.Now().Add(lead + w.Warmup)
		if err := f.Start(crew, begin); err != nil {
			return err
		}
		if _, err := workload.Measure(ctx, begin, w.Duration, m); err != nil {
			return err
		}
		return f.Wait(ctx)
	})
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
	out := workload.Outcome{Metrics: map[string]float64{}, Bytes: float64(up.Bytes()), GeneratorUser: f.User(),
		Series: up.series(w.Duration), Details: map[string]string{
			"throughput per pair": strings.Join(each, " ") + " bit/s", "client": fmt.Sprint(f.clientArgs(f.bed.Pairs[0].Server, 0)[1:])}}
	out.Metrics[sample.Throughput] = 8 * out.Bytes / w.Duration.Seconds()
	if s.Proto == workload.UDP {
		// One that came twice is not two.
		out.Metrics[sample.Loss] = max(0, 1-float64(up.Datagrams)/float64(max(sent, 1)))
		out.Details["offered"] = fmt.Sprintf("%.6g bit/s", 8*float64(sent)*float64(f.offer.Size)/w.Duration.Seconds())
	} else {
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
	// Counts of the clients, by pair, once they have ended.
	Counts []Count

	self    string
	bed     workload.Bed
	offer   Offer
	results []workload.Result
	clients []*workload.Task
}

// NewFleet returns one that offers o, but for its target and begin, on every
// pair of the bed.
func NewFleet(self string, bed workload.Bed, o Offer) *Fleet {
	n := len(bed.Pairs)
	return &Fleet{self: self, bed: bed, offer: o, Counts: make([]Count, n), results: make([]workload.Result, 2*n)}
}

// Serve starts the servers. The lead that it returns is what clients may take
// to start and connect: they are the same executable as the servers.
func (f *Fleet) Serve(ctx context.Context, crew *workload.Crew) (lead time.Duration, err error) {
	started := time.Now()
	for i, pair := range f.bed.Pairs {
		crew.Serve("server in pod "+pair.Server.Name, func(ctx context.Context) (err error) {
			f.results[2*i], err = f.bed.Exec(ctx, pair.Server, f.serverArgs(pair.Server)...)
			return err
		})
	}
	protos := []workload.Proto{workload.TCP}
	if f.offer.Datagrams {
		protos = append(protos, workload.UDP)
	}
	for _, p := range protos {
		if err := workload.AwaitServers(ctx, f.bed, p); err != nil {
			return 0, err
		}
	}
	lead = 60*time.Millisecond + time.Duration(len(f.bed.Pairs))*20*time.Millisecond + time.Duration(f.offer.Up+f.offer.Down)*200*time.Microsecond
	return max(lead, 2*time.Since(started)), nil
}

// Start starts the clients, whose window begins then.
func (f *Fleet) Start(crew *workload.Crew, begin time.Time) error {
	now, err := workload.Monotonic()
	if err != nil {
		return err
	}
	at := now + time.Until(begin)
	for i, pair := range f.bed.Pairs {
		f.clients = append(f.clients, crew.Go(func(ctx context.Context) (err error) {
			f.Counts[i], f.results[2*i+1], err = f.client(ctx, pair.Client, f.clientArgs(pair.Server, at))
			return err
		}))
	}
	return nil
}

// Wait returns when all clients have ended, which is soon after the window.
func (f *Fleet) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+endTimeout, errors.New("the clients did not end in time"))
	defer cancel()
	for _, c := range f.clients {
		if err := c.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// client runs one pair's client to its end.
func (f *Fleet) client(ctx context.Context, pod topo.Pod, args []string) (c Count, res workload.Result, err error) {
	res, err = f.bed.Exec(ctx, pod, args...)
	if ctx.Err() != nil {
		return c, res, context.Cause(ctx)
	}
	if err == nil {
		c, err = parse(res.Stdout)
	}
	if err != nil {
		return c, res, fmt.Errorf("client in pod %s: %w", pod.Name, err)
	}
	return c, res, nil
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
			return fmt.Errorf("pods %s and %s: no payload arrived in the window", f.bed.Pairs[i].Client.Name, f.bed.Pairs[i].Server.Name)
		}
	}
	return nil
}

// User is the user-mode share of the busiest process's threads, of which there
// is one for each connection and no more than processors.
func (f *Fleet) User() (most float64) {
	threads := float64(min(f.offer.Up+f.offer.Down, runtime.NumCPU()))
	for _, r := range f.results {
		most = max(most, r.User.Seconds()/threads/max(r.Wall.Seconds(), 1e-3))
	}
	return most
}

func (f *Fleet) serverArgs(pod topo.Pod) []string {
	args := []string{f.self, "generate", "bulk-serve", "--addr", netip.AddrPortFrom(netip.IPv6Unspecified(), pod.Listen).String(),
		"--connections", strconv.Itoa(f.offer.Up + f.offer.Down)}
	if f.offer.Datagrams {
		args = append(args, "--datagrams")
	}
	return args
}

func (f *Fleet) clientArgs(server topo.Pod, begin time.Duration) []string {
	args := []string{f.self, "generate", "bulk", "--target", server.Service.String(), "--size", strconv.Itoa(f.offer.Size),
		"--begin", begin.String(), "--duration", f.offer.Duration.String()}
	if f.offer.Datagrams {
		return append(args, "--datagrams")
	}
	return append(args, "--up", strconv.Itoa(f.offer.Up), "--down", strconv.Itoa(f.offer.Down))
}
