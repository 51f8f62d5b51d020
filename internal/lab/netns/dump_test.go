package netns

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestWhole: a dump that was interrupted is tried again, some times; another error is not.
func TestWhole(t *testing.T) {
	other := errors.New("other")
	for _, tc := range []struct {
		interrupted, calls int
		then, want         error
	}{
		{0, 1, nil, nil}, {3, 4, nil, nil}, {0, 1, other, other}, {2, 3, other, other},
		{100, dumpsMost, nil, netlink.ErrDumpInterrupted},
	} {
		calls := 0
		all, err := Whole(func() ([]int, error) {
			if calls++; calls <= tc.interrupted {
				return nil, fmt.Errorf("dump: %w", netlink.ErrDumpInterrupted)
			}
			return []int{calls}, tc.then
		})
		if calls != tc.calls || !errors.Is(err, tc.want) || err == nil && len(all) != 1 {
			t.Errorf("%+v: %d calls, %v, %v", tc, calls, all, err)
		}
	}
}
