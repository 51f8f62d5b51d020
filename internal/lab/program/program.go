// Package program says what a program that ran in a pod left: its output, what it
// used, how it failed, and by which clock it went. Labs run programs, workloads ask
// for them; both speak of them in these words.
//
// It runs nothing itself.
package program

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what a finished program left.
type Result struct {
	Stdout []byte
	// User and System are the CPU time of the program and its children.
	User, System time.Duration
	Wall         time.Duration
}

// Error is a program that did not end well.
type Error struct {
	Argv []string
	// Stderr is the end of what it wrote there.
	Stderr string
	Err    error
}

func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("run %s: %v", e.Argv[0], e.Err)
	}
	return fmt.Sprintf("run %s: %v: %s", e.Argv[0], e.Err, e.Stderr)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrElsewhere: a pod is on another kernel, in a virtual machine, where programs
// run and functions of this process do not.
var ErrElsewhere = errors.New("the pod is in a virtual machine, on a kernel of its own")

// aheadVariable tells a program on another kernel than the one who started it how
// many nanoseconds that one's monotonic clock is ahead of its own.
const aheadVariable = "PATHWISE_CLOCK_AHEAD"

// Ahead is the variable, as NAME=VALUE, by which a program's Monotonic becomes that
// of a kernel whose clock is so far ahead of its own.
func Ahead(d time.Duration) string { return aheadVariable + "=" + strconv.FormatInt(int64(d), 10) }

// Monotonic is a time that processes share, also on different kernels: the monotonic
// clock of the kernel on which the run is conducted. So a generator and the one who
// accounts for CPU time mean the same window.
func Monotonic() (time.Duration, error) {
	text := os.Getenv(aheadVariable)
	if text == "" {
		return Kernel(), nil
	}
	ahead, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", aheadVariable, err)
	}
	return Kernel() + time.Duration(ahead), nil
}

// Kernel is the monotonic clock of this process's kernel, CLOCK_MONOTONIC, as eBPF
// programs read it too.
func Kernel() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: every kernel has this clock
	return time.Duration(ts.Nano())
}
