package telemetry

import (
	"strings"
	"testing"
)

// FuzzCgroupRoot: of any table of mounts, the place is that of a line, or there is none.
func FuzzCgroupRoot(f *testing.F) {
	f.Add("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	f.Add("proc /proc proc rw 0 0\nx /a\\040b\\134 cgroup2")
	f.Add("overlay / overlay lowerdir=" + strings.Repeat("/var/lib/x:", 10000) + "\ncgroup2 /c cgroup2 rw")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := cgroupRoot(strings.NewReader(text))
		if err == nil && (root == "" || len(root) > len(text) || !strings.Contains(text, "cgroup2")) {
			t.Errorf("%q: found %q", text, root)
		}
	})
}

// TestCgroupRootBehindLongLines: a container's root with hundreds of layers is one line.
func TestCgroupRootBehindLongLines(t *testing.T) {
	root, err := cgroupRoot(strings.NewReader("overlay / overlay lowerdir=" + strings.Repeat("/var/lib/x:", 10000) +
		"\ncgroup2 /c cgroup2 rw"))
	if root != "/c" || err != nil {
		t.Errorf("got %q, %v", root, err)
	}
}
