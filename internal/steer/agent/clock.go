package agent

import (
	"context"
	"log/slog"
	"time"
)

// The agent's time is its configuration's, Now, and that of the kernel, by which the data
// plane dates packets. Nothing else here reads a clock.

// clock tells the kernel's times, CLOCK_MONOTONIC, by the agent's clock.
type clock struct {
	kernel func() time.Duration
	now    time.Time
	mono   time.Duration
}

func newClock(now time.Time, kernel func() time.Duration) clock { return clock{kernel, now, kernel()} }

func (c clock) at(mono time.Duration) time.Time {
	if mono == 0 {
		return time.Time{} // never
	}
	return c.now.Add(mono - c.mono)
}

// clocked has a clock and a log.
func (c Config) clocked() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// each calls fn once in every period until ctx ends. All that have one period do so at one time: a process that wakes
// seldom costs less than one that does as much in as many wakes (Go's monitor runs for a while after each).
func each(ctx context.Context, period time.Duration, fn func()) error {
	return eachOr(ctx, period, nil, fn)
}

// eachOr is each, and also calls fn at once when something comes on early.
func eachOr(ctx context.Context, period time.Duration, early <-chan struct{}, fn func()) error {
	now := time.Now()
	tick := time.NewTicker(now.Truncate(period).Add(period).Sub(now))
	defer tick.Stop()
	for together := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !together {
				tick.Reset(period)
				together = true
			}
			fn()
		case <-early:
			fn()
		}
	}
}
