package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is a user who is neither root nor runs the agent.
const stranger = 12345

// ask connects to the socket as a user and returns what it answers to a request.
func askAs(t *testing.T, uid int, path string) (string, error) {
	t.Helper()
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer)
	go func() {
		// Identities are threads' own; this one ends with its goroutine.
		runtime.LockOSThread()
		// Dumpable is the process's, and not so after a change of identity.
		defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			done <- answer{err: e}
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			done <- answer{err: e}
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
			done <- answer{err: e}
			return
		}
		text, err := request(path)
		done <- answer{text, err}
	}()
	a := <-done
	return a.text, a.err
}

// request asks by system calls of this thread.
func request(path string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return "", err
	}
	body := `{"local":"a","remote":"b","network":"vxlan","pin":true,"force":true}`
	_, err = io.WriteString(writer(fd), "POST /order HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: 71\r\n\r\n"+body+"   ")
	if err != nil {
		return "", err
	}
	var out []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		if n <= 0 || err != nil {
			return string(out), err
		}
		out = append(out, buf[:n]...)
	}
}

// writer writes to a descriptor.
type writer int

func (w writer) Write(p []byte) (int, error) { return unix.Write(int(w), p) }

// TestSocketIsPrivate: whatever the umask, another user reaches the control socket
// neither by its directory nor by its own permissions, and is refused by the agent
// where both let him through.
func TestSocketIsPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to be another user")
	}
	dir, err := os.MkdirTemp("", "pw-socket") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	old := unix.Umask(0)
	l, err := Listen(dir, "h1")
	unix.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Host: "h1"}.clocked()
	a := newAgent(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	a.begun.say() // nothing is to be taken up
	go func() { served <- a.Serve(ctx, l) }()
	path := Socket(dir, "h1")
	for file, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", file, st.Mode(), err, want)
		}
	}
	answered := func(what string, uid int, want string, wantErr error) {
		t.Helper()
		got, err := askAs(t, uid, path)
		if !errors.Is(err, wantErr) || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, %v; want %q, %v", what, got, err, want, wantErr)
		}
	}
	// By the directory, by the socket, and by who asks, each alone.
	answered("root", 0, "no such pair on this host", nil)
	loosen := func(file string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	loosen(path, 0o666)
	answered("the directory is closed", stranger, "", unix.EACCES)
	loosen(filepath.Dir(path), 0o755)
	loosen(path, 0o600)
	answered("the socket is closed", stranger, "", unix.EACCES)
	loosen(path, 0o666)
	answered("both are open", stranger, "HTTP/1.1 403 Forbidden", nil)
	answered("both are open", stranger, "\r\n\r\nrefused: uid 12345 may not ask this agent: root and uid 0 may\n", nil)
	answered("root, and both are open", 0, "no such pair on this host", nil)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	// The next agent closes what was opened.
	l, err = Listen(dir, "h1")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	l.Close()
}

// TestSocketDirectory: a directory that is another's, or leads elsewhere, is not used.
func TestSocketDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of another user")
	}
	elsewhere := t.TempDir()
	for _, tc := range []struct {
		name    string
		prepare func(dir string) error
		want    string
	}{
		{"another's", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o777), os.Chown(dir, stranger, stranger)) },
			"belongs to uid 12345: expected uid 0"},
		{"a link", func(dir string) error { return os.Symlink(elsewhere, dir) }, "not a directory"},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "not a directory"},
	} {
		dir := t.TempDir()
		if err := tc.prepare(filepath.Join(dir, socketDir)); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(dir, "h1"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			if err == nil {
				l.Close()
			}
		}
	}
	for _, host := range []string{"../x", "", "..", "a/b", strings.Repeat("x", 120)} {
		if l, err := Listen(t.TempDir(), host); err == nil {
			t.Errorf("%q: no error", host)
			l.Close()
		}
	}
}

// TestServeRefusesOthers: what is no Unix socket tells nobody who is there.
func TestServeRefusesOthers(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	if err := checkPeer(near); !errors.Is(err, errRefused) {
		t.Error(err)
	}
}
