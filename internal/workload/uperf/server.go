package uperf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/workload"
	"pathwise.dev/pathwise/internal/workload/socket"
)

// Serve is uperf's slave: it does on each connection the mirror of what the
// client says that it will do, until ctx ends. It expects that many connections
// at once.
func Serve(ctx context.Context, addr netip.AddrPort, connections int) error {
	socket.Threads(connections)
	l, err := socket.Listen(workload.TCP, addr, socket.KeepAlive)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Hangup)()
	var s server
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go s.answer(conn)
	}
}

// server counts what all connections received.
type server struct{ windows windows }

// greet bounds how long a client may take to say what it wants.
const greet = 10 * time.Second

// answer serves one connection. What goes wrong on it, the client tells.
func (s *server) answer(conn *socket.Socket) {
	defer conn.Close()
	if conn.Patience(greet) != nil {
		return
	}
	line, err := readLine(conn, maxLine)
	if err != nil {
		return
	}
	h, err := parseHello(line)
	if err != nil {
		return
	}
	if h.Report {
		_ = writeLine(conn, report{Received: s.windows.received(h.Begin)})
		return
	}
	if h.Back == 0 {
		_ = s.mirror(conn, conn, h)
		return
	}
	peer, err := conn.Peer()
	if err != nil {
		return
	}
	back, err := socket.Dial(workload.TCP, netip.AddrPortFrom(peer.Addr(), h.Back), greet)
	if err != nil {
		return
	}
	defer back.Close()
	_ = s.mirror(back, conn, h)
}

// mirror does what the hello says on the connection data, and says that it is
// ready on control.
func (s *server) mirror(data, control *socket.Socket, h hello) error {
	now, err := workload.Monotonic()
	if err != nil {
		return err
	}
	if h.Begin > now+longest || h.Begin < now-longest {
		return errors.New("a window of another day")
	}
	begin := time.Now().Add(h.Begin - now)
	end := begin.Add(h.Duration)
	if err := tune(data, h.NoDelay, h.Window); err != nil {
		return err
	}
	// Peers that vanish without a word are left when the window is long over.
	if err := data.Patience(time.Until(end) + 2*greet); err != nil {
		return err
	}
	received, err := s.windows.enter(h.Begin, end)
	if err != nil {
		return err
	}
	p := newPipe(data, h.Seed, h.most(), func(n int, at time.Time) {
		if !at.Before(begin) && at.Before(end) {
			received.Add(int64(n))
		}
	})
	if _, err := control.Write([]byte(ready)); err != nil {
		return err
	}
	for _, g := range h.Script {
		for i := 0; g.Iterations == 0 || i < g.Iterations; i++ {
			if err := p.steps(g.Steps); err != nil {
				return err
			}
		}
	}
	return p.read(1) // the client closes first, as its disconnect
}

func (p *pipe) steps(steps []step) error {
	for _, t := range steps {
		for range t.Count {
			p.turn.Turn()
			do := p.read
			if t.Write {
				do = p.write
			}
			if err := do(p.draw(t.Size, t.Max)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tune sets what a flowop's options ask for.
func tune(s *socket.Socket, noDelay bool, window int) error {
	if noDelay {
		if err := s.Undelayed(); err != nil {
			return fmt.Errorf("set tcp_nodelay: %w", err)
		}
	}
	if window > 0 {
		return s.Buffers(window)
	}
	return nil
}
