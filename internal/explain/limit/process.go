package limit

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// ticks is the CPU time of a process, in USER_HZ, 100 a second.
type ticks uint64

// kernelThread is PF_KTHREAD of linux/sched.h.
const kernelThread = 0x00200000

// readProcesses reads the CPU time of all programs outside the lab's namespaces, but
// for this one. Programs that end before the window does are missed.
func (w *Watch) readProcesses() map[int]ticks {
	all, err := processes()
	if err != nil {
		w.unread("processes", err)
	}
	mine := map[uint64]bool{}
	for _, s := range w.spaces {
		mine[s.Inode] = true
	}
	out := map[int]ticks{}
	for pid, p := range all {
		if !p.program || pid == os.Getpid() {
			continue
		}
		if in, err := netns.InodeOf(strconv.Itoa(pid)); err == nil && !mine[in] {
			out[pid] = p.used
		}
	}
	return out
}

// process is one as /proc shows it.
type process struct {
	parent int
	used   ticks
	// program: it is no thread of the kernel.
	program bool
}

// processes are those that run now, by their PIDs. The error is of those that could not be read.
func processes() (map[int]process, error) {
	all, err := procfs.AllProcs()
	out := make(map[int]process, len(all))
	for _, p := range all {
		s, failed := p.Stat()
		switch {
		case errors.Is(failed, os.ErrNotExist), errors.Is(failed, unix.ESRCH): // it has ended
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("read process %d: %w", p.PID, failed))
		default:
			out[p.PID] = process{s.PPID, ticks(s.UTime + s.STime), s.Flags&kernelThread == 0}
		}
	}
	return out, err
}

// spent is the CPU time between two readings, in seconds. What is new began in between.
func spent(before, now map[int]ticks) (seconds float64) {
	for pid, z := range now {
		if a := before[pid]; z >= a {
			seconds += float64(z-a) / 100
		}
	}
	return seconds
}
