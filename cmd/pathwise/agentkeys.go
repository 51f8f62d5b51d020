package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/stamp"
)

// largestKeyFile bounds what is read at each look.
const largestKeyFile = 1 << 16

// keysOf reads the keys of a file again at each call: it is small, and what is
// written in place may look unchanged to stat(2). What is no file but a pipe, such
// as a shell's process substitution, is read once.
func keysOf(path string) func() (stamp.Keys, error) {
	var before []byte
	var keys stamp.Keys
	var once bool
	return func() (stamp.Keys, error) {
		if once {
			return keys, nil
		}
		raw, regular, err := readKeys(path, before == nil)
		if err != nil {
			return stamp.Keys{}, fmt.Errorf("read key: %w", err)
		}
		k, err := probe.ParseKeys(raw, before)
		if err != nil {
			return stamp.Keys{}, fmt.Errorf("%s %w", path, err)
		}
		before, keys, once = raw, k, !regular
		return k, nil
	}
}

// readKeys reads a file, or at first anything; it waits for nobody after that.
func readKeys(path string, first bool) (raw []byte, regular bool, err error) {
	flags := os.O_RDONLY
	if !first {
		flags |= unix.O_NONBLOCK
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if raw, err = io.ReadAll(io.LimitReader(f, largestKeyFile+1)); err != nil {
		return nil, false, err
	}
	if len(raw) > largestKeyFile {
		return nil, false, fmt.Errorf("%s holds more than %d bytes", path, largestKeyFile)
	}
	return raw, st.Mode().IsRegular(), nil
}

// makeKey makes the lab's key where there is none: of several agents that begin at
// once the first one's counts.
func makeKey(path string) error {
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(own, []byte(hex.EncodeToString(key[:])+"\n"), 0o600); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	defer os.Remove(own)
	if err := os.Link(own, path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make key: %w", err)
	}
	return nil
}
