package iperf3

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// offer is a load as iperf3 is asked for it, on every pair.
type offer struct {
	proto   workload.Proto
	streams int
	// size of a write or datagram in bytes.
	size int
	// rate of a pair in bits per second; 0 is as fast as it goes (TCP).
	rate float64
	// buffer is what sockets may hold, in bytes; 0 leaves it to the kernel.
	buffer int
	// congestion is TCP's congestion control.
	congestion string
	// spread is the time between the first pair's beginning and the last's that
	// a test has seen and that the next allows for.
	spread time.Duration
}

// Patience with iperf3.
const (
	// startTimeout bounds each step until all streams are connected, besides
	// what a pair adds.
	startTimeout = 5 * time.Second
	startPerPair = 250 * time.Millisecond
	// starts is how often pairs that began too far apart are started again.
	starts = 4
	// endTimeout bounds how long after its time a test may take to end: both
	// ends exchange results over the control connection.
	endTimeout = 5 * time.Second
)

// pairRun is one pair's test.
type pairRun struct {
	server, client report
	// usage is what the processes used.
	usage [2]program.Result
	// connected is when the server was seen to have all streams, exited when
	// the client was gone.
	connected, exited time.Time
	// from is the window's beginning in seconds from the test's, known within
	// a few milliseconds: see locate.
	from   float64
	within time.Duration
}

// step is the length of iperf3's intervals in seconds: a fine one for few
// streams, as each adds a record per stream.
func (o offer) step() float64 {
	if o.streams > 16 {
		return 0.5
	}
	return 0.1
}

// seconds is how long the test must run to carry the window. iperf3 knows whole
// seconds only. Pairs do not start at the same moment, and the window begins
// with the last; many streams are slow to start.
func (o offer) seconds(w workload.Window, pairs int) int {
	spread := time.Duration(pairs-1)*20*time.Millisecond + time.Duration(o.streams/16)*20*time.Millisecond
	return int(math.Ceil((w.Warmup + w.Duration + max(spread, o.spread)).Seconds()))
}

func (o offer) serverArgs(pod topo.Pod) []string {
	return []string{"iperf3", "-s", "-1", "-J", "-i", o.interval(), "-p", strconv.Itoa(int(pod.Listen))}
}

func (o offer) clientArgs(server topo.Pod, seconds int) []string {
	args := []string{"iperf3", "-c", server.Service.Addr().String(), "-p", strconv.Itoa(int(server.Service.Port())),
		"-J", "-i", o.interval(), "-t", strconv.Itoa(seconds), "-P", strconv.Itoa(o.streams),
		"-l", strconv.Itoa(o.size), "--connect-timeout", strconv.FormatInt(startTimeout.Milliseconds(), 10)}
	if o.proto == workload.TCP {
		return append(args, "-C", o.congestion)
	}
	if o.buffer > 0 {
		args = append(args, "-w", strconv.Itoa(o.buffer))
	}
	return append(args, "-u", "-b", strconv.FormatFloat(math.Ceil(o.rate/float64(o.streams)), 'f', 0, 64))
}

func (o offer) interval() string { return strconv.FormatFloat(o.step(), 'f', 1, 64) }

// run offers the load on all pairs of the bed and returns what each counted,
// with the place of the measured window in it. How far apart the pairs begin is
// known only when they have: those that run already keep the CPUs from the rest
// (16 pairs on two cores: over a second). If the first ends before the window
// would, all are started again, for longer.
func (o *offer) run(ctx context.Context, bed workload.Bed, w workload.Window, m workload.Meter) ([]pairRun, error) {
	for start := 1; ; start++ {
		pairs, err := o.start(ctx, bed, w, m)
		var apart errApart
		if errors.As(err, &apart) && start < starts {
			o.spread = 2 * time.Duration(apart)
			continue
		}
		return pairs, err
	}
}

// errApart is how far apart pairs began whose tests do not overlap for a window.
type errApart time.Duration

func (e errApart) Error() string {
	return fmt.Sprintf("pairs began %v apart: the machine is too busy for one window over all of them",
		time.Duration(e).Round(time.Millisecond))
}

// start is one try of run.
func (o *offer) start(ctx context.Context, bed workload.Bed, w workload.Window, m workload.Meter) ([]pairRun, error) {
	pairs := make([]pairRun, len(bed.Pairs))
	seconds := o.seconds(w, len(pairs))
	var span workload.Span
	err := workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		var servers, clients []*workload.Task
		for i, pair := range bed.Pairs {
			servers = append(servers, crew.Go(func(ctx context.Context) (err error) {
				pairs[i].server, pairs[i].usage[0], err = execute(ctx, bed, pair.Server, o.serverArgs(pair.Server))
				return err
			}))
		}
		watch, err := o.awaitServers(ctx, bed)
		defer closeAll(watch)
		if err != nil {
			return err
		}
		for i, pair := range bed.Pairs {
			clients = append(clients, crew.Go(func(ctx context.Context) (err error) {
				pairs[i].client, pairs[i].usage[1], err = execute(ctx, bed, pair.Client, o.clientArgs(pair.Server, seconds))
				pairs[i].exited = time.Now()
				return err
			}))
		}
		first, last, err := o.awaitStreams(ctx, bed, watch, pairs, clients)
		if err != nil {
			return err
		}
		apart, missable := last.Sub(first), time.Duration(mayMiss/2*float64(w.Duration))
		if w.Warmup+w.Duration+apart > time.Duration(seconds)*time.Second+missable {
			return errApart(apart)
		}
		if span, err = workload.Measure(ctx, last.Add(w.Warmup), w.Duration, m); err != nil {
			return err
		}
		return awaitEnd(ctx, append(servers, clients...), last.Add(time.Duration(seconds)*time.Second))
	})
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		pairs[i].locate(span)
	}
	return pairs, nil
}

