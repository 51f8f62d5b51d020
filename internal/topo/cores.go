package topo

import (
	"fmt"
	"slices"
)

// Cores says on which processors the load generators of a pair run. On a machine with few
// of them the scheduler moves a stream between two speeds, by whether its ends wake each
// other on one core or on two: left free that is noise, chosen it is a factor.
type Cores string

// Kinds of placement on processors.
const (
	// CoresFree leaves it to the scheduler.
	CoresFree Cores = ""
	// CoresSame: both ends of a pair on one core, pairs on all cores by turns.
	CoresSame Cores = "same"
	// CoresApart: the client's end on one core and the server's on the next.
	CoresApart Cores = "apart"
)

// free is how files call CoresFree.
const free = "free"

// ParseCores returns the placement called s.
func ParseCores(s string) (Cores, error) {
	if s == free {
		return CoresFree, nil
	}
	if c := Cores(s); c != CoresFree && slices.Contains([]Cores{CoresSame, CoresApart}, c) {
		return c, nil
	}
	return "", fmt.Errorf("unknown placement %q: expected free, same or apart", s)
}

// Word is how files call it.
func (c Cores) Word() string {
	if c == CoresFree {
		return free
	}
	return string(c)
}

// MarshalYAML writes it as files have it.
func (c Cores) MarshalYAML() (any, error) { return c.Word(), nil }

// Ends returns the cores of pair number i, from 0, of those of a machine; -1 where it may
// use all. A machine with one core has no two ends apart: see Check.
func (c Cores) Ends(i int, cores []int) (client, server int) {
	n := len(cores)
	switch {
	case n == 0 || c == CoresFree:
		return -1, -1
	case c == CoresSame:
		return cores[i%n], cores[i%n]
	}
	return cores[2*i%n], cores[(2*i+1)%n]
}

// Check returns an error where n cores do not suffice.
func (c Cores) Check(n int) error {
	if c == CoresApart && n < 2 {
		return fmt.Errorf("cores apart: the kernel has %d processor: expected 2 or more", n)
	}
	return nil
}
