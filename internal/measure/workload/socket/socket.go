// Package socket is blocking TCP and UDP sockets for load generators. Go's own
// connections wait in the runtime's poller, which wakes a thread by way of
// another: that adds microseconds to each round trip, and with hundreds of
// connections on few CPUs a multiple of the latency. netperf, sockperf and
// iperf3 block in the kernel, and so do these.
//
// It is no replacement for package net: it knows addresses, not names, and one
// that uses it needs a thread for each socket; see Threads.
package socket

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload"
)

// Socket is one socket. Its methods keep their thread until they are done.
type Socket struct {
	fd int
	// mu keeps Hangup from a file descriptor that Close has given back.
	mu     sync.Mutex
	closed bool
}

// Threads gives the runtime room for n goroutines that block in the kernel at
// once, and some that do not. Without it one that wakes up waits for a
// processor of the runtime that another has not given back yet. It is for
// programs that do nothing else.
func Threads(n int) {
	const others = 2
	runtime.GOMAXPROCS(max(runtime.NumCPU(), n) + others)
}

// Dial connects to target within the given time, which also bounds each Write.
func Dial(proto workload.Proto, target netip.AddrPort, within time.Duration, options ...Option) (*Socket, error) {
	family, to := address(target)
	s, err := open(proto, family)
	if err != nil {
		return nil, err
	}
	if err := s.set(options); err != nil {
		s.Close()
		return nil, err
	}
	// Bounds connect as well (socket(7)).
	limit := unix.NsecToTimeval(max(within, time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		s.Close()
		return nil, fmt.Errorf("set timeout: %w", err)
	}
	for {
		switch err := unix.Connect(s.fd, to); err {
		case nil:
			return s, nil
		case unix.EINTR:
		case unix.EINPROGRESS, unix.EALREADY:
			s.Close()
			return nil, os.ErrDeadlineExceeded
		default:
			s.Close()
			return nil, err
		}
	}
}

// Listen opens a socket on the address. It takes both IPv4 and IPv6 where the
// address is unspecified. What its options and methods set, those that it
// accepts inherit.
func Listen(proto workload.Proto, addr netip.AddrPort, options ...Option) (*Socket, error) {
	family, at := address(addr)
	s, err := open(proto, family)
	if err == unix.EAFNOSUPPORT && addr.Addr().IsUnspecified() { // a kernel without IPv6
		family, at = address(netip.AddrPortFrom(netip.IPv4Unspecified(), addr.Port()))
		s, err = open(proto, family)
	}
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	if proto != workload.UDP {
		err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = s.set(options)
	}
	if err == nil {
		err = unix.Bind(s.fd, at)
	}
	if err == nil && proto != workload.UDP {
		err = unix.Listen(s.fd, unix.SOMAXCONN)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return s, nil
}

func open(proto workload.Proto, family int) (*Socket, error) {
	kind := unix.SOCK_STREAM
	if proto == workload.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Socket{fd: fd}, nil
}

func address(a netip.AddrPort) (family int, to unix.Sockaddr) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// Accept waits for a connection; Patience bounds it.
func (s *Socket) Accept() (*Socket, error) {
	for {
		// Not that of package unix, which asks for the protocol of every address
		// (SO_PROTOCOL), one more system call.
		fd, _, err := syscall.Accept4(s.fd, unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			return &Socket{fd: fd}, nil
		case unix.EAGAIN:
			return nil, os.ErrDeadlineExceeded
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return nil, err
		}
	}
}

// Undelayed turns Nagle's algorithm off.
func (s *Socket) Undelayed() error {
	return unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// Patience bounds each Read from here on; one that takes longer fails with
// os.ErrDeadlineExceeded.
func (s *Socket) Patience(d time.Duration) error {
	limit := unix.NsecToTimeval(max(d, time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return fmt.Errorf("set timeout: %w", err)
	}
	return nil
}

// Unbound takes the bound of Patience away.
func (s *Socket) Unbound() error {
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{}); err != nil {
		return fmt.Errorf("clear timeout: %w", err)
	}
	return nil
}

// Read implements io.Reader.
func (s *Socket) Read(p []byte) (int, error) {
	for {
		n, err := transfer(unix.SYS_RECVFROM, s.fd, p)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write implements io.Writer.
func (s *Socket) Write(p []byte) (int, error) {
	sent := 0
	if len(p) <= little {
		if sent = s.tryWrite(p); sent == len(p) {
			return sent, nil
		}
	}
	for {
		n, err := transfer(unix.SYS_SENDTO, s.fd, p[sent:])
		sent += max(n, 0)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return sent, os.ErrDeadlineExceeded
		case err != nil:
			return sent, err
		case sent == len(p):
			return sent, nil
		}
	}
}

// little is what a socket's buffer nearly always has room for.
const little = 2 << 10

// tryWrite writes what there is room for without waiting, of which the runtime
// need not be told: of a round trip on one core that takes 1 %.
func (s *Socket) tryWrite(p []byte) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// transfer calls recv or send, as netperf and sockperf do, which are shorter ways
// through the kernel than read and write: no checks of a file's. Package unix
// offers them only with an address to read or write.
func transfer(call uintptr, fd int, p []byte) (int, error) {
	n, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// ReadFrom takes one datagram and its sender.
func (s *Socket) ReadFrom(p []byte) (int, syscall.Sockaddr, error) {
	for {
		n, from, err := syscall.Recvfrom(s.fd, p, 0) // as in Accept
		if err != unix.EINTR {
			return n, from, err
		}
	}
}

// WriteTo sends one datagram.
func (s *Socket) WriteTo(p []byte, to syscall.Sockaddr) error { return syscall.Sendto(s.fd, p, 0, to) }

// Connect makes a socket for datagrams that of one peer alone.
func (s *Socket) Connect(peer syscall.Sockaddr) error {
	if err := syscall.Connect(s.fd, peer); err != nil {
		return fmt.Errorf("connect socket: %w", err)
	}
	return nil
}

// Hangup makes what another goroutine waits for on the socket return, with an
// error or the end of the stream.
func (s *Socket) Hangup() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // fails where nothing is connected, and wakes all the same
	}
}

// Retransmitted is how many segments TCP has sent again on the connection.
func (s *Socket) Retransmitted() (uint32, error) {
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("read TCP_INFO: %w", err)
	}
	return info.Total_retrans, nil
}

// Close closes it; again is no error. Nobody may be in another method but Hangup.
func (s *Socket) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = unix.Close(s.fd) // what was written is in the kernel's hands
	}
	s.closed = true
}

// CloseWrite tells the other end that no more comes.
func (s *Socket) CloseWrite() error { return unix.Shutdown(s.fd, unix.SHUT_WR) }
