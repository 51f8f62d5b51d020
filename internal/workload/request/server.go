package request

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"pathwise.dev/pathwise/internal/workload"
	"pathwise.dev/pathwise/internal/workload/socket"
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
}

// Serve sends requests back until ctx ends.
func (s Service) Serve(ctx context.Context) error {
	l, err := socket.Listen(s.Proto, s.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Hangup)()
	socket.Threads(s.Connections)
	if s.Proto == workload.UDP {
		return s.datagrams(ctx, l)
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
	if !s.Once {
		defer context.AfterFunc(ctx, conn.Hangup)()
	}
	Echo(conn, s.Size, s.Once)
}

// Echo sends messages of size bytes back until the connection ends, or one.
func Echo(conn io.ReadWriter, size int, once bool) {
	buf := make([]byte, size)
	for {
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		if _, err := conn.Write(buf); err != nil || once {
			return
		}
	}
}

// datagrams answers on one socket, by several threads where there are several peers.
func (s Service) datagrams(ctx context.Context, l *socket.Socket) error {
	const most = 16
	failed := make(chan error, most)
	var wg sync.WaitGroup
	for range min(s.Connections, most) {
		wg.Go(func() {
			buf := make([]byte, s.Size+1)
			for {
				n, from, err := l.ReadFrom(buf)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					failed <- fmt.Errorf("receive: %w", err)
					return
				}
				// One that cannot be sent, as its sender is gone, is lost as others are.
				_ = l.WriteTo(buf[:n], from)
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
