package pathwise_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedIsCurrent regenerates every eBPF object from copies of its C files and
// compares with what is committed. Other versions of clang make other bytes, so it needs
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
	sources, err := filepath.Glob("internal/*/*/*.bpf.c")
	if err != nil || len(sources) < 3 {
		t.Fatalf("%v, %v", sources, err)
	}
	for _, source := range sources {
		t.Run(filepath.Base(source), func(t *testing.T) {
			regenerate(t, strings.TrimSpace(string(tool)), source)
		})
	}
}

// regenerate makes the objects of a C file again and compares.
func regenerate(t *testing.T, tool, source string) {
	t.Helper()
	dir := filepath.Dir(source)
	temp := filepath.Join(t.TempDir(), filepath.Base(dir))
	for _, from := range []string{dir, "internal/steer/flow"} { // whose header others include
		to := filepath.Join(filepath.Dir(temp), filepath.Base(from))
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, b := range read(t, from, ".c", ".h") {
			if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(tool, how(t, dir, filepath.Base(source))...)
	cmd.Dir, cmd.Env = temp, append(os.Environ(), "GOPACKAGE="+filepath.Base(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, want := read(t, dir, "_bpfel.go", "_bpfel.o"), read(t, temp, "_bpfel.go", "_bpfel.o")
	if len(want) != 2 { // a package may have several objects
		t.Fatalf("%d files are made", len(want))
	}
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Errorf("%s is not what its source makes: run go generate ./%s", name, dir)
		}
	}
}

// how finds the arguments that a package's go:generate line gives for the C file.
func how(t *testing.T, dir, source string) []string {
	t.Helper()
	for _, b := range read(t, dir, ".go") {
		_, rest, ok := strings.Cut(string(b), "\n//go:generate go tool bpf2go ")
		line, _, _ := strings.Cut(rest, "\n")
		if ok && strings.Contains(line, " "+source+" ") {
			return strings.Fields(line)
		}
	}
	t.Fatalf("no go:generate line in %s has %s", dir, source)
	return nil
}

// read is the directory's files whose names end so.
func read(t *testing.T, dir string, ends ...string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, end := range ends {
		paths, err := filepath.Glob(filepath.Join(dir, "*"+end))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(p)] = b
		}
	}
	return files
}
