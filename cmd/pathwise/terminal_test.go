package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// pty opens a pseudo-terminal so many columns wide.
func pty(t *testing.T, columns int) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)})
	}
	if err != nil {
		t.Fatalf("set up a pseudo-terminal: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// shown runs the program on a terminal and returns what it wrote there.
func shown(t *testing.T, program string, columns int, env []string, args ...string) string {
	t.Helper()
	master, slave := pty(t, columns)
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = slave, &stderr, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	out, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) { // what a terminal says when nobody writes to it any more
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("pathwise %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

// piped runs the program into a pipe.
func piped(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &stderr, append(os.Environ(), "COLUMNS=80")
	if err := cmd.Run(); err != nil {
		t.Fatalf("pathwise %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out.String()
}

// longest is the longest line, without what colours it.
func longest(out string) (line string) {
	ansi := regexp.MustCompile("\x1b\\[[0-9;]*m")
	return slices.MaxFunc(strings.Split(ansi.ReplaceAllString(out, ""), "\n"), func(a, b string) int {
		return utf8.RuneCountInString(a) - utf8.RuneCountInString(b)
	})
}

// TestTablesOnTerminals shows every command's tables on terminals of 80 and of 200 columns and
// in a pipe: no line is longer than the terminal, what is left out is said, and a pipe gets all.
func TestTablesOnTerminals(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pathwise")
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATHWISE_STATE", t.TempDir())
	t.Setenv("CNI_PATH", filepath.Join(binDir(t), "cni"))
	t.Setenv("PATH", os.Getenv("PATH")+":"+binDir(t))
	t.Chdir(t.TempDir())
	written(t, "a", rand.New(rand.NewPCG(1, 1)), 1, 1, "3s", "6.18")
	written(t, "b", rand.New(rand.NewPCG(2, 1)), 1, 0.8, "3s", "6.18")
	for _, c := range []struct {
		args string
		// cut tells whether columns are left out at 80; machine where that depends on it.
		cut string
	}{
		{"networks", ""}, {"networks --qualities", ""}, {"workloads", "left out"}, {"guest list", "machine"},
		{"paper list", ""}, {"paper show suo", "left out"}, {"paper claims claassen", "left out"},
		{"paper run --quick --dry-run all", ""},
		{"bench --dry-run", ""}, {"bench --dry-run -f demo-steering", ""}, {"replay --paper", "left out"},
		{"report a", ""}, {"recommend a", ""}, {"recommend a --app bulk", ""}, {"compare a b", "left out"}, {"claims a", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			whole := piped(t, program, args...)
			if strings.Contains(whole, "left out to fit") || strings.Contains(whole, "\x1b") {
				t.Errorf("a pipe gets less than all, or colours:\n%s", whole)
			}
			for _, columns := range []int{80, 200} {
				out := shown(t, program, columns, nil, args...)
				if l := longest(out); utf8.RuneCountInString(l) > columns {
					t.Errorf("a line of %d on a terminal of %d: %s", utf8.RuneCountInString(l), columns, l)
				}
				if cut := strings.Contains(out, "-o wide shows every column; left out to fit"); c.cut != "machine" &&
					cut != (c.cut != "" && columns == 80) {
					t.Errorf("columns left out at %d: %v, and this is said so:\n%s", columns, !cut, out)
				}
			}
		})
	}
	wide := shown(t, program, 80, []string{"NO_COLOR=1"}, "compare", "a", "b", "-o", "wide")
	for line := range strings.Lines(piped(t, program, "compare", "a", "b")) {
		if strings.HasPrefix(line, "bridge ") && !strings.Contains(wide, line) {
			t.Errorf("-o wide lacks %q:\n%s", line, wide)
		}
	}
	if l := longest(shown(t, program, 0, []string{"COLUMNS=100"}, "compare", "a", "b")); utf8.RuneCountInString(l) > 100 ||
		utf8.RuneCountInString(l) <= 80 {
		t.Errorf("a terminal that does not know its width goes by COLUMNS: %s", l)
	}
}
