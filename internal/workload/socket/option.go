package socket

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Option sets something of a socket before it connects or listens.
type Option func(*Socket) error

// Congestion asks for TCP's congestion control of that name. It is no method, as it
// must be set before the connection is there: BBR turns pacing on when it begins,
// and a connection that leaves it is paced for ever (sk_pacing_status).
func Congestion(name string) Option {
	return func(s *Socket) error {
		err := unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("this kernel has none of that name: %w", err)
		}
		if err != nil {
			return fmt.Errorf("use congestion control %s: %w", name, err)
		}
		return nil
	}
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
