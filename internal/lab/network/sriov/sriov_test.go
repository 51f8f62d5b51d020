package sriov

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPoolHandsOutFreeFunctions: of a card with three functions, one of which is
// a pod's already.
func TestPoolHandsOutFreeFunctions(t *testing.T) {
	root := t.TempDir()
	card := filepath.Join(root, "class/net/ens1f0/device")
	if err := os.MkdirAll(card, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]struct{ address, device string }{
		"virtfn0": {"0000:03:02.0", "ens1f0v0"}, "virtfn1": {"0000:03:02.1", ""}, "virtfn2": {"0000:03:02.2", "ens1f0v2"},
	} {
		dir := filepath.Join(root, "devices", f.address)
		if err := os.MkdirAll(filepath.Join(dir, "net", f.device), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, filepath.Join(card, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := &pool{sys: root, taken: map[string]bool{}}
	for _, want := range []string{"0000:03:02.0", "0000:03:02.2"} {
		if got, err := p.take("ens1f0"); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := p.take("ens1f0"); err == nil || !strings.Contains(err.Error(), "sriov_numvfs") {
		t.Errorf("got %q, %v from an empty pool", got, err)
	}
}
