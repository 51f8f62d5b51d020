// Package memory keeps an agent small: it collects early, and gives the kernel back what the
// start alone has needed. It is no cache and no limit: what an agent keeps is for those who
// keep it.
package memory

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// collectAt is by how many percent memory grows before it is collected, unless GOGC says it: an agent is on every
// node, and nearly all that it keeps is what it was told of others. To collect it sooner than by default takes
// some thousandths of a core, in a cluster of 1,000 nodes with ten changes in a second.
const collectAt = 30

// Settled is how long after an agent has read its cluster it has done what is done once.
const Settled = 10 * time.Second

// Frugal has memory be collected early.
func Frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// GiveBack gives the kernel back what the start alone has needed, once that is over or as ctx ends: memory, and the
// program's own pages, of which the start reads twice as many as all that follows. Those that are needed again
// are read again, from the page cache.
func GiveBack(ctx context.Context, after time.Duration) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(after):
	}
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("find the program's pages: %w", err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	for _, m := range unchanged(string(maps), exe) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give the program's pages back: %w", errno)
		}
	}
	return nil
}

// mapping is a part of a process's memory.
type mapping struct{ from, to uintptr }

// unchanged are the parts of a process, as in /proc/pid/smaps, that are a file's, as they are there. What may be
// written is not, nor what was before it was protected: of a position-independent program, as distributions build
// them, the relocated pages (RELRO), which would be lost.
func unchanged(maps, file string) (out []mapping) {
	var m mapping
	ours := false
	for line := range strings.Lines(maps) {
		var of mapping
		var perms, offset, dev, inode, name string
		var own int
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s %s", &of.from, &of.to, &perms, &offset, &dev, &inode, &name); n >= 6 {
			m, ours = of, name == file && !strings.Contains(perms, "w")
		} else if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &own); n == 1 && ours && own == 0 {
			out = append(out, m)
		} else if n, _ := fmt.Sscanf(line, "Swap: %d kB", &own); n == 1 && own > 0 {
			out = slices.DeleteFunc(out, func(x mapping) bool { return x == m })
		}
	}
	return out
}
