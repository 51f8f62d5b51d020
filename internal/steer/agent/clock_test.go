package agent

import (
	"context"
	"testing"
	"time"
)

// TestEachOr: what comes early is not waited for until the period is over.
func TestEachOr(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	early := make(chan struct{}, 1)
	early <- struct{}{}
	n := 0
	if err := eachOr(ctx, time.Hour, early, func() { n++; cancel() }); err != nil || n != 1 {
		t.Errorf("called %d times, %v", n, err)
	}
}
