package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

var errBroken = errors.New("broken")

// forever is a member that ends with its context, as a killed program does.
func forever(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		conduct func(ctx context.Context, crew *Crew) error
		want    string // "" for success
	}{
		"nobody": {func(context.Context, *Crew) error { return nil }, ""},
		"what serves is dismissed": {func(_ context.Context, c *Crew) error {
			c.Serve("server", forever)
			return nil
		}, ""},
		"the conductor fails": {func(_ context.Context, c *Crew) error {
			c.Serve("server", forever)
			return errBroken
		}, "broken"},
		"a member fails, and the conductor only because of it": {func(ctx context.Context, c *Crew) error {
			c.Go(func(context.Context) error { return errBroken })
			return SleepUntil(ctx, time.Now().Add(time.Hour))
		}, "broken"},
		"a server ends well, but early": {func(ctx context.Context, c *Crew) error {
			c.Serve("server", func(context.Context) error { return nil })
			return SleepUntil(ctx, time.Now().Add(time.Hour))
		}, "server ended early"},
		"a server ends early with a reason": {func(ctx context.Context, c *Crew) error {
			c.Serve("server", func(context.Context) error { return errBroken })
			return SleepUntil(ctx, time.Now().Add(time.Hour))
		}, "server ended early: broken"},
		"a member that is waited for fails": {func(ctx context.Context, c *Crew) error {
			return c.Go(func(context.Context) error { return errBroken }).Wait(ctx)
		}, "broken"},
		"a member that is waited for ends well": {func(ctx context.Context, c *Crew) error {
			return c.Go(func(context.Context) error { return nil }).Wait(ctx)
		}, ""},
	} {
		begun := time.Now()
		err := Together(t.Context(), tc.conduct)
		switch {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || err.Error() != tc.want):
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// TestTogetherWaits: nothing of the crew runs when Together has returned.
func TestTogetherWaits(t *testing.T) {
	var running atomic.Int32
	slow := func(ctx context.Context) error {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	_ = Together(t.Context(), func(ctx context.Context, c *Crew) error {
		c.Serve("slow", slow)
		c.Go(slow)
		for running.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if n := running.Load(); n != 0 {
		t.Errorf("%d members still run", n)
	}
}

func TestTogetherEndsWithItsContext(t *testing.T) {
	reason := errors.New("the user is tired")
	for name, tc := range map[string]struct {
		end  func() (context.Context, context.CancelFunc)
		want []error
	}{
		"cancelled": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		}, []error{context.Canceled}},
		"out of time, with a cause": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(t.Context(), 10*time.Millisecond, reason)
		}, []error{context.DeadlineExceeded, reason}},
	} {
		ctx, cancel := tc.end()
		err := Together(ctx, func(ctx context.Context, c *Crew) error {
			c.Serve("server", forever)
			return c.Go(forever).Wait(ctx)
		})
		cancel()
		for _, want := range tc.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want that it is %v", name, err, want)
			}
		}
	}
}

type told []string

func (t *told) Begin() { *t = append(*t, "begin") }
func (t *told) End()   { *t = append(*t, "end") }

func TestMeasure(t *testing.T) {
	var m told
	at := time.Now().Add(20 * time.Millisecond)
	span, err := Measure(t.Context(), at, 50*time.Millisecond, &m)
	if err != nil || !slices.Equal(m, told{"begin", "end"}) {
		t.Fatalf("%v, told %v", err, m)
	}
	if early := at.Sub(span.Begin); early > 0 || span.End.Sub(span.Begin) < 50*time.Millisecond {
		t.Errorf("window %v to %v, asked for %v and 50 ms", span.Begin, span.End, at)
	}
	m = nil
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	if _, err := Measure(ctx, at, time.Hour, &m); !errors.Is(err, errBroken) || len(m) > 1 {
		t.Errorf("got %v, told %v", err, m)
	}
}

// TestMeasureRefuses a window that is over.
func TestMeasureRefuses(t *testing.T) {
	var m told
	if _, err := Measure(t.Context(), time.Now().Add(-time.Second), 200*time.Millisecond, &m); err == nil || len(m) > 0 {
		t.Errorf("%v, told %v", err, m)
	}
}

func TestExecErrorSaysWhatRan(t *testing.T) {
	err := &program.Error{Argv: []string{"iperf3", "-s"}, Stderr: "no such port", Err: errBroken}
	if got := err.Error(); !strings.Contains(got, "iperf3") || !strings.Contains(got, "no such port") ||
		!errors.Is(err, errBroken) {
		t.Errorf("got %q", got)
	}
}
