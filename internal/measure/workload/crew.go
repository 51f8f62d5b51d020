package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
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

// Ended says whether the member has ended.
func (t *Task) Ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
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

// WaitAll returns when all members have ended well, or when they are due with late as its
// cause.
func WaitAll(ctx context.Context, tasks []*Task, due time.Time, late error) error {
	ctx, cancel := context.WithDeadlineCause(ctx, due, late)
	defer cancel()
	for _, t := range tasks {
		if err := t.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
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

// latest is how late a window may begin, or half of its length if that is more.
// Generators count in the window that was planned, so the load may be over by the
// end of one that begins later.
const latest = 500 * time.Millisecond

// Measure tells the meter the window's ends: at begin, and duration later. It
// returns when they were told, which is what the figures must be cut to. A window
// that cannot begin before it is half over is an error. After an error there may
// have been a beginning without an end.
func Measure(ctx context.Context, begin time.Time, duration time.Duration, m Meter) (Span, error) {
	var s Span
	if err := SleepUntil(ctx, begin); err != nil {
		return s, err
	}
	s.Begin = time.Now()
	if late := s.Begin.Sub(begin); late > max(duration/2, latest) {
		return s, fmt.Errorf("begin window: %v late: the machine is too busy", late.Round(time.Millisecond))
	}
	m.Begin()
	if err := SleepUntil(ctx, s.Begin.Add(duration)); err != nil {
		return s, err
	}
	m.End()
	s.End = time.Now()
	return s, nil
}
