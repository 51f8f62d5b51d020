// Package netperf runs netperf's own tests, those of Suo et al. (2018): to
// repeat them with the tool that they used, and to hold our generators against
// it. Debian has netperf in its section non-free, so the workloads of packages
// request and bulk offer the same load where it is not installed.
//
// netperf knows whole seconds and has no warm-up: a first run is thrown away.
package netperf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Test is one of netperf's, as it calls them.
type Test string

// Tests.
const (
	TCPStream Test = "TCP_STREAM"
	TCPRR     Test = "TCP_RR"
	TCPCRR    Test = "TCP_CRR"
	UDPStream Test = "UDP_STREAM"
	UDPRR     Test = "UDP_RR"
)

// tcp says whether the test is one of TCP.
func (t Test) tcp() bool { return t == TCPStream || t == TCPRR || t == TCPCRR }

// Run is the workload of one test.
type Run struct{ Test Test }

// What the workload gives netperf.
const (
	// dataPort is how far behind the service port the port of the data is: the
	// service port is taken by the control connection.
	dataPort = 10000
	maxSize  = 1 << 20
	// maxDatagram is netperf's own limit of a UDP message.
	maxDatagram = 65507
	endTimeout  = 10 * time.Second
	// pad is how long netserver waits for more after a test's time, where it
	// cannot tell the last connection from a pause (PAD_TIME in netlib.h).
	pad = 4 * time.Second
	// warmConnections of TCP_CRR are its warm-up: a test that ends with their
	// number needs no pad.
	warmConnections = 1000
)

// Info implements workload.Workload.
func (r Run) Info() workload.Info {
	info := workload.Info{
		Name:    "netperf-" + strings.ReplaceAll(strings.ToLower(string(r.Test)), "_", "-"),
		Summary: "netperf's " + string(r.Test),
		Tool:    "netperf: what it counts in a run of its own after the warm-up",
		Needs: []network.Need{network.NeedRoot(),
			{Kind: network.Program, Name: "netperf", From: "apt-get install netperf, in Debian's section non-free"},
			{Kind: network.Program, Name: "netserver", From: "apt-get install netperf, in Debian's section non-free"}},
		Metrics:     []string{sample.Rate, sample.LatencyMean},
		Knobs:       []string{"size"},
		Default:     sample.Load{Size: 1},
		Max:         sample.Load{Size: maxSize},
		Pairs:       true,
		MinDuration: time.Second,
	}
	if r.Test.tcp() {
		info.Knobs = append(info.Knobs, "congestion")
	}
	switch r.Test {
	case TCPStream:
		info.Metrics, info.Default.Size = []string{sample.Throughput, sample.Retransmits}, 16<<10
	case UDPStream:
		info.Metrics, info.Default.Size, info.Max.Size = []string{sample.Throughput, sample.Loss}, 1400, maxDatagram
	case UDPRR:
		info.Max.Size = maxDatagram
	}
	return info
}

// trial is one run.
type trial struct {
	Run
	bed  workload.Bed
	size int
	// congestion is TCP's congestion control of both ends.
	congestion string
	window     workload.Window
	clients    []program.Result
	figures    []map[string]float64
}

// Run implements workload.Workload. The window begins when the clients are
// started and ends with the last of them, so it is longer than asked for by
// what netperf needs to begin and up to a second. That of TCP_CRR ends when the
// clients' time is up: they tell their figures only after pad.
func (r Run) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	n := len(bed.Pairs)
	t := &trial{Run: r, bed: bed, size: load.Size, congestion: workload.CongestionOf(load), window: w,
		clients: make([]program.Result, n), figures: make([]map[string]float64, n)}
	err := workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		for _, pair := range bed.Pairs {
			if !pair.Server.Has(pair.Server.Service.Addr()) {
				return fmt.Errorf("reach pod %s: netperf needs a second port for its data, and only one is published at %v",
					pair.Server.Name, pair.Server.Service)
			}
			// -f: its children would leave its process group, and so outlive it.
			crew.Serve("netserver in pod "+pair.Server.Name, func(ctx context.Context) error {
				_, err := bed.Exec(ctx, pair.Server, "netserver", "-D", "-f", "-p", strconv.Itoa(int(pair.Server.Listen)))
				return err
			})
		}
		if err := workload.AwaitServers(ctx, bed, workload.TCP); err != nil {
			return err
		}
		if w.Warmup > 0 {
			if err := t.warm(ctx, crew); err != nil {
				return fmt.Errorf("warm up: %w", err)
			}
		}
		begun := time.Now()
		m.Begin()
		tasks := t.start(crew, length(w.Duration))
		if r.Test == TCPCRR {
			if err := workload.SleepUntil(ctx, begun.Add(seconds(w.Duration))); err != nil {
				return err
			}
			m.End()
			return await(ctx, tasks, pad+endTimeout)
		}
		if err := await(ctx, tasks, seconds(w.Duration)+endTimeout); err != nil {
			return err
		}
		m.End()
		return nil
	})
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run %s: %w", r.Info().Name, err)
	}
	return t.outcome()
}

// seconds is the length of a run, in those that netperf knows.
func seconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// length of a run as netperf is told it; below 0 it would be a number of transactions.
func length(d time.Duration) int { return int(seconds(d) / time.Second) }

// warm runs the clients once, and forgets what they say.
func (t *trial) warm(ctx context.Context, crew *workload.Crew) error {
	run := length(t.window.Warmup)
	if t.Test == TCPCRR {
		run = -warmConnections
	}
	return await(ctx, t.start(crew, run), seconds(t.window.Warmup)+endTimeout)
}

