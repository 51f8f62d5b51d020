package limit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// ticks is the CPU time of a process, in USER_HZ, 100 a second.
type ticks uint64

// kernelThread is PF_KTHREAD of linux/sched.h.
const kernelThread = 0x00200000

// readProcesses reads the CPU time of all programs outside the lab's namespaces, but
// for this one. Programs that end before the window does are missed.
func (w *Watch) readProcesses() map[int]ticks {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // the pattern is right
	}
	mine := map[uint64]bool{}
	for _, s := range w.spaces {
		mine[s.Inode] = true
	}
	out := map[int]ticks{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		p, err := parseProcess(raw)
		if err != nil {
			w.unread("processes", err)
			continue
		}
		if in, err := netns.InodeOf(strconv.Itoa(pid)); p.program && err == nil && !mine[in] {
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

// parseProcess reads the text of /proc/PID/stat (proc_pid_stat(5)).
func parseProcess(raw []byte) (p process, err error) {
	// The name in parentheses may hold anything.
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return p, fmt.Errorf("read process: expected a name in parentheses")
	}
	f := strings.Fields(string(raw[end+1:])) // from the third on
	const parent, flags, user, system = 4 - 3, 9 - 3, 14 - 3, 15 - 3
	if len(f) <= system {
		return p, fmt.Errorf("read process: %d fields", len(f)+2)
	}
	bits, err := strconv.ParseUint(f[flags], 10, 64)
	if err != nil {
		return p, fmt.Errorf("read process: flags: %w", err)
	}
	for _, i := range []int{user, system} {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return p, fmt.Errorf("read process: CPU time: %w", err)
		}
		p.used += ticks(n)
	}
	if p.parent, err = strconv.Atoi(f[parent]); err != nil {
		return p, fmt.Errorf("read process: parent: %w", err)
	}
	p.program = bits&kernelThread == 0
	return p, nil
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
