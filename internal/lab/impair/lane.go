package impair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/program"
)

// lane is one direction of a delay line.
type lane struct {
	dir  way
	wire wire
	tap  *tap
	// bell is an eventfd that ends run.
	bell int

	mu  sync.Mutex // guards law and diversion against orders
	law law

	queue holding
	shelf shelf

	passed, held, lost atomic.Uint64
}

// roomOfLine bounds what a direction holds, in bytes: 80 ms at 10 Gbit/s.
const roomOfLine = 100 << 20

func newLane(w wire, dir way, rnd *rand.Rand) (*lane, error) {
	t, err := openTap(w.mtu)
	if err != nil {
		return nil, err
	}
	if err := t.join(w, w.hook(dir)); err != nil {
		return nil, errors.Join(err, t.close())
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make eventfd: %w", err), t.close())
	}
	return &lane{dir: dir, wire: w, tap: t, bell: bell, law: law{rnd: rnd}}, nil
}

// order sets what happens to packets from now on; nil leaves them alone.
func (l *lane) order(h *Hold) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h == nil {
		return l.tap.letGo()
	}
	l.law.Hold = *h
	return l.tap.divert(l.wire, l.dir)
}

func (l *lane) counts() Counts {
	return Counts{Passed: l.passed.Load(), Held: l.held.Load(), Lost: l.lost.Load()}
}

// end makes run end: nothing more comes in, and what is held goes on at once.
func (l *lane) end() error {
	err := l.order(nil)
	if _, bell := unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}); bell != nil {
		return errors.Join(err, bell)
	}
	return err
}

// close gives back what run, which has ended, worked with.
func (l *lane) close() error { return errors.Join(l.tap.close(), unix.Close(l.bell)) }

// run moves packets until end. It has a thread of its own, which sleeps until a
// packet comes or is due.
func (l *lane) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Without, the kernel may add 50 us to every sleep.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	buf := make([]byte, largeFrame)
	fds := []unix.PollFd{{Fd: int32(l.tap.fd), Events: unix.POLLIN}, {Fd: int32(l.bell), Events: unix.POLLIN}}
	for {
		now := program.Kernel()
		l.release(now)
		var limit *unix.Timespec
		if due, ok := l.queue.next(); ok {
			ts := unix.NsecToTimespec(int64(due - now))
			limit = &ts
		}
		if _, err := unix.Ppoll(fds, limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for packets: %w", err)
		}
		n, err := l.fill(buf)
		if fds[1].Revents == 0 {
			if err != nil {
				return err
			}
			continue
		}
		for n > 0 {
			n, _ = l.fill(buf) // the tap may have gone: that is an end too
		}
		l.release(1<<63 - 1)
		return nil
	}
}

// fill takes in what has come, but no more than a few at a time: what is due in
// the meantime has to go.
func (l *lane) fill(buf []byte) (taken int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for taken < 64 {
		n, err := unix.Read(l.tap.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return taken, nil
		} else if err != nil {
			return taken, fmt.Errorf("read packet: %w", err)
		}
		taken++
		due, ok := l.law.due(program.Kernel(), n-virtioHeader)
		if !ok || l.queue.bytes+n > roomOfLine {
			l.lost.Add(1)
			continue
		}
		l.queue.add(due, l.shelf.copyOf(buf[:n]))
		l.held.Add(1)
	}
	return taken, nil
}

// release sends on what is due.
func (l *lane) release(now time.Duration) {
	for due, ok := l.queue.next(); ok && due <= now; due, ok = l.queue.next() {
		frame := l.queue.take()
		l.held.Add(^uint64(0))
		// What the wire does not take is lost, as on a wire that has gone down.
		if _, err := unix.Write(l.tap.fd, frame); err != nil {
			l.lost.Add(1)
		} else {
			l.passed.Add(1)
		}
		l.shelf.back(frame)
	}
}
