package rootless

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// readyWord is what a holder says when the namespaces are furnished.
const readyWord = "ready"

// second marks the holder's second life, in which it is root of its namespace.
const second = "PATHWISE_ROOTLESS_HOLDER"

// Files that a holder inherits.
const (
	proceedFd = 3
	readyFd   = 4
)

// Hold is the holder's life: it waits until its user is mapped, executes itself once
// more to be root, furnishes the namespaces and keeps them until nobody uses them.
func Hold(dir, self string) error {
	ready := os.NewFile(readyFd, "ready")
	if os.Getenv(second) == "" {
		var b [1]byte
		if _, err := os.NewFile(proceedFd, "proceed").Read(b[:]); err != nil {
			return fmt.Errorf("wait for the user to be mapped: %w", err)
		}
		// What it has inherited besides, such as somebody's lock, is not its to hold.
		if err := unix.CloseRange(readyFd+1, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil { // Linux 5.11
			return tell(ready, fmt.Errorf("close inherited files: %w", err))
		}
		err := unix.Exec(self, os.Args, append(os.Environ(), second+"=1"))
		return tell(ready, fmt.Errorf("execute %s: %w", self, err))
	}
	unix.CloseOnExec(readyFd)
	_ = unix.Close(proceedFd) // read to its end
	if err := furnish(); err != nil {
		return tell(ready, err)
	}
	if _, err := fmt.Fprintln(ready, readyWord); err != nil {
		return fmt.Errorf("say ready: %w", err)
	}
	if err := ready.Close(); err != nil {
		return fmt.Errorf("say ready: %w", err)
	}
	// The terminal that began it may go; labs stay.
	signal.Ignore(unix.SIGHUP, unix.SIGINT)
	return Place{dir}.keep()
}

// tell says an error to who started the holder, with its number.
func tell(ready *os.File, err error) error {
	var no unix.Errno
	if errors.As(err, &no) {
		what := err.Error()
		if wrapped := ": " + no.Error(); len(what) > len(wrapped) && what[len(what)-len(wrapped):] == wrapped {
			what = what[:len(what)-len(wrapped)]
		}
		_, _ = fmt.Fprintf(ready, "errno %d %s\n", int(no), what) // nobody listens who could be told
		return err
	}
	_, _ = fmt.Fprintln(ready, err)
	return err
}

// keep holds the namespaces until no process uses them and no named one is left.
func (p Place) keep() error {
	lock, err := os.OpenFile(filepath.Join(p.Dir, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	defer lock.Close()
	const every = 200 * time.Millisecond
	for ; ; time.Sleep(every) {
		if left, err := os.ReadDir(netns.Dir); err == nil && len(left) > 0 {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			continue
		}
		// Who waits for the lock finds no holder, and starts one.
		if left, err := os.ReadDir(netns.Dir); err == nil && len(left) > 0 {
			_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // tried again
			continue
		}
		return p.forget()
	}
}

// furnish gives the mount namespace what labs write: a /run of its own, with the
// user's directory in it, and a /sys that shows the namespace's devices, where the
// kernel allows that (it does not in a container whose /sys is masked in part).
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	users, err := unix.Open("/run/user", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("open /run/user: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if users >= 0 {
		defer unix.Close(users)
		if err := os.Mkdir("/run/user", 0o755); err != nil {
			return fmt.Errorf("create /run/user: %w", err)
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", users), "/run/user", "", unix.MS_BIND|unix.MS_REC,
			""); err != nil {
			return fmt.Errorf("bind /run/user: %w", err)
		}
	}
	return sysfs()
}

// sysfs mounts the namespace's own /sys over the machine's, with the control groups in
// it, or leaves that.
func sysfs() error {
	groups, err := unix.Open("/sys/fs/cgroup", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(groups)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil // done without; see furnish
	}
	if groups < 0 {
		return nil
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", groups), "/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC,
		""); err != nil {
		return fmt.Errorf("bind /sys/fs/cgroup: %w", err)
	}
	return nil
}
