// Package oci starts and stops a pod's container with runc: one idle process in
// a network namespace that somebody else made, so that starting a pod costs
// what a container runtime costs.
//
// It knows no images, no layers and no networks: the root file system is empty
// but for the pathwise executable, and attaching the namespace is the lab's
// business.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"pathwise.dev/pathwise/internal/lab/network"
)

// Program is the container runtime.
const Program = "runc"

// Need is what the machine must have for this package to work.
func Need() network.Need { return network.NeedProgram(Program, "runc") }

// Container is one container of a pod.
type Container struct {
	// ID is unique among the containers in Dir's state directory.
	ID string
	// Dir is the container's own directory, new for each start: Start writes the
	// bundle and runc's state into it. Removing it is the caller's business,
	// after Delete.
	Dir string
	// Netns is the path of the network namespace that the container joins.
	Netns string
	// Cgroup is the container's place in every cgroup hierarchy, beginning
	// with a slash. See Cgroups.
	Cgroup string
	// Self is the static pathwise executable, which the container runs as
	// "pathwise generate pause".
	Self string
	// Env is the environment of the container's process.
	Env []string
}

// Start creates and starts the container and returns the process id of its
// init when runc says that it runs. On an error, also of a cancelled ctx,
// nothing is left but Dir.
func Start(ctx context.Context, c Container) (pid int, err error) {
	if !safe(c.Cgroup) {
		return 0, fmt.Errorf("start container %s: cgroup %q: expected an absolute path below the root", c.ID, c.Cgroup)
	}
	if err := writeBundle(c); err != nil {
		return 0, fmt.Errorf("start container %s: %w", c.ID, err)
	}
	defer func() {
		if err == nil {
			return
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), dying)
		defer cancel()
		err = errors.Join(fmt.Errorf("start container %s: %w", c.ID, err), Delete(clean, c))
	}()
	pidFile := filepath.Join(c.Dir, "pid")
	if err := runc(ctx, c, "run", "--detach", "--bundle", c.Dir, "--pid-file", pidFile, c.ID); err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, fmt.Errorf("read process id: %w", err)
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("read process id: %w", err)
	}
	return pid, nil
}

// Delete kills and removes the container; one that is not there is no error.
func Delete(ctx context.Context, c Container) error {
	// --force makes runc kill first, and say nothing of a missing container.
	err := runc(ctx, c, "delete", "--force", c.ID)
	// runc removes the cgroups of a container that it knows; one whose
	// creation was interrupted it does not know.
	if err := errors.Join(err, RemoveCgroups(ctx, c.Cgroup), Detach(c.Dir)); err != nil {
		return fmt.Errorf("delete container %s: %w", c.ID, err)
	}
	return nil
}

// runc runs the runtime with its state in the container's directory.
func runc(ctx context.Context, c Container, args ...string) error {
	path, err := network.FindProgram(Program)
	if err != nil {
		return err
	}
	// A file, not a pipe: the container inherits it, and waiting for a pipe's
	// end would be waiting for the container's.
	log, err := os.Create(filepath.Join(c.Dir, "runc-"+args[0]+".log"))
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, path, append([]string{"--root", filepath.Join(c.Dir, "state")}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), c.Env...)
	err = cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("run runc %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("run runc %s: %w: %s", args[0], err, said(log.Name()))
	}
	return nil
}

// said is the end of what a log holds, short enough for an error line.
func said(log string) string {
	const most = 400
	raw, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	text := strings.Join(strings.Fields(string(raw)), " ")
	return text[max(0, len(text)-most):]
}
