package http

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// plan is an Offer under way. Its times count from base.
type plan struct {
	Offer
	base             time.Time
	begin, end, last time.Duration
	// step is the time between two requests of a connection; 0 in a closed loop.
	step    time.Duration
	request []byte
}

func newPlan(o Offer, base time.Time, begin time.Duration) *plan {
	p := &plan{Offer: o, base: base, begin: begin, end: begin + o.Duration, last: begin + o.Duration + patience}
	if o.Rate > 0 {
		p.step = time.Duration(float64(o.Connections) / o.Rate * float64(time.Second))
	}
	how := "keep-alive"
	if o.Close {
		how = "close"
	}
	p.request = fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n", object, o.Target, how)
	return p
}

func sockaddr(a netip.AddrPort) (int, unix.Sockaddr) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (p *plan) now() time.Duration { return time.Since(p.base) }

// worker drives some of the connections from one thread, as wrk does: Go's own
// poller would cost a wake-up of another thread for each answer, which is what
// is to be measured.
type worker struct {
	*plan
	epoll, timer int
	conns        []*conn
	waiting      queue
	// to is the worker's own: package unix writes into an address that it is given.
	to     unix.Sockaddr
	family int
	// busy is how many connections have a request under way.
	busy int
	buf  []byte
	n    Count
}

// work runs one of several workers until the window is over and what began in
// it is answered or given up.
func (p *plan) work(ctx context.Context, index, of int) (Count, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := &worker{plan: p, buf: make([]byte, 256<<10), n: newCount()}
	w.family, w.to = sockaddr(p.Target)
	if err := w.open(); err != nil {
		return w.n, fmt.Errorf("start generator: %w", err)
	}
	defer w.close()
	for k := index; k < p.Connections; k += of {
		c := &conn{fd: -1, index: int32(len(w.conns)), answer: newAnswer(int64(p.Size))}
		if p.step > 0 {
			c.due = p.step * time.Duration(k) / time.Duration(p.Connections)
		}
		w.conns = append(w.conns, c)
		heap.Push(&w.waiting, c)
	}
	return w.n, w.loop(ctx)
}

func (w *worker) open() (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return errors.Join(err, unix.Close(w.epoll))
	}
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1})
}

func (w *worker) close() {
	for _, c := range w.conns {
		w.hangup(c)
	}
	_ = unix.Close(w.timer)
	_ = unix.Close(w.epoll)
}

func (w *worker) loop(ctx context.Context) error {
	events := make([]unix.EpollEvent, 128)
	for turn := (socket.Loop{}); ctx.Err() == nil; turn.Turn() {
		now := w.now()
		if now < w.last {
			now = w.startDue(now)
		}
		if now >= w.last || (now >= w.end && w.busy == 0 && len(w.waiting) == 0) {
			w.giveUp()
			return nil
		}
		n, err := unix.EpollWait(w.epoll, events, w.await(now))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for answers: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd < 0 {
				var ticks [8]byte
				_, _ = unix.Read(w.timer, ticks[:]) // EAGAIN where it was set again
				continue
			}
			w.ready(w.conns[e.Fd])
		}
	}
	return nil
}

// startDue begins what is due, drops what would begin after the window, and
// returns the time.
func (w *worker) startDue(now time.Duration) time.Duration {
	for len(w.waiting) > 0 && (w.waiting[0].due <= now || w.waiting[0].due >= w.end) {
		c := heap.Pop(&w.waiting).(*conn)
		switch {
		case c.due >= w.end, w.step == 0 && now >= w.end:
		case w.step > 0:
			w.start(c, c.due)
		default:
			w.start(c, now)
		}
		now = w.now()
	}
	return now
}

// await sets the timer for what is due next and returns what epoll may wait, in
// milliseconds. Its own time-out is too coarse for a rate.
func (w *worker) await(now time.Duration) int {
	const poll = 100 * time.Millisecond // for the context's end
	if len(w.waiting) > 0 {
		wait := max(w.waiting[0].due-now, 1)
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(wait.Nanoseconds())}
		_ = unix.TimerfdSettime(w.timer, 0, &spec, nil) // fails for bad arguments only
	}
	return int(min(poll, w.last-now)/time.Millisecond) + 1
}

// giveUp counts what is still under way, and what was due and never began.
func (w *worker) giveUp() {
	for _, c := range w.conns {
		due := c.due
		if c.state != idle {
			w.count(c, fmt.Errorf("no answer within %v after the window", patience))
			due = c.begun + w.step
		}
		for ; w.step > 0 && due < w.end; due += w.step {
			if due >= w.begin {
				w.n.Failed++
				w.n.Unsent++
			}
		}
	}
	if w.n.Unsent > 0 && w.n.Failure == "" {
		w.n.Failure = "requests were due that could not begin: their connections still waited for earlier answers"
	}
}

// count adds the request under way on c.
func (w *worker) count(c *conn, err error) {
	if c.answer.server != "" {
		w.n.Server = c.answer.server
	}
	if err != nil && w.n.Failure == "" {
		w.n.Failure = err.Error()
	}
	switch {
	case c.begun < w.begin || c.begun >= w.end:
	case err != nil:
		w.n.Failed++
	default:
		w.n.Operations++
		w.n.Bytes += int64(w.Size)
		w.n.Latency.Record(c.took)
	}
}

var errClosed = fmt.Errorf("the server closed the connection before its answer was complete: %w", io.ErrUnexpectedEOF)
