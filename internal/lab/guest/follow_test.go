package guest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFollowIntoOneWriter: what two files get, while they get it, comes whole and in
// order where one writer takes both. Fails if the followers take no turns.
func TestFollowIntoOneWriter(t *testing.T) {
	const lines = 400
	var out bytes.Buffer
	var turn sync.Mutex
	var written sync.WaitGroup
	var followers []*follower
	for _, name := range []string{"stdout", "stderr"} {
		path := filepath.Join(t.TempDir(), name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		followers = append(followers, follow(path, &out, &turn))
		written.Go(func() {
			defer file.Close()
			for n := range lines {
				if _, err := fmt.Fprintf(file, "%s %d\n", name, n); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	written.Wait()
	for _, f := range followers {
		if err := f.finish(); err != nil {
			t.Error(err)
		}
	}
	next := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var name string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d\n", &name, &n); err != nil || n != next[name] {
			t.Fatalf("got %q after %d lines of it: %v", line, next[name], err)
		}
		next[name]++
	}
	if next["stdout"] != lines || next["stderr"] != lines {
		t.Errorf("got %v, want %d each", next, lines)
	}
}
