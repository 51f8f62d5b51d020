package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
)

// TestMain lets the test binary be the guest's init, and a parent that is killed.
func TestMain(m *testing.M) {
	switch {
	case guest.Inside():
		fmt.Fprintln(os.Stderr, guest.Init())
		os.Exit(1)
	case len(os.Args) == 3 && os.Args[1] == guest.AnswerArgument:
		if err := guest.Answer(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv("GUEST_TEST_PARENT") != "":
		_, err := guest.Run(context.Background(),
			guest.Config{Kernel: uml(), Store: lab.Store{Root: os.Getenv("GUEST_TEST_PARENT")},
				Self: self(), Memory: 256 << 20, Argv: []string{"sleep", "1000"},
				Ready: func(time.Duration) { fmt.Println("ready") }})
		fmt.Println(err)
	default:
		os.Exit(m.Run())
	}
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func uml() guest.Kernel {
	k, err := guest.Find(guest.Place{Self: self(), Getenv: os.Getenv}, guest.UML)
	if err != nil {
		panic(err)
	}
	return k
}

// config is a small guest for a test that needs one.
func config(t *testing.T, argv ...string) (guest.Config, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	k := uml()
	if !k.Works() {
		t.Skipf("no guest kernel: %v", k.Missing)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	var stdout, stderr bytes.Buffer
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	t.Cleanup(func() {
		if _, err := os.Stat(store.Root); !os.IsNotExist(err) {
			t.Errorf("store left: %v", err)
		}
		if pids := marked(t, store.Root); len(pids) > 0 {
			t.Errorf("processes left: %v", pids)
		}
	})
	return guest.Config{Kernel: k, Store: store, Self: self(), Memory: 256 << 20, Argv: argv,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: &stdout, Stderr: &stderr}, &stdout, &stderr
}

// marked lists the processes of the store.
func marked(t *testing.T, root string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(env), "PATHWISE_LAB="+root) {
			out = append(out, e.Name())
		}
	}
	return out
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestOutputAndExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		argv           []string
		code           int
		stdout, stderr string
	}{
		"well":    {sh("echo out; echo err >&2"), 0, "out\n", "err\n"},
		"code":    {sh("exit 7"), 7, "", ""},
		"signal":  {sh("kill -9 $$"), 137, "", ""},
		"much":    {sh("seq 20000 | tail -n 1; seq 100000 >&2 | wc -l"), 0, "20000\n0\n", ""},
		"orphans": {sh("(sleep 0.1 &); echo $PATH; sleep 0.3"), 0, "/usr/sbin:/usr/bin:/sbin:/bin\n", ""},
		"root":    {sh("touch /etc/pathwise-guest-test && cat /sys/class/net/lo/operstate && hostname"), 0, "unknown\nguest\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, stdout, stderr := config(t, tc.argv...)
			var ready time.Duration
			c.Ready = func(after time.Duration) { ready = after }
			code, err := guest.Run(context.Background(), c)
			if err != nil || code != tc.code {
				t.Fatalf("got %d, %v; want %d", code, err, tc.code)
			}
			if stdout.String() != tc.stdout {
				t.Errorf("stdout %q, want %q", stdout, tc.stdout)
			}
			if name == "much" {
				if !strings.HasSuffix(stderr.String(), "\n100000\n") {
					t.Errorf("%d bytes on stderr", stderr.Len())
				}
			} else if stderr.String() != tc.stderr {
				t.Errorf("stderr %q, want %q", stderr, tc.stderr)
			}
			if t.Logf("ready after %v", ready); ready <= 0 {
				t.Errorf("ready after %v", ready)
			}
		})
	}
	if _, err := os.Stat("/etc/pathwise-guest-test"); err == nil {
		t.Error("a guest wrote the host's files")
	}
}

func TestWhatIsWrittenSurvives(t *testing.T) {
	share := t.TempDir()
	for name, tc := range map[string]struct{ trigger, want string }{
		"panic":     {"c", "Kernel panic"},
		"power off": {"o", "it powered off"},
	} {
		t.Run(name, func(t *testing.T) {
			c, stdout, _ := config(t,
				sh("echo told; echo kept >"+share+"/file; echo "+tc.trigger+" >/proc/sysrq-trigger; sleep 20")...)
			c.Share = share
			_, err := guest.Run(context.Background(), c)
			if !errors.Is(err, guest.ErrDied) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			kept, err := os.ReadFile(filepath.Join(share, "file"))
			if err != nil || string(kept) != "kept\n" || stdout.String() != "told\n" {
				t.Errorf("kept %q (%v), told %q", kept, err, stdout)
			}
			os.Remove(filepath.Join(share, "file"))
		})
	}
}

func TestBootFailureSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*guest.Config)
		want   string
	}{
		"no init":      {func(c *guest.Config) { c.Self = "/nowhere/pathwise" }, "/nowhere/pathwise failed"},
		"too slow":     {func(c *guest.Config) { c.BootLimit = 50 * time.Millisecond }, "not ready after 50ms"},
		"no image":     {func(c *guest.Config) { c.Kernel.Image = "/nowhere/linux.uml" }, "no such file"},
		"no kernel":    {func(c *guest.Config) { c.Kernel.Image = "/bin/false" }, "exit status 1"},
		"no modules":   {func(c *guest.Config) { c.Kernel.Modules = "/nowhere/6.1.0" }, "modprobe"},
		"no program":   {func(c *guest.Config) { c.Argv = []string{"no-such-program"} }, "find program no-such-program"},
		"no directory": {func(c *guest.Config) { c.WorkDir = "/nowhere" }, "working directory"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := config(t, "true")
			tc.change(&c)
			if _, err := guest.Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCancelledGuestLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c, stdout, _ := config(t, sh("echo begun; while :; do :; done")...)
	c.Ready = func(time.Duration) { time.AfterFunc(time.Second, cancel) }
	if _, err := guest.Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if stdout.String() != "begun\n" {
		t.Errorf("said %q", stdout)
	}
}

// TestKilledParent: the guest goes with a parent that could not end it, and "lab
// down" removes the record.
func TestKilledParent(t *testing.T) {
	c, _, _ := config(t, "true") // for its skips and its cleaning
	cmd := exec.Command(self())
	cmd.Env = append(os.Environ(), "GUEST_TEST_PARENT="+c.Store.Root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Errorf("parent said %q, %v", line, err)
	}
	if len(marked(t, c.Store.Root)) == 0 {
		t.Error("the guest's processes are not marked")
	}
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		t.Fatal(err)
	}
	for i := 0; len(marked(t, c.Store.Root)) > 0; i++ {
		if i > 100 {
			t.Fatalf("processes outlive their parent: %v", marked(t, c.Store.Root))
		}
		time.Sleep(20 * time.Millisecond)
	}
	labs, err := c.Store.List()
	if err != nil || len(labs) != 1 || labs[0].Guest != c.Kernel.Label() {
		t.Fatalf("recorded %+v, %v", labs, err)
	}
	if err := c.Store.Down(context.Background(), labs[0].Spec.Name, false); err != nil {
		t.Error(err)
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func TestAskRemembers(t *testing.T) {
	c, _, _ := config(t)
	cache := t.TempDir()
	needs := []network.Need{network.NeedLink("ipvlan", "CONFIG_IPVLAN"), network.NeedLink("nonsense", "no option")}
	if _, ok := guest.Cached(cache, c.Kernel, needs); ok {
		t.Error("an answer before the question")
	}
	out, err := guest.Ask(context.Background(), c, needs, cache)
	if err != nil || len(out) != 1 || out[0].Name != "nonsense" {
		t.Errorf("got %v, %v", out, err)
	}
	if again, ok := guest.Cached(cache, c.Kernel, needs); !ok || len(again) != 1 {
		t.Errorf("remembered %v, %v", again, ok)
	}
	other := c.Kernel
	other.Release += "x"
	if _, ok := guest.Cached(cache, other, needs); ok {
		t.Error("another kernel's answer")
	}
	if _, ok := guest.Cached(cache, c.Kernel, needs[:1]); ok {
		t.Error("another question's answer")
	}
}

// TestSeveralAtOnce: guests do not disturb each other.
func TestSeveralAtOnce(t *testing.T) {
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			want := strconv.Itoa(i)
			c, stdout, _ := config(t, "ip", "netns", "add", "n"+want)
			c.Argv = sh("ip netns add n" + want + " && ip netns list")
			if code, err := guest.Run(context.Background(), c); err != nil || code != 0 || stdout.String() != "n"+want+"\n" {
				t.Errorf("got %d, %v, %q", code, err, stdout)
			}
		})
	}
}
