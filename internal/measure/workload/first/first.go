// Package first measures what the first packet of a flow pays: how long a connection's
// opening takes just after the network's datapath has forgotten its flows, and how long while
// it has them. On a network that caches no flows both are the same.
//
// It needs no program: this process opens the connections in the client's pod, and takes
// them in the server's. What each costs in CPU it cannot tell, as forgetting costs some too.
package first

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// Packet is the workload first-packet.
type Packet struct{}

const (
	// cached is how many connections are opened between two forgettings, after the first.
	cached = 5
	// rest lets the datapath's daemon come to rest after it has forgotten.
	rest = 5 * time.Millisecond
	// patience bounds the opening of a connection.
	patience = 2 * time.Second
)

// Info implements workload.Workload.
func (Packet) Info() workload.Info {
	return workload.Info{
		Name:    "first-packet",
		Summary: "opening of a TCP connection whose flow the network's datapath has forgotten",
		Tool: "pathwise: from connect(2) to its return, first after Open vSwitch was told to forget its flows, then " +
			fmt.Sprint(cached) + " times with the flows there",
		Needs: []network.Need{network.NeedRoot()},
		Metrics: []string{sample.LatencyFirst, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean,
			sample.Errors},
		MinDuration: 200 * time.Millisecond,
	}
}

// trial is one run.
type trial struct {
	workload.Bed
	pair workload.Pair
	// first are openings of flows that were forgotten, later those of others.
	first []float64
	later *sample.Histogram
	// forgets: the network has something to forget.
	forgets bool
}

// Run implements workload.Workload.
func (p Packet) Run(ctx context.Context, bed workload.Bed, _ sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	t := &trial{Bed: bed, pair: bed.Pairs[0], later: sample.NewHistogram()}
	out, err := t.run(ctx, w, m)
	if err != nil {
		return out, fmt.Errorf("run %s: %w", p.Info().Name, err)
	}
	return out, nil
}

func (t *trial) run(ctx context.Context, w workload.Window, m workload.Meter) (out workload.Outcome, err error) {
	l, err := t.listen()
	if err != nil {
		return out, err
	}
	defer l.Close()
	if err := t.until(ctx, time.Now().Add(w.Warmup)); err != nil {
		return out, err
	}
	t.first, t.later = nil, sample.NewHistogram()
	m.Begin()
	begun := time.Now()
	err = t.until(ctx, begun.Add(w.Duration))
	m.End()
	if err != nil {
		return out, err
	}
	out = workload.Outcome{Metrics: map[string]float64{sample.LatencyFirst: stat.Median(t.first)}, Latency: t.later,
		Operations: float64(len(t.first)) + float64(t.later.Count()), Window: time.Since(begun),
		Details: map[string]string{"forgotten": fmt.Sprintf("%d times", len(t.first))}}
	if !t.forgets {
		out.Details["forgotten"] = "nothing: the network caches no flows that it could be told to forget"
	}
	out.AddErrors(t.pair.Client.Name, 0, int64(out.Operations), "")
	out.SetLatency()
	return out, nil
}

// listen takes connections in the server's pod, and closes them.
func (t *trial) listen() (net.Listener, error) {
	var l net.Listener
	err := t.Do(t.pair.Server, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(netip.IPv6Unspecified(), t.pair.Server.Listen).String())
		if errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
			l, err = net.Listen("tcp4", netip.AddrPortFrom(netip.IPv4Unspecified(), t.pair.Server.Listen).String())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen in pod %s: %w", t.pair.Server.Name, err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l, nil
}

// until forgets and opens connections until then, at least once.
func (t *trial) until(ctx context.Context, end time.Time) error {
	for len(t.first) == 0 || time.Now().Before(end) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var err error
		if t.forgets, err = workload.Forget(ctx, t.Ground); err != nil {
			return err
		}
		time.Sleep(rest)
		err = t.Do(t.pair.Client, func() error {
			for i := range 1 + cached {
				d, err := open(t.pair.Server.Service)
				if err != nil {
					return err
				}
				if i == 0 {
					t.first = append(t.first, d.Seconds())
				} else {
					t.later.Record(d)
				}
			}
			return nil
		})
		if errors.Is(err, unix.EINTR) {
			continue // by a signal of the runtime's: nobody knows how long it would have taken
		}
		if err != nil {
			return fmt.Errorf("connect from pod %s: %w", t.pair.Client.Name, err)
		}
	}
	return nil
}

// open is how long a connection's opening takes, by the calling thread: a net.Dialer would
// wait in the runtime's poller.
func open(to netip.AddrPort) (time.Duration, error) {
	family, peer := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().Unmap().As4()})
	if !to.Addr().Unmap().Is4() {
		family, peer = unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return 0, fmt.Errorf("set timeout: %w", err)
	}
	begun := time.Now()
	if err := unix.Connect(fd, peer); err != nil {
		return 0, fmt.Errorf("connect to %v: %w", to, err)
	}
	return time.Since(begun), nil
}
