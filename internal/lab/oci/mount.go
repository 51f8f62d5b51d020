package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach unmounts what a runc that was killed has left below dir: before it starts a
// container it mounts its own executable there, at runc.XXXXXX, for an instant
// (cloned_binary.c of runc), and a directory with a mount in it cannot be removed.
func Detach(dir string) error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	var errs []error
	for _, at := range runcMounts(string(raw), dir) {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// runcMounts are the mount points of runc's own executable below dir, the latest
// first (proc_pid_mountinfo(5): the fifth field, blanks in octal).
func runcMounts(mountinfo, dir string) (out []string) {
	blanks := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := blanks.Replace(fields[4])
		if strings.HasPrefix(at, dir+"/") && strings.HasPrefix(filepath.Base(at), "runc.") {
			out = append([]string{at}, out...)
		}
	}
	return out
}
