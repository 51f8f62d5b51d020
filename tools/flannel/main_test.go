package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, err := parse([]string{"--etcd-endpoints", "http://a:1,http://b:2", "--ip-masq", "-v=2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.endpoints) != 2 || got.endpoints[1] != "http://b:2" || !got.masquerade ||
		got.prefix != "/coreos.com/network" {
		t.Errorf("got %+v", got)
	}
	var usage strings.Builder
	if _, err := parse([]string{"-h"}, &usage); !errors.Is(err, flag.ErrHelp) ||
		!strings.Contains(usage.String(), "-etcd-prefix key") {
		t.Errorf("-h: got %v and %q", err, usage.String())
	}
	for _, bad := range [][]string{{"--nonesuch"}, {"stray"}, {"-v=loud"}} {
		if _, err := parse(bad, io.Discard); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got error %v, want one line", bad, err)
		}
	}
}

func TestPreviousSubnet(t *testing.T) {
	for _, c := range []struct{ name, file, want, err string }{
		{name: "ours", file: "FLANNEL_SUBNET=10.77.3.1/24\n", want: "10.77.3.0/24"},
		{name: "flannel's", file: "FLANNEL_NETWORK=10.77.0.0/16\nFLANNEL_SUBNET=10.77.9.1/24\nFLANNEL_MTU=1450\n", want: "10.77.9.0/24"},
		{name: "none", file: "FLANNEL_MTU=1450\n", want: "0.0.0.0/0"},
		{name: "broken", file: "FLANNEL_SUBNET=10.77\n", err: "no IPv4 subnet"},
		{name: "IPv6", file: "FLANNEL_SUBNET=fc00::1/64\n", err: "no IPv4 subnet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "subnet.env")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := previousSubnet(path)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Errorf("got %v, %v, want %s", got, err, c.want)
			}
		})
	}
	if got, err := previousSubnet(filepath.Join(t.TempDir(), "absent")); err != nil || !got.Empty() {
		t.Errorf("absent file: got %v, %v", got, err)
	}
}

func TestWaitForEtcdStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	// Port 1 of the loopback is tcpmux, which nothing serves.
	if err := run(ctx, options{endpoints: []string{"http://127.0.0.1:1"}}); err != nil {
		t.Errorf("stopped while waiting: got %v, want no error", err)
	}
	err := run(t.Context(), options{endpoints: []string{"127.0.0.1"}})
	if err == nil || !strings.Contains(err.Error(), "expected a URL with a port") {
		t.Errorf("bad endpoint: got %v", err)
	}
}
