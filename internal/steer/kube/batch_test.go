package kube

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestBatched: what comes is read as it is, at first and later, and who closes a connection does not wait for a turn.
func TestBatched(t *testing.T) {
	for name, age := range map[string]time.Duration{"new": 0, "old": time.Hour} {
		at := time.Unix(1000, 0)
		now := func() time.Time { at = at.Add(together - 1); return at } // a turn is about to come
		here, there := net.Pipe()
		b := newBatched(here, now)
		b.since = at.Add(-age)
		go func() {
			for _, text := range []string{"ab", "c", "defg"} {
				_, _ = there.Write([]byte(text))
			}
			_ = there.Close()
		}()
		if got, err := io.ReadAll(b); err != nil || string(got) != "abcdefg" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := b.Close(); err != nil || b.closed.Err() == nil {
			t.Errorf("%s: %v, %v", name, err, b.closed.Err())
		}
	}
}
