package workload

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestBarrier: nobody is told of the window before the last has come, however late.
func TestBarrier(t *testing.T) {
	const programs = 200
	dir := t.TempDir()
	b, err := newBarrier(dir, programs)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan time.Duration, programs)
	for i := range programs {
		go func() {
			time.Sleep(time.Duration(i%7) * 5 * time.Millisecond)
			at, err := Beginning(b.begin(i))
			if err != nil {
				t.Error(err)
			}
			told <- at
		}()
	}
	if err := b.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("%d were told before all had come", len(told))
	}
	if err := b.tell(90 * time.Second); err != nil {
		t.Fatal(err)
	}
	for range programs {
		if at := <-told; at != 90*time.Second {
			t.Errorf("was told %v", at)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestBarrierThatIsGivenUp: who waits is let go, and says why.
func TestBarrierThatIsGivenUp(t *testing.T) {
	b, err := newBarrier(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan error, 1)
	go func() {
		_, err := Beginning(b.begin(0))
		let <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that one is missing", err)
	}
	if err := errors.Join(b.close(), b.close()); err != nil {
		t.Error(err)
	}
	if err := <-let; err == nil || !strings.Contains(err.Error(), "has gone") {
		t.Errorf("got %v", err)
	}
}

func TestBeginning(t *testing.T) {
	for text, want := range map[string]string{"3h1ms": "", "soon": "read beginning", "": "read beginning",
		"fifo:/nowhere/x": "no such file"} {
		at, err := Beginning(text)
		if want == "" && (err != nil || at != 3*time.Hour+time.Millisecond) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Beginning(%q) = %v, %v, want %q", text, at, err, want)
		}
	}
}
