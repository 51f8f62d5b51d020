package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// connectTimeout bounds opening all of a client's connections.
	connectTimeout = 10 * time.Second
	// greetTimeout bounds how long a server waits for a connection's greeting.
	greetTimeout = 2 * time.Second
	// acceptPause keeps a server that cannot accept from spinning.
	acceptPause = 10 * time.Millisecond
)

// family is the network of package net for the address: tcp4, tcp6, udp4 or udp6.
func family(proto string, addr netip.Addr) string {
	if addr.Unmap().Is4() {
		return proto + "4"
	}
	return proto + "6"
}

// past is a deadline that is over: it ends what waits on a connection.
func past() time.Time { return time.Unix(1, 0) }

// connections opens all of the client's connections and then runs them side by side.
func (c Client) connections(ctx context.Context, j *journal) error {
	conns, err := c.dial(ctx, j)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	run, cancel := ctx, func() {}
	if c.Duration > 0 {
		run, cancel = context.WithTimeout(ctx, c.Duration)
	}
	defer cancel()
	j.start()
	var issued atomic.Int64
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() {
			l := j.line(i)
			switch {
			case c.Kind == RR:
				c.ask(run, conn, l, &issued)
			case c.Reverse:
				c.take(run, conn, l)
			default:
				c.give(run, conn, l)
			}
			l.Counts.Retransmissions = retransmissions(conn)
			j.handIn(l)
		})
	}
	wg.Wait()
	return nil
}

// hello of connection i. The seed is fixed, so that a run can be repeated.
func (c Client) hello(i int) hello {
	h := hello{Kind: wireTCP, Reverse: c.Reverse, Conn: uint16(i), Size: uint32(c.size()), Seed: uint64(i),
		Rate: uint64(c.Rate)}
	if c.Kind == RR {
		h.Kind, h.Reverse, h.Rate = wireRR, false, 0
		h.Requests.Min, h.Requests.Max = uint32(c.Requests.Min), uint32(c.Requests.Max)
	}
	return h
}

// dial opens the connections and greets the server on each.
func (c Client) dial(ctx context.Context, j *journal) ([]*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	d := net.Dialer{KeepAlive: -1} // the traffic is what it is asked to be
	d.SetMultipathTCP(c.MPTCP)
	if c.Bind.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.Bind, 0))
	}
	var conns []*net.TCPConn
	for i := range c.Connections {
		conn, err := d.DialContext(ctx, family("tcp", c.Target.Addr()), c.Target.String())
		if err != nil {
			return conns, fmt.Errorf("connect: %w", err)
		}
		tcp := conn.(*net.TCPConn) // what the network tcp gives
		conns = append(conns, tcp)
		if _, err := tcp.Write(c.hello(i).encode()); err != nil {
			return conns, fmt.Errorf("greet: %w", err)
		}
		j.opened(tcp, c.MPTCP)
	}
	return conns, nil
}

// goodbye tells the server that no more comes and waits for its close.
func (c Client) goodbye(conn *net.TCPConn, l *line) {
	err := errors.Join(conn.CloseWrite(), conn.SetReadDeadline(time.Now().Add(c.Patience)))
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	switch {
	case errors.Is(err, io.EOF):
		l.settle(closed, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		l.settle(open, fmt.Sprintf("end: not confirmed within %v", c.Patience))
	case err == nil:
		l.Counts.Corrupt++
		l.settle(lost, "end: "+errCorrupt.Error())
	default:
		l.settle(lost, reason("end", err))
	}
}

// accept serves TCP clients until ctx ends.
func (s Server) accept(ctx context.Context, w io.Writer, j *journal) error {
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(s.MPTCP) // Go's listeners take MPTCP unasked otherwise
	l, err := lc.Listen(ctx, family("tcp", s.Listen.Addr()), s.Listen.String())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if _, err := fmt.Fprintf(w, "listening %s\n", l.Addr()); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			// Out of descriptors, for example: the report must not be lost for it.
			j.wrong(-1, reason("accept", err))
			time.Sleep(acceptPause)
			continue
		}
		wg.Go(func() {
			defer conn.Close()
			s.serve(ctx, conn.(*net.TCPConn), j)
		})
	}
}

// serve does what the connection's greeting asks for.
func (s Server) serve(ctx context.Context, conn *net.TCPConn, j *journal) {
	h, err := s.greeted(conn)
	if err != nil {
		j.wrong(-1, err.Error())
		return
	}
	j.opened(conn, s.MPTCP)
	l := j.line(int(h.Conn))
	switch {
	case s.Kind == RR:
		s.answer(ctx, conn, l, h)
	case h.Reverse:
		s.source(ctx, conn, l, h)
	default:
		s.sink(ctx, conn, l)
	}
	l.Counts.Retransmissions = retransmissions(conn)
	j.handIn(l)
}

// greeted reads the greeting.
func (s Server) greeted(conn *net.TCPConn) (hello, error) {
	raw := make([]byte, helloSize)
	err := conn.SetReadDeadline(time.Now().Add(greetTimeout))
	if err == nil {
		_, err = io.ReadFull(conn, raw)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return hello{}, errors.New(reason("read greeting", err))
	}
	h, err := parseHello(raw)
	if err != nil {
		return h, err
	}
	if want := map[Kind]uint8{TCP: wireTCP, RR: wireRR}[s.Kind]; h.Kind != want {
		return h, fmt.Errorf("read greeting: a client of kind %d at a %s server", h.Kind, s.Kind)
	}
	return h, nil
}
