package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// needRoot fails the test where it cannot run: a skip that nobody sees is no test.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("PATHWISE_ALLOW_SKIP") != "" {
		t.Skip("starting containers needs root")
	}
	t.Fatal("starting containers needs root: run as root, or set PATHWISE_ALLOW_SKIP=1 to skip")
}

func container(t *testing.T) Container {
	t.Helper()
	needRoot(t)
	self := filepath.Join(t.TempDir(), "pause")
	build := exec.Command("go", "build", "-o", self, "./testdata/pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("pw-t-oci-%d", os.Getpid())
	if err := netns.Create(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(name); err != nil {
			t.Error(err)
		}
	})
	return Container{ID: name, Dir: filepath.Join(t.TempDir(), "c"), Netns: netns.Path(name),
		Cgroup: "/" + name, Self: self, Env: []string{"PATHWISE_TEST=" + name}}
}

func TestStartAndDelete(t *testing.T) {
	c := container(t)
	ctx := t.Context()
	begin := time.Now()
	pid, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(begin))

	want, err := netns.Inode(c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := netns.InodeOf(strconv.Itoa(pid)); err != nil || got != want {
		t.Errorf("container is in network namespace %d (%v), want %d", got, err, want)
	}
	// runc does not wait for its child's execve: until then there is no environment.
	poll, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := network.Poll(poll, time.Millisecond, func() error {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && !bytes.Contains(env, []byte(c.Env[0])) {
			err = fmt.Errorf("environment %q lacks %q", env, c.Env[0])
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd"} {
		if want := set + ":\t0000000000000000"; !strings.Contains(string(status), want) {
			t.Errorf("status lacks %q", want)
		}
	}
	if len(Cgroups(c.Cgroup)) == 0 {
		t.Error("no cgroup exists for a running container")
	}

	for range 2 { // the second finds nothing to delete
		if err := Delete(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	nothingLeft(t, c)
}

// nothingLeft checks that neither processes nor cgroups of the container exist.
func nothingLeft(t *testing.T, c Container) {
	t.Helper()
	if left := Cgroups(c.Cgroup); len(left) > 0 {
		t.Errorf("cgroups left: %v", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := network.Poll(ctx, 5*time.Millisecond, func() error {
		out, _ := exec.Command("ip", "netns", "pids", c.ID).Output()
		for _, pid := range strings.Fields(string(out)) {
			if pid != strconv.Itoa(os.Getpid()) {
				return fmt.Errorf("process %s is left", pid)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	c := container(t)
	c.Self = filepath.Join(c.Dir, "absent")
	_, err := Start(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Fatalf("got %v, want an error that names the missing executable", err)
	}
	nothingLeft(t, c)
}

func TestStartCancelled(t *testing.T) {
	c := container(t)
	// Cut the start off at many points, as Ctrl-C would.
	for after := time.Millisecond; after < 60*time.Millisecond; after += 3 * time.Millisecond {
		c.Dir = filepath.Join(t.TempDir(), "c")
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := Start(ctx, c)
		cancel()
		if err == nil {
			if err := Delete(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: got %v, want the context's error", after, err)
		}
		nothingLeft(t, c)
	}
}

// TestCgroupsAfterKill: what runc leaves when everything is killed can be found
// and removed by the cgroup's path alone.
func TestCgroupsAfterKill(t *testing.T) {
	c := container(t)
	pid, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := RemoveCgroups(t.Context(), c.Cgroup); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, c)
}

// TestRemoveCgroupsWaits: a cgroup is removed whose last process takes its time to end.
func TestRemoveCgroupsWaits(t *testing.T) {
	needRoot(t)
	path := fmt.Sprintf("/pw-t-busy-%d", os.Getpid())
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	slow := exec.Command("sleep", "1.5")
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	for _, mount := range cgroupMounts(raw) {
		if err := os.Mkdir(filepath.Join(mount, path), 0o755); err != nil {
			continue // a hierarchy that lets nobody make one
		}
		_ = os.WriteFile(filepath.Join(mount, path, "cgroup.procs"), []byte(strconv.Itoa(slow.Process.Pid)), 0o644)
	}
	if !slices.Contains(Processes(path), slow.Process.Pid) {
		t.Fatal("the process is not in the cgroup")
	}
	ended := make(chan error, 1)
	go func() { ended <- slow.Wait() }()
	if err := RemoveCgroups(t.Context(), path); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := Cgroups(path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCgroupsRefusesWhatIsNotOne(t *testing.T) {
	for _, path := range []string{"", "/", ".", "pw", "/..", "/a/../..", "/a/", "//"} {
		if got := Cgroups(path); got != nil {
			t.Errorf("Cgroups(%q) = %v, want none", path, got)
		}
		c := Container{ID: "x", Dir: t.TempDir(), Cgroup: path}
		if _, err := Start(t.Context(), c); err == nil {
			t.Errorf("Start with cgroup %q: want an error", path)
		}
	}
}

func TestCgroupMounts(t *testing.T) {
	v1 := `25 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw,relatime shared:1 master:2 - cgroup2 cgroup2 rw
29 25 0:26 / /mnt rw - ext4 cgroup rw`
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"version 1 and hybrid": {v1, []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"}},
		"version 2":            {"30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", []string{"/sys/fs/cgroup"}},
		"none":                 {"", nil},
		"damaged":              {" - \n- - cgroup\n1 2 3 4 - cgroup x y\n", nil},
	} {
		if got := cgroupMounts([]byte(tc.in)); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func FuzzCgroupMounts(f *testing.F) {
	f.Add([]byte("26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"))
	f.Add([]byte("1 2 3 4 / - cgroup2"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range cgroupMounts(raw) {
			if !strings.HasPrefix(m, "/") {
				t.Errorf("mount point %q is no absolute path", m)
			}
		}
	})
}

// TestDetach: what a runc that was killed has left mounted goes, and nothing else.
func TestDetach(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	left, other := filepath.Join(dir, "a b", "state", "c", "runc.7DV0aQ"), filepath.Join(dir, "mine")
	if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{left, other} {
		if err := errors.Join(os.WriteFile(at, nil, 0o644),
			unix.Mount("/proc/self/exe", at, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	if err := errors.Join(Detach(dir), Detach(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(left); err != nil {
		t.Error(err)
	}
	if err := os.Remove(other); !errors.Is(err, unix.EBUSY) {
		t.Errorf("another's mount: %v, want that it is there", err)
	}
}
