package netns

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpsMost is how often a dump is tried that changes interrupt: in a namespace few come at a time.
const dumpsMost = 10

// Whole repeats a dump of the kernel's that a change has interrupted (NLM_F_DUMP_INTR), as it may lack what there is.
func Whole[T any](dump func() ([]T, error)) (all []T, err error) {
	for range dumpsMost {
		if all, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}
