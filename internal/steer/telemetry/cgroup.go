package telemetry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrNoCgroup means that no cgroup v2 hierarchy is mounted, or that a directory
// is not of one.
var ErrNoCgroup = errors.New("no cgroup of version 2")

// CgroupRoot finds the root of the unified hierarchy: /sys/fs/cgroup, or
// elsewhere where controllers of version 1 are in use alongside it.
func CgroupRoot() (string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", fmt.Errorf("open mounts: %w", err)
	}
	defer f.Close()
	return cgroupRoot(f)
}

// cgroupRoot reads a table of mounts (fstab(5), spaces written as \040).
func cgroupRoot(mounts io.Reader) (string, error) {
	lines := bufio.NewScanner(mounts)
	lines.Buffer(nil, 1<<20) // that of an overlay names all its layers
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) >= 3 && f[2] == "cgroup2" {
			return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[1]), nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	return "", ErrNoCgroup
}
