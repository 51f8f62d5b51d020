package lab_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/oci"
)

// TestLaunch starts a pod by each runtime, twice, and leaves nothing.
func TestLaunch(t *testing.T) {
	self := filepath.Join(t.TempDir(), "pathwise")
	cmd := exec.Command("go", "build", "-o", self, "pathwise.dev/pathwise/cmd/pathwise")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build pathwise: %v\n%s", err, out)
	}
	_, before := os.Stat(oci.ShimDir)
	s := store(t)
	l, err := s.Up(t.Context(), spec("t-launch"), plain.None{}, lab.Options{Self: self, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []oci.Runtime{oci.Runc, oci.Containerd, oci.Containerd, oci.Runc} {
		got, err := l.Launch(t.Context(), 1, r)
		if err != nil || got.Runtime <= 0 || got.Engine {
			t.Errorf("%s: %+v, %v", r, got, err)
		}
	}
	if err := l.Down(context.Background()); err != nil {
		t.Error(err)
	}
	empty(t, s, "t-launch")
	if _, after := os.Stat(oci.ShimDir); errors.Is(before, fs.ErrNotExist) != errors.Is(after, fs.ErrNotExist) {
		t.Errorf("%s: %v before, %v after", oci.ShimDir, before, after)
	}
}
