package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzLoadOrder: of any modules.dep, each module is loaded once, and what it needs before it.
func FuzzLoadOrder(f *testing.F) {
	dir := f.TempDir()
	f.Add("kernel/a/virtio_pci.ko.xz: kernel/b/virtio.ko.xz kernel/c/ring.ko\nkernel/b/virtio.ko.xz:\n", "virtio_pci")
	f.Add("a.ko: a.ko a.ko\n:\n", "a")
	f.Fuzz(func(t *testing.T, deps, name string) {
		if err := os.WriteFile(filepath.Join(dir, "modules.dep"), []byte(deps), 0o600); err != nil {
			t.Fatal(err)
		}
		order, err := loadOrder(dir, []string{name, "other", name})
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range order {
			if slices.Contains(order[:i], file) || !strings.Contains(deps, file) {
				t.Errorf("%q of %q: %q", name, deps, order)
			}
		}
	})
}

// FuzzConclude: whatever a guest leaves behind, there is an exit code or one line
// that says why there is none.
func FuzzConclude(f *testing.F) {
	dir := f.TempDir()
	f.Add([]byte(`{"code":3}`), []byte("boot\nKernel panic - not syncing\n trace\n"), true)
	f.Add([]byte(`{"error":"no root"}`), []byte(nil), false)
	f.Add([]byte(`{"co`), []byte(strings.Repeat("x", 5000)+"\n\xff\n"), true)
	f.Fuzz(func(t *testing.T, outcome, console []byte, booted bool) {
		for name, raw := range map[string][]byte{outcomeFile: outcome, consoleFile: console} {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := conclude(dir, booted, nil)
		if err != nil && len(err.Error()) > 600+len(outcome) {
			t.Errorf("%d bytes of console became %d of error", len(console), len(err.Error()))
		}
		if words := lastWords(dir); len(words) > 500 || strings.Contains(words, "\n") {
			t.Errorf("last words: %q", words)
		}
	})
}
