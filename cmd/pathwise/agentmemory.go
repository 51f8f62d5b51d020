package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// collectAt is by how many percent memory grows before it is collected, unless GOGC says it: an agent is on every
// node, and nearly all that it keeps is what it was told of others. To collect it sooner than by default takes
// some thousandths of a core.
const collectAt = 40

// settled is how long after an agent has read its cluster it has done what is done once.
const settled = 10 * time.Second

// frugal has memory be collected early.
func frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// giveBack gives the kernel back what the start alone has needed, once that is over or as ctx ends: memory, and the
// program's own pages, of which the start reads twice as many as all that follows. Those that are needed again
// are read again, from the page cache.
func giveBack(ctx context.Context, after time.Duration) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(after):
	}
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/maps")
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

// unchanged are the parts of a process that are a file's, as they are there: what may be written is not.
func unchanged(maps, file string) (out []mapping) {
	for line := range strings.Lines(maps) {
		var m mapping
		var perms, offset, dev, inode, name string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s %s", &m.from, &m.to, &perms, &offset, &dev, &inode, &name); n < 7 {
			continue
		}
		if name == file && !strings.Contains(perms, "w") {
			out = append(out, m)
		}
	}
	return out
}
