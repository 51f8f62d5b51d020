package docker

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		kind Kind
		c    network.Container
		want string // the mode of the network
		has  string
	}{
		{Bridge, network.Container{}, "bridge", `"Binds":["/run/pause:/pathwise:ro"]`},
		{Host, network.Container{}, "host", `"CapDrop":["ALL"]`},
		{None, network.Container{Env: []string{"A=b"}}, "none", `"Env":["A=b"]`},
		{Container, network.Container{}, "bridge", `"Cmd":["/pathwise","generate","pause"]`},
		{Container, network.Container{Leader: "l"}, "container:l", `"Image":"pathwise:pause"`},
		{NAT, network.Container{Listen: 5201, Published: 20001}, "bridge",
			`"5201/udp":[{"HostIp":"198.18.0.1","HostPort":"20001"}]`},
		{Overlay, network.Container{}, "pathwise", `"LogConfig":{"Type":"none"}`},
		{Macvlan, network.Container{}, "pathwise", ``},
	} {
		got := docker{tc.kind}.config(topo.Host{Addr: netip.MustParsePrefix("198.18.0.1/16")}, tc.c)
		raw, err := json.Marshal(got)
		if err != nil || got.HostConfig.NetworkMode != tc.want || !strings.Contains(string(raw), tc.has) {
			t.Errorf("%s, %+v: got %s (%v), want network %s and %s", tc.kind, tc.c, raw, err, tc.want, tc.has)
		}
		if tc.c.Published == 0 && strings.Contains(string(raw), "Ports") {
			t.Errorf("%s publishes ports: %s", tc.kind, raw)
		}
	}
}

// TestRequest speaks to a server in a directory whose path no socket may have.
func TestRequest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ok", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"ID":"x"}`)) })
	mux.HandleFunc("POST /bad", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		w.Write([]byte(`{"message":"out of ponies"}`))
	})
	late := 2
	mux.HandleFunc("POST /containers/slow/start", func(w http.ResponseWriter, _ *http.Request) {
		if late--; late >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write([]byte(`{"message":"attaching to network failed, make sure your network options are correct"}`))
		}
	})
	mux.HandleFunc("POST /containers/broken/start", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		w.Write([]byte(`{"message":"no such device"}`))
	})
	mux.HandleFunc("GET /rubbish", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`<html>`)) })
	mux.HandleFunc("GET /slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("POST /images/create", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("{\"status\":\"begun\"}\n{\"error\":\"no room\"}\n"))
	})
	srv := &http.Server{Handler: mux}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })

	e := &engine{dir: dir}
	var out struct{ ID string }
	if err := e.get(t.Context(), "/ok", &out); err != nil || out.ID != "x" {
		t.Errorf("got %+v, %v", out, err)
	}
	if err := (docker{Overlay}).startContainer(t.Context(), e, "slow"); err != nil || late != -1 {
		t.Errorf("a container that is attached late: %v, %d", err, late)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, context.Canceled)
	defer cancel()
	for want, err := range map[string]error{
		"out of ponies":    e.post(t.Context(), "/bad", struct{}{}, nil),
		"decode answer":    e.get(t.Context(), "/rubbish", &out),
		"no such device":   docker{Overlay}.startContainer(t.Context(), e, "broken"),
		"404":              e.get(t.Context(), "/absent", nil),
		"context canceled": e.get(ctx, "/slow", nil),
		"no room":          e.importImage(t.Context()),
		"no such file":     (&engine{dir: "/absent"}).get(t.Context(), "/ok", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
