package telemetry

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedIsCurrent regenerates beside a copy of the C file and compares
// with what is committed. Other versions of clang make other bytes, so it needs
// the one of Debian 12.
func TestGeneratedIsCurrent(t *testing.T) {
	version, err := exec.Command("clang", "--version").Output()
	if err != nil || !strings.Contains(string(version), "version 14.") {
		t.Skip("clang 14 (Debian: clang llvm libbpf-dev linux-libc-dev) is not installed")
	}
	tool, err := exec.Command("go", "tool", "-n", "bpf2go").Output()
	must(t, err)
	dir := t.TempDir()
	source, err := os.ReadFile("telemetry.bpf.c")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "telemetry.bpf.c"), source, 0o644))
	text, err := os.ReadFile("telemetry.go")
	must(t, err)
	_, rest, ok := strings.Cut(string(text), "//go:generate go tool bpf2go ")
	if !ok {
		t.Fatal("no go:generate line")
	}
	line, _, _ := strings.Cut(rest, "\n")
	cmd := exec.Command(strings.TrimSpace(string(tool)), strings.Fields(line)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"telemetry_bpfel.go", "telemetry_bpfel.o"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source makes: run go generate (%v)", name, err)
		}
	}
}
