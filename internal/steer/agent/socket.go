package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// socketDir is a directory of the agents' own in the one that they are given, which
// others may have to enter: who cannot enter it has no socket to connect to.
const socketDir, socketEnd = "agents", ".sock"

// Socket is the control socket of the agent of a host that has its files in dir.
func Socket(dir, host string) string { return filepath.Join(dir, socketDir, host+socketEnd) }

// Sockets returns the control sockets in dir by host.
func Sockets(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, socketDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("look for agents: %w", errNotRoot)
	case err != nil:
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if host, ok := strings.CutSuffix(e.Name(), socketEnd); ok {
			out[host] = Socket(dir, host)
		}
	}
	return out, nil
}

// errNotRoot is told to a user who may not speak to agents.
var errNotRoot = errors.New("agents listen to root alone: run as root, for example with sudo")

// Listen opens the host's control socket in dir, for its owner alone, whatever the
// umask is.
func Listen(dir, host string) (net.Listener, error) {
	if err := CheckHost(host); err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	path := Socket(dir, host)
	// sockaddr_un's path, and its end.
	if most := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("open control socket: %s has %d bytes: expected %d at most", path, len(path), most)
	}
	if err := private(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	// Until here the umask has decided; nobody else can have come, by the directory.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("open control socket: %w", err), l.Close())
	}
	return l, nil
}

// private makes a directory that only its owner may enter, or makes it so.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d: expected uid %d", dir, st.Uid, os.Geteuid())
	}
	if err := f.Chmod(0o700); err != nil {
		return fmt.Errorf("close directory to others: %w", err)
	}
	return nil
}

// peerKey is under what a connection's context has who is at the other end, an error
// where that is nobody who may ask.
type peerKey struct{}

// identify notes who is at the other end of a connection. The permissions of the socket
// have been asked already; this holds where these were loosened, or a descriptor of the
// socket was handed on.
func identify(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, checkPeer(c))
}

// checkPeer wants the process at the other end to have connected as root or as who the
// agent runs as (SO_PEERCRED, unix(7)).
func checkPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: no Unix socket", errRefused)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return fmt.Errorf("%w: read who asks: %w", errRefused, errors.Join(err, failed))
	}
	if own := os.Geteuid(); cred.Uid != 0 && int(cred.Uid) != own {
		return fmt.Errorf("%w: uid %d may not ask this agent: root and uid %d may", errRefused, cred.Uid, own)
	}
	return nil
}

// guarded answers only who may ask.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused, _ := r.Context().Value(peerKey{}).(error)
		if refused != nil {
			w.Header().Set("Connection", "close")
			http.Error(w, refused.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
