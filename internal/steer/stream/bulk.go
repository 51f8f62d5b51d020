package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"
)

// give sends the client's stream.
func (c Client) give(run context.Context, conn *net.TCPConn, l *line) {
	if err := push(run, conn, l, c.Rate, c.size()); err != nil {
		l.settle(lost, reason("send", err))
		return
	}
	c.goodbye(conn, l)
}

// take receives the server's stream, and what is still on its way at the end.
func (c Client) take(run context.Context, conn *net.TCPConn, l *line) {
	defer context.AfterFunc(run, func() {
		// A connection that has died says so to the reader.
		_ = errors.Join(conn.CloseWrite(), conn.SetReadDeadline(time.Now().Add(c.Patience)))
	})()
	switch err := pull(conn, l); {
	case errors.Is(err, errCorrupt):
		l.Counts.Corrupt++
		l.settle(lost, reason("receive", err))
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.settle(open, fmt.Sprintf("end: not confirmed within %v", c.Patience))
	case err != nil:
		l.settle(lost, reason("receive", err))
	case run.Err() == nil:
		l.settle(lost, reason("receive", io.EOF))
	default:
		l.settle(closed, "")
	}
}

// sink receives a client's stream.
func (s Server) sink(ctx context.Context, conn *net.TCPConn, l *line) {
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(past()) })()
	switch err := pull(conn, l); {
	case errors.Is(err, errCorrupt):
		l.Counts.Corrupt++
		l.settle(lost, reason("receive", err))
	case err == nil:
		l.settle(closed, "")
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		l.settle(open, "")
	default:
		l.settle(lost, reason("receive", err))
	}
}

// source sends the stream that the client asked for, until it says that it has enough.
func (s Server) source(ctx context.Context, conn *net.TCPConn, l *line, h hello) {
	run, stop := context.WithCancel(ctx)
	defer stop()
	said := make(chan error, 1)
	go func() { // ends at the latest when the caller closes conn
		_, err := conn.Read(make([]byte, 1))
		said <- err
		stop()
	}()
	if err := push(run, conn, l, int64(h.Rate), int(h.Size)); err != nil {
		l.settle(lost, reason("send", err))
		return
	}
	// What the client said counts, not whether the server ends by now too: who
	// ends the server may do so as soon as the client has been confirmed.
	select {
	case err := <-said:
		if err = farewell(conn, err); err != nil {
			l.settle(lost, reason("send", err))
			return
		}
		l.settle(closed, "")
	default:
		l.settle(open, "")
	}
}

// farewell confirms the end of the client's stream, of which said is what its
// reader met.
func farewell(conn *net.TCPConn, said error) error {
	switch {
	case errors.Is(said, io.EOF):
		return conn.CloseWrite()
	case said == nil:
		return errors.New("the client sent data")
	}
	return said
}

// push sends the pattern until ctx ends; then it returns nil. Writes are as
// large as asked and cost one system call each, where the socket has room.
func push(ctx context.Context, conn *net.TCPConn, l *line, rate int64, size int) error {
	defer context.AfterFunc(ctx, func() { conn.SetWriteDeadline(past()) })()
	wait := func(int64) bool { return ctx.Err() == nil }
	if rate > 0 {
		runtime.LockOSThread() // never unlocked: newPacer
		p, err := newPacer(l.clock, false)
		if err != nil {
			return err
		}
		begin, perByte := l.clock.now(), 8*float64(time.Second)/float64(rate)
		wait = func(sent int64) bool { return p.until(ctx, begin+time.Duration(float64(sent)*perByte)) }
	}
	buf := make([]byte, size)
	for wait(l.Counts.BytesSent) {
		stamp(buf, l.Counts.BytesSent)
		n, err := conn.Write(buf)
		if n > 0 {
			l.Counts.BytesSent += int64(n)
			l.mark(l.clock.now(), int64(n))
		}
		if err != nil {
			// The socket had no room: something was still to be sent.
			l.end(true)
			if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		}
	}
	l.end(false)
	return nil
}

// readSize is what one read takes at most: twice the largest GRO packet.
const readSize = 128 << 10

// pull receives the pattern until its end; then it returns nil.
func pull(conn *net.TCPConn, l *line) error {
	buf := make([]byte, readSize)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			now := l.clock.now()
			if at := check(buf[:n], l.Counts.BytesReceived); at >= 0 {
				l.end(true)
				return fmt.Errorf("%w, at byte %d", errCorrupt, at)
			}
			l.Counts.BytesReceived += int64(n)
			l.mark(now, int64(n))
		}
		if errors.Is(err, io.EOF) {
			l.end(false)
			return nil
		}
		if err != nil {
			l.end(true)
			return err
		}
	}
}
