// Package rootless gives an ordinary user namespaces in which he is root: a user,
// a mount and a network namespace, held by a process of his until no lab is left in
// them (user_namespaces(7)). Commands join them one after the other.
//
// It makes no labs and knows none; it sees only whether named network namespaces are
// left.
package rootless

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Inside reports whether this process's root is that of a user namespace, here or of
// a container, and not the machine's.
func Inside() bool {
	raw, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !machineRoot(string(raw))
}

// machineRoot: the initial user namespace maps every id to itself.
func machineRoot(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// Refused says why the kernel does not allow the user a namespace.
type Refused struct {
	// Knob names what forbids it, and how it is changed.
	Knob string
	Err  error
}

// Error implements error.
func (r *Refused) Error() string {
	return "this user may make no user namespace (" + r.Err.Error() + "): " + r.Knob
}

// Unwrap returns what the kernel said.
func (r *Refused) Unwrap() error { return r.Err }

// refused explains err, which the kernel gave to the making of a user namespace, by
// the knobs that read reads in /proc/sys.
func refused(err error, read func(knob string) string) error {
	const max, clone, armor = "user/max_user_namespaces", "kernel/unprivileged_userns_clone",
		"kernel/apparmor_restrict_unprivileged_userns"
	switch {
	case read(max) == "0":
		return &Refused{"sysctl user.max_user_namespaces is 0", err}
	case read(clone) == "0":
		return &Refused{"sysctl kernel.unprivileged_userns_clone is 0", err}
	case read(armor) == "1" && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)):
		return &Refused{"sysctl kernel.apparmor_restrict_unprivileged_userns is 1 (Ubuntu)", err}
	case errors.Is(err, unix.ENOSPC):
		return &Refused{"sysctl user.max_user_namespaces is reached", err}
	case errors.Is(err, unix.EPERM):
		return &Refused{"a seccomp profile, such as a container's, or a root directory that is not the namespace's forbids it", err}
	default:
		return err
	}
}

// knob reads one of the kernel's settings; "" where it has none of that name.
func knob(name string) string {
	raw, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
