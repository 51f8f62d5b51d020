package capability

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWithin(t *testing.T) {
	keep := Of(unix.CAP_BPF, unix.CAP_NET_RAW)
	if keep != 1<<39|1<<13 || keep.String() != "13,39" {
		t.Errorf("%x %s", uint64(keep), keep)
	}
	fine := State{Effective: keep, Permitted: keep, Bounding: keep, NoNewPrivs: true}
	for _, tc := range []struct {
		name   string
		change func(*State)
		want   bool
	}{
		{"exactly", func(*State) {}, true},
		{"less", func(s *State) { s.Effective, s.Permitted, s.Bounding = 0, 0, 0 }, true},
		{"effective", func(s *State) { s.Effective |= 1 }, false},
		{"permitted", func(s *State) { s.Permitted |= 1 << 40 }, false},
		{"bounding", func(s *State) { s.Bounding |= 1 << 8 }, false},
		{"inheritable", func(s *State) { s.Inheritable = Of(unix.CAP_BPF) }, false},
		{"ambient", func(s *State) { s.Ambient = Of(unix.CAP_BPF) }, false},
		{"programs may have more", func(s *State) { s.NoNewPrivs = false }, false},
	} {
		s := fine
		tc.change(&s)
		if got := s.within(keep); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestDrop does it to a thread, which ends with its goroutine.
func TestDrop(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: something to drop")
	}
	keep := Of(unix.CAP_NET_RAW, unix.CAP_SYS_NICE)
	type outcome struct {
		before, after State
		err           error
	}
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread()
		var o outcome
		if o.before, o.err = Read(); o.err == nil {
			o.err = drop(o.before, keep)
		}
		if o.err == nil {
			o.after, o.err = Read()
		}
		done <- o
	}()
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	if have := o.before.Permitted & keep; !o.after.within(keep) || o.after.Permitted != have || o.after.Effective != have {
		t.Errorf("%+v became %+v", o.before, o.after)
	}
}

// TestKeepEnds: a kernel that leaves more than was asked for makes no loop.
func TestKeepEnds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: something to drop")
	}
	err := Keep(0, Program{Path: "/absent", Env: []string{again + "=" + strconv.Itoa(os.Getpid())}})
	if err == nil || !strings.HasPrefix(err.Error(), "drop capabilities: the kernel left") ||
		strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
