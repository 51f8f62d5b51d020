package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
)

// Cgroups returns the directories that exist for the cgroup called path, in
// every hierarchy of version 1 and in version 2's, those inside others first:
// the order in which rmdir takes them once no process is left.
func Cgroups(path string) []string {
	if !safe(path) {
		return nil
	}
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for _, mount := range cgroupMounts(raw) {
		var found []string
		walk := func(p string, d fs.DirEntry, err error) error {
			// What cannot be read, or went meanwhile, is not there to be removed.
			if err == nil && d.IsDir() {
				found = append(found, p)
			}
			return nil
		}
		_ = filepath.WalkDir(filepath.Join(mount, path), walk) // walk returns no error
		slices.Reverse(found)
		out = append(out, found...)
	}
	return out
}

// dying is how long the last process of a cgroup may take to end once it was killed: one
// with gigabytes of memory, such as a virtual machine, gives them back first, and on a
// busy machine it waits for a processor to do so.
const dying = 15 * time.Second

// RemoveCgroups removes the cgroup called path from every hierarchy. A cgroup stays busy
// until the last process that was killed in it has ended, so it tries until then.
func RemoveCgroups(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, dying)
	defer cancel()
	return network.Poll(ctx, 10*time.Millisecond, func() error {
		var errs []error
		for _, dir := range Cgroups(path) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
			}
		}
		return errors.Join(errs...)
	})
}

// Processes lists the processes in the cgroup called path and in those below
// it, those that this process cannot see in its own PID namespace excepted.
func Processes(path string) []int {
	var out []int
	for _, dir := range Cgroups(path) {
		raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // gone meanwhile; or the controllers are threads' (cgroup-v2.rst), whose processes stand above
		}
		for line := range strings.Lines(string(raw)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(out, pid) {
				out = append(out, pid)
			}
		}
	}
	return out
}

// safe reports whether path names one cgroup below the root: everything under
// the root is everybody's.
func safe(path string) bool {
	return strings.HasPrefix(path, "/") && path != "/" && filepath.Clean(path) == path
}

// cgroupMounts returns where cgroup hierarchies are mounted, from the text of
// /proc/PID/mountinfo (proc_pid_mountinfo(5)).
func cgroupMounts(raw []byte) []string {
	var out []string
	// No scanner: it stops at a line that is longer than it expects.
	for line := range bytes.Lines(raw) {
		// ID parent major:minor root mountpoint options [tags...] - type source options
		head, tail, ok := strings.Cut(string(line), " - ")
		front, kind := strings.Fields(head), strings.Fields(tail)
		if !ok || len(front) < 5 || len(kind) < 1 || (kind[0] != "cgroup" && kind[0] != "cgroup2") {
			continue
		}
		if mount := front[4]; strings.HasPrefix(mount, "/") && !slices.Contains(out, mount) {
			out = append(out, mount)
		}
	}
	return out
}
