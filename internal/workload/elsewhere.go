package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/topo"
)

// ErrElsewhere: a pod is on another kernel, in a virtual machine, where programs
// run and functions of this process do not.
var ErrElsewhere = errors.New("the pod is in a virtual machine, on a kernel of its own")

// Elsewhere reports whether the pod is on another kernel, which has files and a
// clock of its own.
func Elsewhere(g Ground, pod topo.Pod) bool {
	return errors.Is(g.Do(pod, func() error { return nil }), ErrElsewhere)
}

// ShareDir makes the directory also where the pod is, and Fetch brings a file from
// there to the same path here. Where the pod is on this kernel they do nothing.
func ShareDir(ctx context.Context, g Ground, pod topo.Pod, dir string) error {
	if !Elsewhere(g, pod) {
		return nil
	}
	if _, err := g.Exec(ctx, pod, "mkdir", "-p", dir); err != nil {
		return fmt.Errorf("make directory for pod %s: %w", pod.Name, err)
	}
	return nil
}

// Fetch: see ShareDir.
func Fetch(ctx context.Context, g Ground, pod topo.Pod, path string) error {
	if !Elsewhere(g, pod) {
		return nil
	}
	res, err := g.Exec(ctx, pod, "cat", path)
	if err != nil {
		return fmt.Errorf("fetch %s from pod %s: %w", path, pod.Name, err)
	}
	if err := os.WriteFile(path, res.Stdout, 0o600); err != nil {
		return fmt.Errorf("keep %s of pod %s: %w", path, pod.Name, err)
	}
	return nil
}

// aheadVariable tells a program on another kernel than the one who started it how
// many nanoseconds that one's monotonic clock is ahead of its own.
const aheadVariable = "PATHWISE_CLOCK_AHEAD"

// Ahead is the variable, as NAME=VALUE, by which a program's Monotonic becomes that
// of a kernel whose clock is so far ahead of its own.
func Ahead(d time.Duration) string { return aheadVariable + "=" + strconv.FormatInt(int64(d), 10) }

// Until tells when a window begins, at being a time of Monotonic, by the process's
// own clock. It fails once the window has begun: what a generator missed of it would
// be taken for what the network did not carry.
func Until(at time.Duration) (time.Time, error) {
	now, err := Monotonic()
	if err != nil {
		return time.Time{}, err
	}
	if late := now - at; late > 0 {
		return time.Time{}, fmt.Errorf("start generator: %v after the window began: the machine is too busy",
			late.Round(time.Millisecond))
	}
	return time.Now().Add(at - now), nil
}

// Monotonic is a time that processes share, also on different kernels: the monotonic
// clock of the kernel on which the run is conducted. So a generator and the one who
// accounts for CPU time mean the same window.
func Monotonic() (time.Duration, error) {
	now, err := Kernel()
	if text := os.Getenv(aheadVariable); err == nil && text != "" {
		ahead, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil {
			return 0, fmt.Errorf("read %s: %w", aheadVariable, bad)
		}
		now += time.Duration(ahead)
	}
	return now, err
}

// Kernel is the monotonic clock of this process's kernel.
func Kernel() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// Clocked is a Ground some of whose pods are on another kernel.
type Clocked interface {
	// Clock is how far this kernel's monotonic clock is ahead of the pod's.
	Clock(pod topo.Pod) time.Duration
}

// ClockOf is how far this kernel's monotonic clock is ahead of the pod's, which a
// program that knows nothing of Pathwise shows.
func ClockOf(g Ground, pod topo.Pod) time.Duration {
	if c, ok := g.(Clocked); ok {
		return c.Clock(pod)
	}
	return 0
}
