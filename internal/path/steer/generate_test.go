package steer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedIsCurrent regenerates beside a copy of the C files and compares
// with what is committed. Other versions of clang make other bytes, so it needs
// the one of Debian 12.
func TestGeneratedIsCurrent(t *testing.T) {
	version, err := exec.Command("clang", "--version").Output()
	if err != nil || !strings.Contains(string(version), "version 14.") {
		t.Skip("clang 14 (Debian: clang llvm libbpf-dev linux-libc-dev) is not installed")
	}
	tool, err := exec.Command("go", "tool", "-n", "bpf2go").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"steer.bpf.c", "steer.h", "packet.h", "rewrite.h", "role.h", "icmp.h", "encap.h"} {
		source, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), source, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("steer.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "//go:generate go tool bpf2go ")
	if !ok {
		t.Fatal("no go:generate line")
	}
	line, _, _ := strings.Cut(rest, "\n")
	cmd := exec.Command(strings.TrimSpace(string(tool)), strings.Fields(line)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPACKAGE=steer")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"bpf_bpfel.go", "bpf_bpfel.o"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source makes: run go generate (%v)", name, err)
		}
	}
}
