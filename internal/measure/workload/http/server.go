package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
	"pathwise.dev/pathwise/internal/topo"
)

// object is the path of the one object that servers have.
const object = "object"

// filler is what objects consist of.
const filler = 'x'

// nginxConf keeps every connection open for as long as the client wants it and logs
// nothing per request. It has no tcp_nopush: under a congestion control that paces, such as
// BBR, a corked answer waits for its turn, and the latency is that of the pacing.
const nginxConf = `daemon off;
user root;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 2000000000;
	keepalive_timeout 1h;
	open_file_cache max=16;
	default_type application/octet-stream;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server {
		listen %[2]s;
		root %[1]s;
	}
}
`

// nginx prepares a directory for a pod's nginx and returns its command.
func nginx(dir string, pod topo.Pod, size int) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("prepare nginx: %w", err)
	}
	conf := filepath.Join(dir, "nginx.conf")
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, object), bytes.Repeat([]byte{filler}, size), 0o644),
		os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, listen(pod)), 0o644))
	if err != nil {
		return nil, fmt.Errorf("prepare nginx: %w", err)
	}
	// Without -e it tries the machine's own log before it reads the configuration.
	return []string{"nginx", "-e", "stderr", "-p", dir, "-c", conf}, nil
}

// listen is where a pod's nginx listens.
func listen(pod topo.Pod) netip.AddrPort {
	if pod.Service.Addr().Is6() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), pod.Listen)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), pod.Listen)
}

// ExecNginx becomes nginx, with a socket that listens at addr by the congestion control.
// nginx has no such setting, but takes the sockets that another nginx left it
// (ngx_add_inherited_sockets), and what it accepts has the listener's.
func ExecNginx(addr netip.AddrPort, congestion string, argv []string) error {
	l, err := socket.Listen(workload.TCP, addr, socket.Congestion(congestion))
	if err != nil {
		return err
	}
	fd, err := l.Inherit()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find nginx: %w", err)
	}
	err = unix.Exec(path, argv, append(os.Environ(), fmt.Sprintf("NGINX=%d;", fd)))
	return fmt.Errorf("run nginx: %w", err)
}

// Serve is the server where there is no nginx: Go's own, with one object of
// size bytes, until ctx ends.
func Serve(ctx context.Context, addr, congestion string, size int) error {
	body := bytes.Repeat([]byte{filler}, size)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+object, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Server", "pathwise (Go net/http)")
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body) // what goes wrong, the client tells
	})
	s := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	lc := net.ListenConfig{Control: socket.Control(congestion)}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
