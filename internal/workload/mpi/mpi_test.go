package mpi

import (
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload"
)

func TestParse(t *testing.T) {
	got, err := parse([]byte("stream 1000 1000000\nstream 0 0\nlatency 2000\nlatency 4000\n"))
	if err != nil || got.bits != 8e6 || got.senders != 2 || got.latency.Count() != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"latency\n", "latency -1\n", "latency 1 2\n", "stream 1\n", "Warning: no such device\n"} {
		if _, err := parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func pod(ns, addr string) topo.Pod {
	return topo.Pod{Name: ns, Netns: ns, Attachments: []topo.Attachment{{Addr: netip.MustParseAddr(addr), Dev: "eth0"}}}
}

func TestPlaces(t *testing.T) {
	two := []workload.Pair{{Client: pod("c1", "10.0.0.1"), Server: pod("s1", "10.0.1.1")}, {Client: pod("c2", "10.0.0.2"), Server: pod("s2", "10.0.1.2")}}
	hosts, pods, err := places(two, 4)
	if want := "10.0.0.1 slots=4\n10.0.0.2 slots=4\n10.0.1.1 slots=4\n10.0.1.2 slots=4\n"; err != nil || hosts != want {
		t.Errorf("%q, %v", hosts, err)
	}
	if !strings.HasPrefix(pods, "10.0.0.1 /") || strings.Count(pods, "\n") != 4 {
		t.Errorf("%q", pods)
	}
	shared := []workload.Pair{{Client: pod("h1", "10.0.0.1"), Server: pod("h1", "10.0.0.1")}}
	if hosts, _, err := places(shared, 1); err != nil || hosts != "10.0.0.1 slots=2\n" {
		t.Errorf("%q, %v", hosts, err)
	}
	hidden := []workload.Pair{{Client: pod("c1", "10.88.0.2"), Server: pod("s1", "10.88.0.2")}}
	if _, _, err := places(hidden, 1); err == nil || !strings.Contains(err.Error(), "s1 shares its address") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("latency 1\nstream 1 2\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := parse(raw); err == nil && got.latency.Count() > int64(strings.Count(string(raw), "\n")+1) {
			t.Errorf("%d latencies", got.latency.Count())
		}
	})
}
