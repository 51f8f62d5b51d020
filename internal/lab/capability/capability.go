// Package capability takes from this process the privileges that it does not need
// (capabilities(7)), from all of its threads and for good.
package capability

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Set is a set of capabilities, bit n for number n.
type Set uint64

// Of is the set of those with the numbers unix.CAP_*.
func Of(caps ...int) (s Set) {
	for _, c := range caps {
		s |= 1 << c
	}
	return s
}

// String lists the set by numbers, as the kernel's headers have them.
func (s Set) String() string {
	var out []string
	for c := range 64 {
		if s>>c&1 != 0 {
			out = append(out, strconv.Itoa(c))
		}
	}
	return strings.Join(out, ",")
}

// State is what a thread may do.
type State struct {
	Effective, Permitted, Inheritable, Bounding, Ambient Set
	// NoNewPrivs: no program that it executes gives it more.
	NoNewPrivs bool
}

// within reports whether the state allows what is in keep and nothing else, also to
// whatever the thread executes.
func (s State) within(keep Set) bool {
	return (s.Effective|s.Permitted|s.Bounding)&^keep == 0 && s.Inheritable|s.Ambient == 0 && s.NoNewPrivs
}

// Read returns the calling thread's state.
func Read() (State, error) {
	var s State
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return s, fmt.Errorf("read capabilities: %w", err)
	}
	s.Effective = Set(data[0].Effective) | Set(data[1].Effective)<<32
	s.Permitted = Set(data[0].Permitted) | Set(data[1].Permitted)<<32
	s.Inheritable = Set(data[0].Inheritable) | Set(data[1].Inheritable)<<32
	for c := range 64 {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		} else if err != nil {
			return s, fmt.Errorf("read bounding set: %w", err)
		}
		ambient, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0)
		if err != nil {
			return s, fmt.Errorf("read ambient set: %w", err)
		}
		s.Bounding |= Set(in) << c
		s.Ambient |= Set(ambient) << c
	}
	no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return s, fmt.Errorf("read no_new_privs: %w", err)
	}
	s.NoNewPrivs = no == 1
	return s, nil
}

// Program is what this process is to be begun again as: itself.
type Program struct {
	Path      string
	Args, Env []string
}

// again is the variable that tells a process that it has been begun again: of a number
// that is not its own it comes from a parent.
const again = "PATHWISE_CAPABILITIES"

// Keep leaves this process, all its threads, no more than keep. The kernel has these
// sets by thread, and Go has started some by now, whose own it can change all at once
// only in a program without cgo (syscall.AllThreadsSyscall). So one thread gives up the
// rest and executes the program again, where all threads are that one's children, and
// Keep finds nothing left to do. The process stays the same, with its number, its
// parent, its files and its namespaces. Root's programs have what the bounding set
// leaves them; that, and no_new_privs, can never be taken back.
func Keep(keep Set, self Program) error {
	s, err := Read()
	if err != nil || s.within(keep) {
		return err
	}
	mark := again + "=" + strconv.Itoa(unix.Getpid())
	for _, v := range self.Env {
		if v == mark {
			return fmt.Errorf("drop capabilities: the kernel left effective %v, bounding %v, inheritable %v, no_new_privs %v",
				s.Effective, s.Bounding, s.Inheritable, s.NoNewPrivs)
		}
	}
	runtime.LockOSThread() // what this one has given up must serve nothing else
	if err := drop(s, keep); err != nil {
		return err
	}
	if err := syscall.Exec(self.Path, self.Args, append(self.Env[:len(self.Env):len(self.Env)], mark)); err != nil {
		return fmt.Errorf("begin again with fewer capabilities: %w", err)
	}
	return nil
}

// drop leaves the calling thread no more than keep. The bounding set goes first, as
// that takes CAP_SETPCAP.
func drop(s State, keep Set) error {
	for c := range 64 {
		if (s.Bounding&^keep)>>c&1 == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d from the bounding set: %w: it takes CAP_SETPCAP, or a bounding set without it", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	left := uint64(s.Permitted & keep)
	data := [2]unix.CapUserData{{Effective: uint32(left), Permitted: uint32(left)},
		{Effective: uint32(left >> 32), Permitted: uint32(left >> 32)}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}