// start starts every pair's client.
func (t *trial) start(crew *workload.Crew, length int) (tasks []*workload.Task) {
	for i, pair := range t.bed.Pairs {
		tasks = append(tasks, crew.Go(func(ctx context.Context) (err error) {
			t.clients[i], t.figures[i], err = t.client(ctx, pair, length)
			return err
		}))
	}
	return tasks
}

// await waits for the clients' ends, but not for ever.
func await(ctx context.Context, tasks []*workload.Task, limit time.Duration) error {
	return workload.WaitAll(ctx, tasks, time.Now().Add(limit), errors.New("netperf did not end within its time"))
}

func (t *trial) client(ctx context.Context, pair workload.Pair, length int) (
	program.Result, map[string]float64, error) {
	res, err := t.bed.Exec(ctx, pair.Client, t.args(pair.Server, length)...)
	if ctx.Err() != nil {
		return res, nil, context.Cause(ctx)
	}
	var got map[string]float64
	if err == nil {
		got, err = parse(res.Stdout, t.keys())
	} else if said := strings.TrimSpace(string(res.Stdout)); said != "" {
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(said), " ")) // it explains itself there
	}
	if err != nil {
		return res, nil, fmt.Errorf("netperf in pod %s: %w", pair.Client.Name, err)
	}
	return res, got, nil
}

func (t *trial) args(server topo.Pod, length int) []string {
	args := []string{"netperf", "-H", server.Service.Addr().String(), "-p", strconv.Itoa(int(server.Service.Port())),
		"-t", string(t.Test), "-l", strconv.Itoa(length), "--", "-P", fmt.Sprintf(",%d", int(server.Listen)+dataPort), "-k",
		strings.Join(t.keys(), ",")}
	size := strconv.Itoa(t.size)
	if t.Test.tcp() {
		args = append(args, "-K", t.congestion+","+t.congestion)
	}
	switch t.Test {
	case TCPStream:
		return append(args, "-m", size)
	case UDPStream:
		return append(args, "-m", size, "-R", "1") // without it datagrams are not routed
	default:
		return append(args, "-r", size+","+size)
	}
}

// Figures of netperf's omni tests, in microseconds, bytes, calls and seconds.
const (
	elapsed     = "ELAPSED_TIME"
	calls       = "LOCAL_SEND_CALLS"
	arrived     = "REMOTE_RECV_CALLS"
	received    = "REMOTE_BYTES_RECVD"
	retransmits = "LOCAL_TRANSPORT_RETRANS"
	meanLatency = "MEAN_LATENCY"
	p50Latency  = "P50_LATENCY"
	p99Latency  = "P99_LATENCY"
)

// keys are the figures to ask for. Those of latency make netperf take the time of
// each call, which slows a stream.
func (r Run) keys() []string {
	out := []string{elapsed, calls, arrived, received, retransmits}
	if !r.stream() {
		out = append(out, meanLatency, p50Latency, p99Latency)
	}
	return out
}

func (r Run) stream() bool { return r.Test == TCPStream || r.Test == UDPStream }

// parse reads what netperf printed: a line for people, then KEY=VALUE.
func parse(out []byte, keys []string) (map[string]float64, error) {
	got := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("read result: %s: expected a number, got %q", key, value)
		}
		got[key] = v
	}
	for _, key := range keys {
		if _, ok := got[key]; !ok {
			return nil, fmt.Errorf("read result: no %s", key)
		}
	}
	if got[elapsed] <= 0 {
		return nil, fmt.Errorf("read result: %s: %g", elapsed, got[elapsed])
	}
	return got, nil
}

// outcome adds up the pairs' figures.
func (t *trial) outcome() (workload.Outcome, error) {
	out := workload.Outcome{Metrics: map[string]float64{}, Details: map[string]string{
		"client": strings.Join(t.args(t.bed.Pairs[0].Server, length(t.window.Duration)), " ")}}
	var sent, came, again, rate, latency float64
	for i, f := range t.figures {
		work := f[calls]
		if t.stream() {
			work = f[received]
		}
		if work <= 0 {
			return out, fmt.Errorf("run %s: netperf in pod %s: nothing arrived in the window", t.Info().Name,
				t.bed.Pairs[i].Client.Name)
		}
		rate += work / f[elapsed]
		sent, came, again = sent+f[calls], came+f[arrived], again+max(f[retransmits], 0)
		out.Bytes += f[received]
		out.GeneratorUser = max(out.GeneratorUser, t.clients[i].User.Seconds()/max(t.clients[i].Wall.Seconds(), 1e-3))
		if t.stream() {
			continue
		}
		latency += work / f[elapsed] * f[meanLatency] * 1e-6
		out.Details["latency in pod "+t.bed.Pairs[i].Client.Name] = fmt.Sprintf("median %g us, p99 %g us", f[p50Latency],
			f[p99Latency])
	}
	switch t.Test {
	case TCPStream:
		out.Metrics[sample.Throughput] = 8 * rate
		out.Metrics[sample.Retransmits] = again / (out.Bytes / 1e9)
	case UDPStream:
		out.Metrics[sample.Throughput] = 8 * rate
		out.Metrics[sample.Loss] = max(0, 1-came/max(sent, 1))
		if came < sent {
			out.Warnings = append(out.Warnings,
				sample.Warning{Gate: "loss", Text: fmt.Sprintf("%.0f of %.0f datagrams arrived: the sender knows no rate",
					came, sent)})
		}
	default:
		out.Bytes, out.Operations = 0, sent
		out.Metrics[sample.Rate] = rate
		out.Metrics[sample.LatencyMean] = latency / rate
	}
	return out, nil
}
