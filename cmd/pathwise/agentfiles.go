package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/agent"
)

// openOwn opens a file of the agent's own to write to, and makes it where there is none. It
// follows no link: who may write to its directory is not to have root write elsewhere.
func openOwn(path string, flags int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|unix.O_NOFOLLOW|flags, mode)
}

func lockFile(path string) (unlock func(), err error) {
	f, err := openOwn(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is locked: an agent is running there already", strings.TrimSuffix(path, ".lock"))
	}
	return func() { f.Close() }, nil
}

// whenChanged reads a description again only when its file is another than before:
// an agent asks twice a second, and that of a large cluster takes milliseconds.
func whenChanged(path string, read func() (agent.Cluster, error)) func() (agent.Cluster, error) {
	var had os.FileInfo
	var kept agent.Cluster
	return func() (agent.Cluster, error) {
		now, err := os.Stat(path)
		if err == nil && had != nil && os.SameFile(had, now) && now.Size() == had.Size() &&
			now.ModTime().Equal(had.ModTime()) {
			return kept, nil
		}
		had = nil
		c, rerr := read()
		if err == nil && rerr == nil {
			had, kept = now, c
		}
		return c, rerr
	}
}
