package request

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// Service is what the generator's server does, in the pod.
type Service struct {
	// Proto is TCP unless it says UDP.
	Proto workload.Proto
	Addr  netip.AddrPort
	// Connections to expect.
	Connections int
	// Size of a request in bytes.
	Size int
	// Once closes after the first answer.
	Once bool
	// Congestion is TCP's congestion control; "" is the machine's, and UDP's.
	Congestion string
}

// Serve sends requests back until ctx ends.
func (s Service) Serve(ctx context.Context) error {
	options := []socket.Option{socket.Congestion(s.Congestion)}
	if s.Proto != workload.UDP && !s.Once { // brief has its patience
		options = append(options, socket.KeepAlive)
	}
	l, err := socket.Listen(s.Proto, s.Addr, options...)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Hangup)()
	socket.Threads(s.Connections)
	switch {
	case s.Proto == workload.UDP:
		return s.datagrams(ctx, l)
	case s.Once:
		return s.brief(ctx, l)
	}
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go s.answer(ctx, conn)
	}
}

// answer serves one connection. What goes wrong on it, the client tells.
func (s Service) answer(ctx context.Context, conn *socket.Socket) {
	defer conn.Close()
	_ = conn.Undelayed()
	defer context.AfterFunc(ctx, conn.Hangup)()
	Echo(conn, s.Size)
}

// brief answers connections of one request each. The thread that accepts one answers
// and closes it, as netperf's server does: to wake another for that takes as long as
// the connection lives. Patience keeps a client that says nothing from keeping it.
func (s Service) brief(ctx context.Context, l *socket.Socket) error {
	if err := l.Patience(patience); err != nil {
		return err
	}
	return crew(ctx, l, s.Connections, func() error {
		buf := make([]byte, s.Size)
		for turn := (socket.Loop{}); ctx.Err() == nil; turn.Turn() {
			conn, err := l.Accept()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if err != nil {
				return fmt.Errorf("accept: %w", err)
			}
			if _, err = io.ReadFull(conn, buf); err == nil {
				_, _ = conn.Write(buf) // what goes wrong, the client tells
			}
			conn.Close()
		}
		return nil
	})
}

// Echo sends messages of size bytes back until the connection ends.
func Echo(conn io.ReadWriter, size int) {
	buf := make([]byte, size)
	for turn := (socket.Loop{}); ; turn.Turn() {
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		if _, err := conn.Write(buf); err != nil {
			return
		}
	}
}

// datagrams answers on one socket, by several threads where there are several peers.
func (s Service) datagrams(ctx context.Context, l *socket.Socket) error {
	const most = 16
	return crew(ctx, l, min(s.Connections, most), func() error {
		buf := make([]byte, s.Size+1)
		for turn := (socket.Loop{}); ctx.Err() == nil; turn.Turn() {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			// One that cannot be sent, as its sender is gone, is lost as others are.
			_ = l.WriteTo(buf[:n], from)
		}
		return nil
	})
}

// crew runs n threads that wait on the socket until ctx ends, which is no error, or
// one of them fails.
func crew(ctx context.Context, l *socket.Socket, n int, run func() error) error {
	failed := make(chan error, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				failed <- err
				l.Hangup()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
