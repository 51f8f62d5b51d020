package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is locked: an agent is running there already", strings.TrimSuffix(path, ".lock"))
	}
	return func() { f.Close() }, nil
}
