package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fileKey reads the cluster's key.
func fileKey(f agentFlags) ([]byte, error) {
	if f.remove {
		return nil, nil // nobody is spoken to
	}
	key, err := os.ReadFile(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if len(key) < 16 {
		return nil, fmt.Errorf("%s holds %d bytes: expected a key of 16 or more", f.keyFile, len(key))
	}
	return key, nil
}

// labKey reads the lab's key, or makes it: of several agents that begin at once
// the first one's stands.
func labKey(path string) ([]byte, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(own, key, 0o600); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	defer os.Remove(own)
	if err := os.Link(own, path); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make key: %w", err)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return key, nil
}

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
