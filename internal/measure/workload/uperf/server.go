package uperf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// Serve is uperf's slave: it does on each connection the mirror of what the
// client says that it will do, until ctx ends. It expects that many connections
// at once; payload may go by UDP as well where datagrams says so.
func Serve(ctx context.Context, addr netip.AddrPort, connections int, datagrams bool) error {
	ctx, stop := context.WithCancel(ctx)
	var s server
	var opened chan error
	if datagrams {
		connections *= 2 // control connections have a thread as well
		var err error
		if s.door, err = openDoor(addr); err != nil {
			stop()
			return err
		}
		opened = make(chan error, 1)
		go func() { opened <- s.door.open(ctx) }()
		defer func() { stop(); s.door.Hangup(); <-opened; s.door.Close() }()
	}
	defer stop()
	socket.Threads(connections)
	l, err := socket.Listen(workload.TCP, addr, socket.Congestion(workload.Congestion), socket.KeepAlive)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Hangup)()
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
type server struct {
	windows windows
	zeros   zeros
	// door is nil where no payload goes by UDP.
	door *door
}

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
		_ = writeLine(conn, s.windows.report(h.Begin))
		return
	}
	data, err := s.data(conn, h)
	if err == nil && data != conn {
		defer data.Close()
	}
	if err == nil {
		err = tune(data, h)
	}
	if err != nil {
		_, _ = fmt.Fprintf(conn, "%s%v\n", refusal, err)
		return
	}
	_ = s.mirror(data, conn, h)
}

// data is the connection that payload goes by.
func (s *server) data(control *socket.Socket, h hello) (*socket.Socket, error) {
	switch {
	case h.Back == 0 && !h.datagrams():
		return control, nil
	case h.datagrams() && s.door == nil:
		return nil, errors.New("it does not listen for datagrams")
	case h.Back == 0:
		return s.door.expect(control, h.Token)
	}
	peer, err := control.Peer()
	if err != nil {
		return nil, err
	}
	to := netip.AddrPortFrom(peer.Addr(), h.Back)
	if !h.datagrams() {
		return socket.Dial(workload.TCP, to, greet, h.options()...)
	}
	data, err := socket.Dial(workload.UDP, to, greet, h.options()...)
	if err != nil {
		return nil, err
	}
	if err := call(data, control, h.Token, time.Now().Add(greet)); err != nil {
		data.Close()
		return nil, err
	}
	return data, nil
}

// mirror does what the hello says on the connection data, and says that it is
// ready on control.
func (s *server) mirror(data, control *socket.Socket, h hello) error {
	now, err := program.Monotonic()
	if err != nil {
		return err
	}
	if h.Begin > now+longest || h.Begin < now-longest {
		return errors.New("a window of another day")
	}
	begin := time.Now().Add(h.Begin - now)
	end := begin.Add(h.Duration)
	// Peers that vanish without a word are left when the window is long over.
	left := time.Until(end) + 2*greet
	if err := errors.Join(data.Patience(left), control.Patience(left)); err != nil {
		return err
	}
	count, err := s.windows.enter(h.Begin, end)
	if err != nil {
		return err
	}
	p := newPipe(data, control, h, false, &s.zeros, func(m moved, at time.Time) {
		if !at.Before(begin) && at.Before(end) {
			count.add(m)
		}
	})
	if _, err := control.Write([]byte(ready)); err != nil {
		return err
	}
	if h.datagrams() {
		return p.until(h.Script)
	}
	if err := p.play(h.Script); err != nil {
		return err
	}
	_, err = p.read(1, 0) // the client closes first, as its disconnect
	return err
}

// until plays the script on a connection by UDP once the client begins, which it
// says on the control connection: datagrams that nobody reads yet would keep the
// machine from the connections to come. Nor has UDP an end that the other could
// see; the control connection's is its.
func (p *pipe) until(script []segment) error {
	if _, err := p.control.Read(make([]byte, 1)); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = p.control.Read(make([]byte, 1))
		p.over.Store(true)
		p.Hangup()
	}()
	err := p.play(script)
	if err != nil {
		p.control.Hangup()
	}
	<-gone
	return err
}

// play does what the script says.
func (p *pipe) play(script []segment) error {
	for _, g := range script {
		for i := 0; g.Iterations == 0 || i < g.Iterations; i++ {
			if err := p.steps(g.Steps); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pipe) steps(steps []step) error {
	for _, t := range steps {
		for range t.Count {
			p.turn.Turn()
			if p.over.Load() {
				return errCut
			}
			var err error
			switch {
			case t.Pause > 0:
				think(t.Pause, t.Busy)
			case t.Write:
				_, err = p.write(t.Size, t.Max)
			default:
				_, err = p.read(t.Size, t.Max)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// options are what must be set before the connection is there.
func (h hello) options() []socket.Option {
	var options []socket.Option
	if h.Window > 0 {
		options = append(options, func(s *socket.Socket) error { return s.Buffers(h.Window) })
	}
	if !h.datagrams() {
		options = append(options, socket.Congestion(cmp.Or(h.Congestion, workload.Congestion)))
	}
	return options
}

// tune sets the rest of what the hello asks for, and for one that was accepted on
// a socket of all connections that, too: those are with the usual congestion
// control, from which every other can begin.
func tune(s *socket.Socket, h hello) error {
	if h.NoDelay && !h.datagrams() {
		if err := s.Undelayed(); err != nil {
			return fmt.Errorf("set tcp_nodelay: %w", err)
		}
	}
	if h.Window > 0 {
		if err := s.Buffers(h.Window); err != nil {
			return err
		}
	}
	if h.Congestion == "" || h.datagrams() {
		return nil
	}
	return socket.Congestion(h.Congestion)(s)
}