// locate finds the measured window in the pair's records, which count from the
// test's beginning. That lies after the moment when the server had all streams,
// unless it was noticed late because the load had the CPUs; and it lies the
// test's length before the client was gone, or earlier. The middle is at most
// half of the distance wrong: a millisecond for a few streams, some 15 ms for
// 128 or where many pairs start at once on two cores.
func (p *pairRun) locate(s workload.Span) {
	length := 0.0
	for _, k := range p.client.Spans {
		length = math.Max(length, k.To)
	}
	latest := p.exited.Add(-time.Duration(length * float64(time.Second)))
	begun := latest
	if gap := latest.Sub(p.connected); gap > 0 {
		begun, p.within = latest.Add(-gap/2), gap/2
	}
	p.from = s.Begin.Sub(begun).Seconds()
	// Within that error the window lies inside the test: it was offered no
	// longer than it ran.
	if over := p.from + s.End.Sub(s.Begin).Seconds() - length; over > 0 {
		p.from -= math.Min(over, p.within.Seconds())
	}
}

// awaitServers returns when all servers listen, with a look at the sockets of each.
func (o offer) awaitServers(ctx context.Context, bed workload.Bed) ([]*workload.Sockets, error) {
	ctx, cancel := patience(ctx, bed)
	defer cancel()
	var watch []*workload.Sockets
	for _, pair := range bed.Pairs {
		// Also for UDP the control connection is TCP.
		if err := workload.AwaitListening(ctx, bed, pair.Server, workload.TCP); err != nil {
			return watch, err
		}
		s, err := workload.OpenSockets(bed, pair.Server, o.proto)
		if err != nil {
			return watch, err
		}
		watch = append(watch, s)
	}
	return watch, nil
}

func closeAll(watch []*workload.Sockets) {
	for _, s := range watch {
		s.Close()
	}
}

// awaitStreams notes when each pair's server has all its streams, which is when
// the test begins, and returns the last such moment and the earliest at which
// the first of them may have been: a busy machine lets us look seldom. A test
// that ended before it was seen is errApart, too.
func (o *offer) awaitStreams(ctx context.Context, bed workload.Bed, watch []*workload.Sockets, pairs []pairRun,
	clients []*workload.Task) (first, last time.Time, err error) {
	ctx, cancel := patience(ctx, bed)
	defer cancel()
	want := o.streams
	if o.proto == workload.TCP {
		want++ // the control connection
	}
	// Reading 128 tables every millisecond would be a load of its own.
	tick := time.NewTicker(time.Duration(1+len(pairs)/10) * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	before := began
	for left := len(pairs); left > 0; {
		now := time.Now()
		for i := range pairs {
			if !pairs[i].connected.IsZero() {
				continue
			}
			ended := clients[i].Ended() // before the look
			_, connected, err := watch[i].Count(bed.Pairs[i].Server.Listen)
			if err != nil {
				return first, last, err
			}
			if connected >= want {
				last = time.Now()
				if first.IsZero() {
					first = before
				}
				pairs[i].connected = last
				left--
			} else if ended && ctx.Err() == nil {
				return first, last, errApart(time.Since(began))
			} else if ctx.Err() != nil {
				return first, last, fmt.Errorf("connect iperf3 to pod %s at %v: %d of %d %s connections: %w",
					bed.Pairs[i].Server.Name, bed.Pairs[i].Server.Service, connected, want, o.proto, context.Cause(ctx))
			}
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return first, last, nil
}

// patience bounds one step of the start.
func patience(ctx context.Context, bed workload.Bed) (context.Context, context.CancelFunc) {
	limit := startTimeout + time.Duration(len(bed.Pairs))*startPerPair
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("gave up after %v", limit))
}

// awaitEnd waits until all tests have ended by themselves.
func awaitEnd(ctx context.Context, tasks []*workload.Task, due time.Time) error {
	return workload.WaitAll(ctx, tasks, due.Add(endTimeout),
		fmt.Errorf("iperf3 did not end within %v after its time", endTimeout))
}

// execute runs one iperf3 process to its end.
func execute(ctx context.Context, bed workload.Bed, pod topo.Pod, argv []string) (report, program.Result, error) {
	res, err := bed.Exec(ctx, pod, argv...)
	if ctx.Err() != nil {
		return report{}, res, context.Cause(ctx)
	}
	rep, bad := parse(res.Stdout)
	switch {
	case bad == nil && rep.Failure != "":
		// With -J iperf3 explains itself on standard output.
		err = fmt.Errorf("run iperf3 in pod %s: %s", pod.Name, explain(rep.Failure, bed, pod, argv))
	case err != nil:
		err = fmt.Errorf("run iperf3 in pod %s: %w", pod.Name, err)
	case bad != nil:
		err = fmt.Errorf("run iperf3 in pod %s: %w", pod.Name, bad)
	}
	return rep, res, err
}

// explain adds to iperf3's message what the reader needs to act on it.
func explain(failure string, bed workload.Bed, pod topo.Pod, argv []string) string {
	if !strings.Contains(failure, "TCP_CONGESTION") {
		return failure
	}
	var offered string
	err := bed.Do(pod, func() error {
		raw, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
		offered = strings.TrimSpace(string(raw))
		return err
	})
	if err != nil {
		offered = err.Error()
	}
	wanted := ""
	if i := slices.Index(argv, "-C"); i >= 0 && i+1 < len(argv) {
		wanted = argv[i+1]
	}
	return fmt.Sprintf("%s: the workload needs congestion control %s, this kernel has: %s", failure, wanted, offered)
}
