package netns

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Own starts a process in a user namespace of its own, and in a mount and a network
// namespace that belong to it. The process has no capabilities in them before its user
// has been mapped and it has executed a program as root there (user_namespaces(7)).
func Own() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Setsid: true}
}

// Join is the command line by which argv runs as root in the namespaces of a process
// that Own started, in directory dir. A Go program cannot enter a user namespace
// itself, as it has several threads (setns(2)).
func Join(pid int, dir string, argv ...string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(pid), "--user", "--preserve-credentials",
		"--mount", "--net", "--", "env", "-C", dir}, argv...)
}
