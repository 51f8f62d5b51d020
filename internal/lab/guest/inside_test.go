package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
)

func TestUMLArguments(t *testing.T) {
	got := strings.Join(umlArguments(Config{Self: "/x/pathwise", Memory: 512 << 20}, "/run/pathwise/labs/guest-1"), " ")
	for _, want := range []string{"rootfstype=hostfs rootflags=/ ro init=/x/pathwise mem=512M",
		"PATHWISE_GUEST=hostfs,/run/pathwise/labs/guest-1", "con0=null,fd:1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if !strings.HasSuffix(got, " "+InitArgument) {
		t.Errorf("init has no argument: %s", got)
	}
}

func TestMemoryDir(t *testing.T) {
	dir := t.TempDir()
	if got, err := memoryDir(1<<20, "/nowhere", "/proc", dir); err != nil || got != dir {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := memoryDir(1<<60, dir); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for want, c := range map[string]Config{
		"expected a command": {},
		"without blanks":     {Argv: []string{"true"}, Self: "/a b/pathwise"},
		"and commas":         {Argv: []string{"true"}, Self: "/a", Store: lab.Store{Root: "/tmp/a,b"}},
	} {
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestMountTable(t *testing.T) {
	o := newOrder(Config{Kernel: Kernel{Name: UML}, Share: "/work/results"})
	table := o.table(mount{Source: "none", Type: "hostfs", Data: "/run/pathwise/labs/guest-1"})
	at := func(target string) int {
		return slices.IndexFunc(table, func(m mount) bool { return m.Target == target })
	}
	for _, target := range []string{"/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/run", "/var/lib/cni",
		"/sys/fs/cgroup", "/sys/fs/bpf", controlDir, "/work/results"} {
		if at(target) < 0 {
			t.Errorf("nothing is mounted on %s", target)
		}
	}
	for _, m := range table {
		if parent := at(filepath.Dir(m.Target)); parent > at(m.Target) {
			t.Errorf("%s would hide %s", table[parent].Target, m.Target)
		}
	}
	if c := table[at(controlDir)]; c.Data != "/run/pathwise/labs/guest-1" || c.Optional {
		t.Errorf("control: %+v", c)
	}
	if len(newOrder(Config{Kernel: Kernel{Name: UML}}).table(mount{})) != len(table)-1 {
		t.Error("a guest without a shared directory has one")
	}
}

func TestExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -15 $$": 143} {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run() // the state tells
		if got := exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)); got != want {
			t.Errorf("%s: %d, want %d", script, got, want)
		}
	}
}

func TestLastWords(t *testing.T) {
	for console, want := range map[string]string{
		"": "",
		"SELinux:  noise\nmmapper_init - find_iomem failed\n":    "",
		"one\ntwo\nthree\nfour\n":                                "; its console says: two; three; four",
		"why\nKernel panic - not syncing: no\nCall Trace:\n x\n": "; its console says: why; Kernel panic - not syncing: no",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, consoleFile), []byte(console), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(dir); got != want {
			t.Errorf("%q: got %q, want %q", console, got, want)
		}
	}
}

// TestTracerIsCurrent compiles ptrace.c and compares with what is committed.
// Other compilers make other bytes, so it needs the one of Debian 12.
func TestTracerIsCurrent(t *testing.T) {
	version, err := exec.Command("gcc", "-dumpfullversion").Output()
	if err != nil || !strings.HasPrefix(string(version), "12.") {
		t.Skip("gcc 12 (Debian: gcc) is not installed")
	}
	text, err := os.ReadFile("uml.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "//go:generate gcc ")
	line, _, _ := strings.Cut(rest, "\n")
	out := filepath.Join(t.TempDir(), "new.so")
	args := strings.Fields(strings.Replace(line, "ptrace_amd64.so", out, 1))
	if msg, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, msg)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != string(tracer) {
		t.Errorf("ptrace_amd64.so is not what its source makes: run go generate (%v)", err)
	}
}
