package agent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm wakes the loop, by a timer of the kernel's: while a timer of the runtime's
// is set, its monitor thread (sysmon in runtime/proc.go) sleeps no longer than
// until that one is due, so that each tick wakes two threads, one of them for
// nothing.
type alarm struct {
	file *os.File
	raw  syscall.RawConn
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make timer: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("reach timer: %w", err)
	}
	return a, nil
}

// set has it ring after d, whatever was set before. Any goroutine may.
func (a *alarm) set(d time.Duration) error {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(d.Nanoseconds(), 1))} // 0 would be never
	var failed error
	err := a.raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &at, nil) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}

// wait waits until it rings, or until cancel.
func (a *alarm) wait() error {
	if err := a.raw.Read(func(fd uintptr) bool {
		var times uint64
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&times)), unsafe.Sizeof(times))
		return errno != unix.EAGAIN
	}); err != nil {
		return fmt.Errorf("wait for timer: %w", err)
	}
	return nil
}

// cancel ends the waiting of now and all later ones.
func (a *alarm) cancel() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }

func (a *alarm) close() error { return a.file.Close() }
