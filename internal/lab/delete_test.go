package lab

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestDeletesAFewAtOnce: many pods are deleted a few at a time, each within its own time,
// and a plugin that hangs on all of them costs the time of the first few.
func TestDeletesAFewAtOnce(t *testing.T) {
	due := make([]deletion, 256)
	for i := range due {
		due[i].Pod = fmt.Sprint(i)
	}
	var running, most, tried atomic.Int64
	count := func(err error) func(deletion) error {
		return func(deletion) error {
			tried.Add(1)
			for n := running.Add(1); n > most.Load(); {
				most.Store(n)
			}
			defer running.Add(-1)
			return err
		}
	}
	if err := deleteAll(due, count(nil)); err != nil || tried.Load() != 256 || most.Load() > deletesAtOnce {
		t.Errorf("%v, %d tried, %d at once", err, tried.Load(), most.Load())
	}
	tried.Store(0)
	bad := errors.New("no")
	if err := deleteAll(due, count(bad)); !errors.Is(err, bad) || tried.Load() != 256 {
		t.Errorf("%d tried where each fails", tried.Load())
	}
	tried.Store(0)
	err := deleteAll(due, count(fmt.Errorf("plugin: %w", errLate)))
	if n := tried.Load(); n < deletesAtOnce || n > 2*deletesAtOnce ||
		!strings.HasSuffix(err.Error(), fmt.Sprintf("CNI DEL of %d more pods was not tried", 256-n)) {
		t.Errorf("%d tried where all hang: %v", n, err)
	}
}
