package socket

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Local is the socket's own address and port.
func (s *Socket) Local() (netip.AddrPort, error) { return named(unix.Getsockname(s.fd)) }

// Peer is that of the other end.
func (s *Socket) Peer() (netip.AddrPort, error) { return named(unix.Getpeername(s.fd)) }

func named(sa unix.Sockaddr, err error) (netip.AddrPort, error) {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("read address of socket: %w", err)
}

// Buffers sets the size of the socket's buffers in bytes, of which the kernel
// gives the double, for its own needs, and no more than net.core.*mem_max.
func (s *Socket) Buffers(n int) error {
	err := errors.Join(unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, n))
	if err != nil {
		return fmt.Errorf("set buffers: %w", err)
	}
	return nil
}
