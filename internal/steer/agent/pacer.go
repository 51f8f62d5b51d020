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

// pacer tells when the loop's next turn is due, which what cannot wait makes sooner.
type pacer struct {
	*journal
	alarm *alarm // nil before the loop begins
	lag   lag
	// due is when the next turn is, by the alarm; sooner is by when it is to come at the
	// latest, as the present one has found.
	due    time.Time
	sooner time.Duration
}

// begin begins a turn.
func (c *pacer) begin() { c.sooner = idleTick }

// end ends a turn, and sets the alarm for the next one: within next, or sooner.
func (c *pacer) end(next time.Duration) error {
	now := c.cfg.Now()
	if !c.due.IsZero() {
		c.lag.add(c.due, now)
	}
	next = min(next, c.sooner)
	c.due = now.Add(next)
	return c.alarm.set(next)
}

// soon has the next turn come within d: what begins late in a turn, or apart from the loop,
// does not wait for the turn that was due.
func (c *pacer) soon(d time.Duration) {
	c.sooner = min(c.sooner, d)
	if at := c.cfg.Now().Add(d); at.Before(c.due) && c.alarm != nil {
		c.due = at
		_ = c.alarm.set(d) // closed, there are no more turns
	}
}

// lag remembers how late the loop came to its latest turns, and how long they
// took. What did not come while the loop did not read is no silence: of
// machines that are busy it is the only sign that an agent has by itself.
type lag struct {
	turns [64]turn
	n     int
}

// turn ended at, and that was so much later than it was due.
type turn struct {
	at   time.Time
	late time.Duration
}

// tolerated is what timers and a turn's own work take on a quiet machine.
const tolerated = time.Millisecond

// add tells of a turn that was due, and ended.
func (l *lag) add(due, ended time.Time) {
	l.turns[l.n%len(l.turns)] = turn{ended, ended.Sub(due) - tolerated}
	l.n++
}

// since is the longest lag of a turn that has ended after t. A turn under way
// that was due at due counts as well.
func (l *lag) since(t, due, now time.Time) time.Duration {
	worst := max(now.Sub(due)-tolerated, 0)
	for _, x := range l.turns[:min(l.n, len(l.turns))] {
		if x.at.After(t) {
			worst = max(worst, x.late)
		}
	}
	return worst
}

// late is how late the loop has been since t.
func (c *pacer) late(t, now time.Time) time.Duration {
	due := c.due
	if due.IsZero() {
		due = now
	}
	return c.lag.since(t, due, now)
}

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
