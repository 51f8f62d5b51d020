package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/topo"
)

// Crew is the programs and watchers of one run, side by side: the first that
// fails ends all the others.
type Crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// errDismissed is the cause of a crew's end that is no failure.
var errDismissed = errors.New("dismissed")

// Together calls conduct with an empty crew. When conduct returns, what still
// runs in the crew is ended; when all of it has, Together returns the first
// failure: a member's, whose reason is better than that of the conductor whom
// it disturbed, conduct's own, or that of ctx.
func Together(ctx context.Context, conduct func(ctx context.Context, crew *Crew) error) error {
	c := &Crew{}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.fail(conduct(c.ctx, c))
	c.cancel(errDismissed)
	c.wg.Wait()
	cause := context.Cause(c.ctx)
	switch err := ctx.Err(); {
	case errors.Is(cause, errDismissed):
		return nil
	case err != nil && !errors.Is(cause, err) && errors.Is(cause, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", err, cause)
	default:
		return cause
	}
}

// fail ends the crew with err, unless it has ended: what is killed then fails too.
func (c *Crew) fail(err error) {
	if err != nil {
		c.cancel(err)
	}
}

// Task is one member of a crew.
type Task struct{ done chan struct{} }

// Go starts a member that ends by itself. Its error ends the crew.
func (c *Crew) Go(fn func(ctx context.Context) error) *Task {
	t := &Task{make(chan struct{})}
	c.wg.Go(func() {
		defer close(t.done)
		c.fail(fn(c.ctx))
	})
	return t
}

// Serve starts a member that lives until the crew is dismissed; that it ends
// earlier is a failure even if it ends well.
func (c *Crew) Serve(name string, fn func(ctx context.Context) error) {
	c.Go(func(ctx context.Context) error {
		if err := fn(ctx); err != nil {
			return fmt.Errorf("%s ended early: %w", name, err)
		}
		return fmt.Errorf("%s ended early", name)
	})
}

// Wait returns when the member has ended well, or with ctx, which is the
// crew's or one derived from it.
func (t *Task) Wait(ctx context.Context) error {
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	// A member that failed has ended the crew before it was done.
	return context.Cause(ctx)
}

// SleepUntil returns at the moment t, or with the cause of ctx when that ends.
func SleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Span is the measured window as it was.
type Span struct{ Begin, End time.Time }

// Measure tells the meter the window's ends: at begin, and duration later. It
// returns when they were told, which is what the figures must be cut to. After
// an error there may have been a beginning without an end.
func Measure(ctx context.Context, begin time.Time, duration time.Duration, m Meter) (Span, error) {
	var s Span
	if err := SleepUntil(ctx, begin); err != nil {
		return s, err
	}
	s.Begin = time.Now()
	m.Begin()
	if err := SleepUntil(ctx, s.Begin.Add(duration)); err != nil {
		return s, err
	}
	m.End()
	s.End = time.Now()
	return s, nil
}

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

// ErrElsewhere: a pod is on another kernel, in a virtual machine, where programs
// run and functions of this process do not.
var ErrElsewhere = errors.New("the pod is in a virtual machine, on a kernel of its own")

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

// Kernel is the monotonic clock of this process's kernel.
func Kernel() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
