package stream

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawConn reads and writes a connection by system calls of which the Go scheduler is not
// told. It is for round trips in a closed loop: on one machine, a write to a socket does all
// the work of the way to the other end, which may take its turn on the CPU before the write
// has ended. A thread that is in one system call for 20 us has its work handed to another
// by the scheduler's monitor (retake in runtime/proc.go), which then wakes up every 20 us
// for a while. A path that is slower by 1 us
// causes more of that, and so looked slower by 2. The calls do not wait, so that they hold
// nothing up; for readiness, deadlines and Close the runtime's poller does as ever. It is of
// no use where a call may take long.
type rawConn struct {
	raw  syscall.RawConn
	part []byte
	n    int
	err  error

	read, write func(fd uintptr) bool // made once, as an operation is to allocate nothing
}

func newRawConn(conn *net.TCPConn) *rawConn {
	raw, _ := conn.SyscallConn() // fails only where no connection was made
	c := &rawConn{raw: raw}
	c.read = func(fd uintptr) bool { return c.call(unix.SYS_READ, fd) }
	c.write = func(fd uintptr) bool { return c.call(unix.SYS_WRITE, fd) }
	return c
}

// call reads or writes what part has room for, and is false where it would have to wait.
func (c *rawConn) call(trap, fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(c.part))), uintptr(len(c.part)))
		switch errno {
		case 0:
			c.n, c.err = int(n), nil
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			c.n, c.err = 0, errno
			return true
		}
	}
}

// Read implements io.Reader.
func (c *rawConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.part = p
	if err := c.raw.Read(c.read); err != nil {
		return 0, err
	}
	if c.n == 0 && c.err == nil {
		return 0, io.EOF
	}
	return c.n, c.err
}

// Write implements io.Writer.
func (c *rawConn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		c.part = p[done:]
		if err := c.raw.Write(c.write); err != nil {
			return done, err
		}
		if c.err != nil {
			return done, c.err
		}
		done += c.n
	}
	return done, nil
}
