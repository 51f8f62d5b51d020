package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ask does operations on one connection until run ends, or all connections
// together have done the client's count. An operation under way at the end gets
// the client's patience.
func (c Client) ask(run context.Context, conn *net.TCPConn, l *line, issued *atomic.Int64) {
	defer context.AfterFunc(run, func() { conn.SetDeadline(time.Now().Add(c.Patience)) })()
	h := c.hello(l.conn)
	l.latencies()
	raw, request, answer := newRawConn(conn), make([]byte, h.Requests.Max), make([]byte, h.Size)
	think := newThinker(c.Think)
	defer think.stop()
	for n := uint64(0); run.Err() == nil && (c.Count == 0 || issued.Add(1) <= c.Count); n++ {
		message := request[:h.request(n)]
		number(message, n)
		start := l.clock.now()
		err := exchange(raw, message, answer)
		end := l.clock.now()
		if err == nil && !numbered(answer, n) {
			l.Counts.Corrupt++
			err = errCorrupt
		}
		if err != nil {
			l.last = start
			l.end(true)
			l.settle(broken(run, err), reason("operation", err))
			return
		}
		l.operation(start, end)
		think.pause(run)
		if c.Work > 0 {
			compute(c.Work)
		}
		if c.Between != nil {
			c.Between()
		}
	}
	l.Ended = l.last
	c.goodbye(conn, l)
}

// broken is how a connection ended whose operation failed with err: it is not
// known to be lost if only the run's end cut the waiting short.
func broken(run context.Context, err error) ending {
	if run.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return open
	}
	return lost
}

// exchange sends one request and receives its answer.
func exchange(conn io.ReadWriter, request, answer []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, answer)
	return err
}

// answer answers one connection's requests.
func (s Server) answer(ctx context.Context, conn *net.TCPConn, l *line, h hello) {
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(past()) })()
	raw, request, answer := newRawConn(conn), make([]byte, h.Requests.Max), make([]byte, h.Size)
	for n := uint64(0); ; n++ {
		message := request[:h.request(n)]
		_, err := io.ReadFull(raw, message)
		if errors.Is(err, io.EOF) { // between requests; within one it is io.ErrUnexpectedEOF
			l.end(false)
			l.settle(closed, "")
			return
		}
		if err == nil && !numbered(message, n) {
			l.Counts.Corrupt++
			err = errCorrupt
		}
		if err == nil {
			number(answer, n)
			_, err = raw.Write(answer)
		}
		if err != nil {
			l.end(true)
			if e := broken(ctx, err); e == open {
				l.settle(e, "") // the server's own end is no error
			} else {
				l.settle(e, reason("answer", err))
			}
			return
		}
		l.Counts.Operations++
		l.mark(l.clock.now(), 1)
	}
}

// thinker pauses between operations.
type thinker struct {
	time  time.Duration
	timer *time.Timer
}

func newThinker(d time.Duration) *thinker {
	t := &thinker{time: d}
	if d > 0 {
		t.timer = time.NewTimer(d)
	}
	return t
}

func (t *thinker) pause(ctx context.Context) {
	if t.timer == nil {
		return
	}
	t.timer.Reset(t.time)
	select {
	case <-t.timer.C:
	case <-ctx.Done():
	}
}

func (t *thinker) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// compute keeps its thread's CPU busy for d of the thread's own time.
func compute(d time.Duration) {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // it is always there
		return time.Duration(ts.Nano())
	}
	for end := spent() + d; spent() < end; {
	}
}
