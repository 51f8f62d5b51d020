package main

import (
	"context"
	"errors"
	"testing"
)

// TestUntil: a reckoning that takes long is left when the program is to end.
func TestUntil(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	if n, err := until(ctx, func() int { return 7 }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	never := make(chan int)
	defer close(never)
	stop()
	if _, err := until(ctx, func() int { return <-never }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
