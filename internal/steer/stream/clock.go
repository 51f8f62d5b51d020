package stream

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_MONOTONIC without a system call: Go's own reading of it,
// which comes from the vDSO, and the difference of the two.
type clock struct {
	base   time.Time
	offset time.Duration
}

func newClock() (clock, error) {
	c := clock{base: time.Now()}
	best := time.Duration(-1)
	for range 9 {
		before := time.Since(c.base)
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return c, fmt.Errorf("read monotonic clock: %w", err)
		}
		after := time.Since(c.base)
		// The reading that was disturbed least.
		if took := after - before; best < 0 || took < best {
			best, c.offset = took, time.Duration(ts.Nano())-before-took/2
		}
	}
	return c, nil
}

// now is the time since boot.
func (c clock) now() time.Duration { return c.offset + time.Since(c.base) }

// of is the monotonic time of t, which has Go's monotonic reading.
func (c clock) of(t time.Time) time.Duration { return c.offset + t.Sub(c.base) }

// moment is now on both clocks.
func (c clock) moment() Moment {
	t := time.Now()
	return Moment{Wall: t.Round(0), Monotonic: c.of(t)}
}

// pacer waits for given moments on a thread of its own. Go's timers may be a
// millisecond late, because its poller sleeps in whole ones.
type pacer struct {
	clock clock
	busy  bool
	ts    unix.Timespec
}

// newPacer makes the calling thread sleep exactly. The caller has locked its
// goroutine to the thread and never unlocks it, so that it dies with it.
func newPacer(c clock, busy bool) (*pacer, error) {
	// Else the kernel adds up to 50 us to each sleep (prctl(2), PR_SET_TIMERSLACK).
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("set timer slack: %w", err)
	}
	return &pacer{clock: c, busy: busy}, nil
}

// nap is how often a sleeping pacer looks whether it should stop.
const nap = 20 * time.Millisecond

// until returns at time t, or false when ctx has ended.
func (p *pacer) until(ctx context.Context, t time.Duration) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		now := p.clock.now()
		if now >= t {
			return true
		}
		if p.busy {
			for spin := min(t, now+nap); p.clock.now() < spin; {
			}
			continue
		}
		p.sleep(min(t, now+nap), t-now)
	}
}

// moments are sleeps in which the Go scheduler is not told that the thread is
// in the kernel: else its monitor takes the processor away after 20 us and gives
// it back after each sleep, which costs more than sending a packet does.
const moments = 200 * time.Microsecond

// sleep sleeps until t, for d, or until a signal interrupts it; the caller looks
// at the clock again.
func (p *pacer) sleep(t, d time.Duration) {
	p.ts = unix.NsecToTimespec(int64(t))
	if d > moments {
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &p.ts, nil)
		return
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&p.ts)), 0, 0, 0)
}
