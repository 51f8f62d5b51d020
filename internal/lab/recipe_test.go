package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestTurns: in turn, this kernel goes first and those of virtual machines follow only
// where it ends well; together, all do it, and all their errors are told.
func TestTurns(t *testing.T) {
	bad := errors.New("bad")
	for _, tc := range []struct {
		name  string
		how   func(*Lab, func(kernel, context.Context) error) func(context.Context) error
		fails int
		want  []int
	}{
		{"in turn", (*Lab).inTurn, -1, []int{0, 1, 2}},
		{"in turn, the first fails", (*Lab).inTurn, 0, []int{0}},
		{"in turn, another fails", (*Lab).inTurn, 2, []int{0, 1, 2}},
		{"together", (*Lab).together, -1, []int{0, 1, 2}},
		{"together, the first fails", (*Lab).together, 0, []int{0, 1, 2}},
	} {
		l := &Lab{kernels: []kernel{&local{}, &guest{}, &guest{}}}
		var mu sync.Mutex
		var did []int
		err := tc.how(l, func(k kernel, _ context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			i := slices.Index(l.kernels, k)
			did = append(did, i)
			if i == tc.fails {
				return bad
			}
			return nil
		})(t.Context())
		if strings.HasPrefix(tc.name, "in turn") && did[0] != 0 {
			t.Errorf("%s: kernel %d went first", tc.name, did[0])
		}
		if slices.Sort(did); !slices.Equal(did, tc.want) || errors.Is(err, bad) != (tc.fails >= 0) {
			t.Errorf("%s: got %v and %v, want %v", tc.name, did, err, tc.want)
		}
	}
}
