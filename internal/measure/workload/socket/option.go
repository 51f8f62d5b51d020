package socket

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Option sets something of a socket before it connects or listens.
type Option func(*Socket) error

// Inherit is a descriptor of the socket that programs which this process becomes have too.
func (s *Socket) Inherit() (int, error) {
	fd, err := unix.Dup(s.fd) // a copy has no FD_CLOEXEC (dup(2))
	if err != nil {
		return 0, fmt.Errorf("inherit socket: %w", err)
	}
	return fd, nil
}

// Control sets TCP's congestion control of sockets of package net: see net.Dialer and
// net.ListenConfig.
func Control(congestion string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if bad := c.Control(func(fd uintptr) { err = Congest(int(fd), congestion) }); bad != nil {
			return bad
		}
		return err
	}
}

// Congestion asks for TCP's congestion control of that name; "" leaves the machine's. It
// is no method, as it must be set before the connection is there: BBR turns pacing on when
// it begins, and a connection that leaves it is paced for ever (sk_pacing_status).
func Congestion(name string) Option {
	return func(s *Socket) error { return Congest(s.fd, name) }
}

// Congest is Congestion for a descriptor that is no Socket.
func Congest(fd int, name string) error {
	if name == "" {
		return nil
	}
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("this kernel has none of that name: %w", err)
	}
	if err != nil {
		return fmt.Errorf("use congestion control %s: %w", name, err)
	}
	return nil
}

// CongestionControl is the one that the connection has.
func (s *Socket) CongestionControl() (string, error) {
	name, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return "", fmt.Errorf("read congestion control: %w", err)
	}
	return name, nil
}

// Shared is an Option by which several sockets for datagrams have one port. A
// datagram goes to that which is connected to its sender, or else to the newest.
func Shared(s *Socket) error {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("share port: %w", err)
	}
	return nil
}

// KeepAlive is an Option that ends an idle connection within a minute after its
// peer has gone without a word (tcp(7)): for servers, which would wait for ever.
func KeepAlive(s *Socket) error {
	const idle, interval, probes = 30, 10, 3 // seconds, seconds
	err := errors.Join(unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle),
		unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, interval),
		unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, probes))
	if err != nil {
		return fmt.Errorf("turn keep-alive on: %w", err)
	}
	return nil
}

func (s *Socket) set(options []Option) error {
	for _, set := range options {
		if err := set(s); err != nil {
			return err
		}
	}
	return nil
}
