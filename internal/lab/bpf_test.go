package lab

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBPFIsMountedOnce: by agents of many hosts that come at once.
func TestBPFIsMountedOnce(t *testing.T) {
	s := Store{Root: t.TempDir()}
	if err := os.MkdirAll(s.Dir("bpf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir("bpf"), "journal.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := s.BPFDir("bpf")
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range 16 {
		wg.Go(func() {
			<-begin
			if got, err := s.MountBPF("bpf"); got != dir || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(mounts), " "+dir+" bpf "); n != 1 {
		t.Errorf("%d mounts", n)
	}
}
