package netns_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// create makes a namespace that goes with the test.
func create(t *testing.T, name string) {
	t.Helper()
	if err := errors.Join(netns.Prepare(), netns.Create(name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(netns.Delete(name), netns.Release()); err != nil {
			t.Error(err)
		}
	})
}

func TestCreateMakesAnEmptyNamespace(t *testing.T) {
	create(t, "pw-t-netns")
	if !netns.Exists("pw-t-netns") || netns.Exists("pw-t-other") {
		t.Error("Exists is wrong")
	}
	err := netns.Do("pw-t-netns", func() error {
		devs, err := net.Interfaces()
		if err == nil && (len(devs) != 1 || devs[0].Flags&net.FlagUp == 0) {
			t.Errorf("devices %v", devs)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := netns.Create("pw-t-netns"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second of that name: %v", err)
	}
	if !netns.Exists("pw-t-netns") {
		t.Error("the failed second Create has removed the first")
	}
}

// TestThreadsComeHome: whatever ran elsewhere, no thread of the process stays
// there, not even the main one, which the runtime never lets die.
func TestThreadsComeHome(t *testing.T) {
	create(t, "pw-t-home")
	home, err := netns.InodeOf("self")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := netns.Do("pw-t-home", func() error { return nil }); err != nil {
				t.Error(err)
			}
			if err := netns.Throwaway(func() error { return errors.New("broken") }); err == nil {
				t.Error("the error of fn is lost")
			}
			if err := netns.Do("pw-t-nowhere", func() error { return nil }); err == nil {
				t.Error("entered a namespace that is not there")
			}
		})
	}
	wg.Wait()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		ino, err := netns.InodeOf("self/task/" + task.Name())
		if err == nil && ino != home {
			t.Errorf("thread %s is in namespace %d, not %d", task.Name(), ino, home)
		}
	}
}

// A function that ends its goroutine, as Fatal of a test does, is an error and no wait for ever.
func TestThrowawayEnds(t *testing.T) {
	err := netns.Throwaway(func() error {
		runtime.Goexit()
		return nil
	})
	if err == nil {
		t.Fatal("no error")
	}
}

func TestStartRunsInside(t *testing.T) {
	create(t, "pw-t-start")
	cmd := exec.Command("cat", "/proc/net/dev")
	var out strings.Builder
	cmd.Stdout = &out
	if err := netns.Start("pw-t-start", cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), ":"); n != 1 {
		t.Errorf("the program sees %d devices:\n%s", n, out.String())
	}
}

func TestDeleteTwiceIsNoError(t *testing.T) {
	create(t, "pw-t-twice")
	for range 2 {
		if err := netns.Delete("pw-t-twice"); err != nil {
			t.Error(err)
		}
	}
}

// TestAttachOutlivesTheProcess: a namespace that somebody else made has a name
// and stays, also when its process has gone.
func TestAttachOutlivesTheProcess(t *testing.T) {
	create(t, "pw-t-theirs")
	cmd := exec.Command("sleep", "100")
	if err := netns.Start("pw-t-theirs", cmd); err != nil {
		t.Fatal(err)
	}
	err := netns.Attach("pw-t-ours", cmd.Process.Pid)
	t.Cleanup(func() {
		if err := netns.Delete("pw-t-ours"); err != nil {
			t.Error(err)
		}
	})
	again := netns.Attach("pw-t-ours", cmd.Process.Pid)
	if kill := cmd.Process.Kill(); err != nil || kill != nil {
		t.Fatal(err, kill)
	}
	_ = cmd.Wait() // killed
	if !errors.Is(again, os.ErrExist) || !netns.Exists("pw-t-ours") {
		t.Errorf("a second of that name: %v", again)
	}
	theirs, theirsErr := netns.Inode("pw-t-theirs")
	ours, oursErr := netns.Inode("pw-t-ours")
	if theirs != ours || theirsErr != nil || oursErr != nil {
		t.Errorf("got namespace %d (%v), want %d (%v)", ours, oursErr, theirs, theirsErr)
	}
}

// TestReleaseBesideCreate: who removes the last namespace takes nothing away
// from one who makes the next.
func TestReleaseBesideCreate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make namespaces")
	}
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("pw-t-%d-next-%d", os.Getpid(), i)
		wg.Go(func() {
			for range 50 {
				err := netns.Create(name)
				if err == nil {
					err = netns.Do(name, func() error { return nil })
				}
				if err := errors.Join(err, netns.Delete(name), netns.Release()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
