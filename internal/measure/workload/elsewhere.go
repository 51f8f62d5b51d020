package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// Elsewhere reports whether the pod is on another kernel, which has files and a
// clock of its own.
func Elsewhere(g Ground, pod topo.Pod) bool {
	return errors.Is(g.Do(pod, func() error { return nil }), program.ErrElsewhere)
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

// Until tells when a window begins, at being a time of program.Monotonic, by the process's
// own clock. It fails once the window has begun: what a generator missed of it would
// be taken for what the network did not carry.
func Until(at time.Duration) (time.Time, error) {
	now, err := program.Monotonic()
	if err != nil {
		return time.Time{}, err
	}
	if late := now - at; late > 0 {
		return time.Time{}, fmt.Errorf("start generator: %v after the window began: the machine is too busy",
			late.Round(time.Millisecond))
	}
	return time.Now().Add(at - now), nil
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
