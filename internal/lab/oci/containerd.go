package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"pathwise.dev/pathwise/internal/lab/network"
)

// ContainerdNeeds is what the machine must have for a Daemon to work. Its client
// is the command ctr, which comes with it: the Go client would be larger than
// all else that Pathwise links.
func ContainerdNeeds() []network.Need {
	return []network.Need{network.NeedProgram("containerd", "containerd"), network.NeedProgram("ctr", "containerd"),
		network.NeedProgram("containerd-shim-runc-v2", "containerd"), network.NeedProgram("unshare", "util-linux"),
		network.NeedProgram("mount", "mount")}
}

// Daemon is a containerd of a lab's own, alongside that of the machine.
type Daemon struct {
	// Dir holds its state, its socket and its configuration.
	Dir string
}

// ShimDir is where containerd's shims have their sockets; no option moves it.
// The daemon has one of its own mounted there, for which the directory must be.
const ShimDir = "/run/containerd"

// apart starts a program in a mount namespace of its own with a directory of
// its own at ShimDir. Later mounts, such as those of network namespaces, still come.
const apart = `set -e
mkdir -p ` + ShimDir + `
mount -n -t tmpfs -o mode=711 pathwise ` + ShimDir + `
exec "$@"
`

// Command writes the configuration and returns the command that runs the daemon.
func (d Daemon) Command() ([]string, error) {
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart"]
[grpc]
address = %q
`, filepath.Join(d.Dir, "root"), filepath.Join(d.Dir, "state"), d.socket())
	config := filepath.Join(d.Dir, "config.toml")
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return []string{"unshare", "--mount", "--propagation", "slave", "sh", "-c", apart, "sh", "containerd", "--config",
		config, "--log-level", "warn"}, nil
}

func (d Daemon) socket() string { return filepath.Join(d.Dir, "sock") }

// Ready returns nil once the daemon answers.
func (d Daemon) Ready(ctx context.Context) error { return d.ctr(ctx, "version") }

// Start creates and starts the container by containerd, with runc below it, and
// returns when containerd says that it runs.
func (d Daemon) Start(ctx context.Context, c Container) error {
	if err := writeBundle(c); err != nil {
		return fmt.Errorf("start container %s: %w", c.ID, err)
	}
	err := d.ctr(ctx, "run", "--detach", "--null-io", "--config", filepath.Join(c.Dir, "config.json"), c.ID)
	if err != nil {
		return fmt.Errorf("start container %s: %w", c.ID, err)
	}
	return nil
}

// ctr runs the client.
func (d Daemon) ctr(ctx context.Context, args ...string) error {
	path, err := network.FindProgram("ctr")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--address", d.socket(), "--namespace", "pathwise"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		const most = 400
		text := strings.Join(strings.Fields(string(out)), " ")
		return fmt.Errorf("run ctr %s: %w: %s", args[0], err, text[max(0, len(text)-most):])
	}
	return nil
}
