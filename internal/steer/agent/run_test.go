package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// TestRunEndsAtOnce: an agent that is told to end when it has hardly begun ends what
// runs alongside its loop before it closes what that uses.
func TestRunEndsAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: eBPF")
	}
	pins := t.TempDir()
	if err := unix.Mount("bpf", pins, "bpf", 0, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(pins, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	cgroup, err := telemetry.CgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		a, err := New(Config{Host: "h", Keys: oneKey("a key of the test, 32 octets wide"), PinDir: filepath.Join(pins, "h"),
			Cgroup: cgroup,
			Policy: &wish{}, Log: slog.New(slog.DiscardHandler), Source: func() (Cluster, error) {
				return Cluster{Hosts: []topo.Host{{Name: "h", Index: 1}},
					Pods: []topo.Pod{{Name: "agent-h", Host: 1, UID: "u", Agent: true}}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c, err := telemetry.Attach(cgroup, filepath.Join(pins, "h", "telemetry"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
}
