package rootless

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMachineRoot(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":                          true,
		"         0       1000          1\n":                          false,
		"         0       1000          1\n         1 100000 65536\n": false,
		"         0     100000      65536\n":                          false, // Docker's userns-remap
		"":                                                            false,
		"0 0 65536\n":                                                 false,
	} {
		if got := machineRoot(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestRefusedNamesTheKnob(t *testing.T) {
	for _, c := range []struct {
		err  error
		knob map[string]string
		want string
	}{
		{unix.ENOSPC, map[string]string{"user/max_user_namespaces": "0"}, "user.max_user_namespaces is 0"},
		{unix.ENOSPC, map[string]string{"user/max_user_namespaces": "5"}, "user.max_user_namespaces is reached"},
		{unix.EPERM, map[string]string{"kernel/unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone is 0"},
		{unix.EACCES, map[string]string{"kernel/apparmor_restrict_unprivileged_userns": "1"},
			"kernel.apparmor_restrict_unprivileged_userns is 1"},
		{unix.EPERM, map[string]string{"kernel/unprivileged_userns_clone": "1"}, "seccomp"},
		{unix.ENOMEM, nil, "cannot allocate memory"},
	} {
		err := refused(fmt.Errorf("make user namespace: %w", c.err), func(name string) string { return c.knob[name] })
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v %v: got %v", c.err, c.knob, err)
		}
	}
}

func TestSpans(t *testing.T) {
	text := "root:1:2\nann:100000:65536\n# ann:5:5\nann:x:1\n1000:300000:10\nann:0:10\nann:4294967290:10\nanna:7:7\nann:9:0\n"
	want := []span{{100000, 65536}, {300000, 10}}
	if got := spans(strings.NewReader(text), "ann", "1000"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzSpans(f *testing.F) {
	f.Add("ann:100000:65536\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range spans(strings.NewReader(text), "ann", "1000") {
			if s.count == 0 || s.first == 0 || uint64(s.first)+uint64(s.count) > 1<<32 {
				t.Errorf("%q: %v", text, s)
			}
		}
	})
}
