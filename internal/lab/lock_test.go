package lab_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab"
)

// TestLockIsGivenBack: a bench that has ended keeps no other one from beginning, though a child that is being started
// still has the file of its lock.
func TestLockIsGivenBack(t *testing.T) {
	s := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	release, err := s.LockBench()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LockBench(); err == nil {
		t.Error("two benches at a time")
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		fd, _ := strconv.Atoi(e.Name())
		if filepath.Dir(to) != s.Root {
			continue
		}
		child, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(child)
		break
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if release, err = s.LockBench(); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}
