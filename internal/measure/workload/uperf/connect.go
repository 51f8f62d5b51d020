package uperf

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// connect opens the connection of flowop k of transaction i.
func (s *strand) connect(i, k int, f *Flowop) error {
	script, err := s.group.script(i, k)
	if err != nil {
		return err
	}
	s.opened++
	h := hello{Proto: f.Proto, Script: script, NoDelay: f.NoDelay, Window: f.Window, Congestion: f.Congestion,
		Seed: uint64(s.number)<<32 | uint64(s.opened), Begin: s.Begin, Duration: s.Duration}
	if h.datagrams() {
		h.Token = rand.Text()
	}
	data, control, err := s.open(f, h)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Kind, err)
	}
	s.conns[f.Conn] = newPipe(data, control, h, true, &s.zeros, s.moved)
	if h.datagrams() {
		return nil
	}
	if f.NoDelay {
		if err := data.Undelayed(); err != nil {
			return fmt.Errorf("set tcp_nodelay: %w", err)
		}
	}
	return s.record(data)
}

// record keeps which congestion controls the strand's first connections have; those
// that follow are opened by the same flowops.
func (s *strand) record(conn *socket.Socket) error {
	const first = 16
	if s.opened > first {
		return nil
	}
	name, err := conn.CongestionControl()
	if !slices.Contains(s.Congestion, name) {
		s.Congestion = append(s.Congestion, name)
	}
	return err
}

// open opens the connection and returns it when both ends are ready, by UDP with the
// one of control.
func (s *strand) open(f *Flowop, h hello) (data, control *socket.Socket, err error) {
	switch {
	case f.Kind == Accept:
		return s.accept(h)
	case h.datagrams():
		if control, err = s.greet(h); err != nil {
			return nil, nil, err
		}
		if err = expectReady(control); err == nil {
			data, err = s.dial(workload.UDP, h)
		}
		if err == nil {
			err = call(data, control, h.Token, s.end.Add(patience))
		}
	default:
		if data, err = s.greet(h); err == nil {
			err = expectReady(data)
		}
	}
	if err != nil {
		s.drop(data, control)
		return nil, nil, err
	}
	return data, control, nil
}

// drop closes sockets of a connection that did not come about.
func (s *strand) drop(sockets ...*socket.Socket) {
	for _, one := range sockets {
		if one != nil {
			s.close(one)
		}
	}
}

// dial connects to the server.
func (s *strand) dial(proto workload.Proto, h hello) (*socket.Socket, error) {
	left := s.whole()
	conn, err := socket.Dial(proto, s.Target, left, h.options()...)
	if err != nil {
		return nil, err
	}
	if !s.keep(conn) {
		conn.Close()
		return nil, errCut
	}
	if err := conn.Patience(left); err != nil {
		s.close(conn)
		return nil, err
	}
	return conn, nil
}

// greet connects to the server by TCP and tells it what the connection is for.
func (s *strand) greet(h hello) (*socket.Socket, error) {
	conn, err := s.dial(workload.TCP, h)
	if err != nil {
		return nil, err
	}
	if err := writeLine(conn, h); err != nil {
		s.close(conn)
		return nil, err
	}
	return conn, nil
}

// accept has the server connect to this end, as uperf's accept.
func (s *strand) accept(h hello) (data, control *socket.Socket, err error) {
	proto, at := workload.TCP, netip.IPv4Unspecified()
	if h.datagrams() {
		proto = workload.UDP
	}
	if s.Target.Addr().Is6() {
		at = netip.IPv6Unspecified()
	}
	l, err := socket.Listen(proto, netip.AddrPortFrom(at, 0), h.options()...)
	if err != nil {
		return nil, nil, err
	}
	if !s.keep(l) {
		l.Close()
		return nil, nil, errCut
	}
	own, err := l.Local()
	if err == nil {
		h.Back = own.Port()
		control, err = s.greet(h)
	}
	if err == nil {
		err = l.Patience(s.whole())
	}
	switch {
	case err != nil:
	case h.datagrams():
		if err = hear(l, control, h.Token); err == nil {
			data, err = l, expectReady(control)
		}
	default:
		data, err = s.take(l, control)
	}
	if err == nil && h.datagrams() {
		return data, control, nil
	}
	s.drop(l, control)
	return data, nil, err
}

// take accepts what the server connects by TCP, which it has done before it says so.
func (s *strand) take(l, control *socket.Socket) (*socket.Socket, error) {
	if err := expectReady(control); err != nil {
		return nil, err
	}
	data, err := l.Accept()
	if err != nil {
		return nil, err
	}
	if !s.keep(data) {
		data.Close()
		return nil, errCut
	}
	if err := data.Patience(s.whole()); err != nil {
		s.close(data)
		return nil, err
	}
	return data, nil
}
