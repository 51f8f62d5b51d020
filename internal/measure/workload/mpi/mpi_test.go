package mpi

import (
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
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
	two := []workload.Pair{{Client: pod("c1", "10.0.0.1"), Server: pod("s1", "10.0.1.1")},
		{Client: pod("c2", "10.0.0.2"), Server: pod("s2", "10.0.1.2")}}
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

// TestFamily: pods with both kinds of addresses meet at those of the server's family alone.
func TestFamily(t *testing.T) {
	both := func(ns, v4, v6 string) topo.Pod {
		p := pod(ns, v4)
		p.Attachments[0].Addr6 = netip.MustParseAddr(v6)
		return p
	}
	client, server := both("c1", "10.0.0.1", "fd00::1"), both("s1", "10.0.1.1", "fd00::2")
	for to, want := range map[string][2]string{
		"10.0.1.1": {"10.0.0.1 slots=1\n10.0.1.1 slots=1\n", "--mca btl_tcp_disable_family 6 --mca oob_tcp_disable_ipv6_family true"},
		"fd00::2":  {"fd00::1 slots=1\nfd00::2 slots=1\n", "--mca btl_tcp_disable_family 4 --mca oob_tcp_disable_ipv4_family true"},
	} {
		server.Service = netip.AddrPortFrom(netip.MustParseAddr(to), 5201)
		pairs := []workload.Pair{{Client: client, Server: server}}
		hosts, _, err := places(pairs, 1)
		if got := [2]string{hosts, strings.Join(disable(pairs), " ")}; err != nil || got != want {
			t.Errorf("%s: %q, %v", to, got, err)
		}
	}
	alone := pod("s1", "10.0.1.1")
	alone.Service = netip.AddrPortFrom(alone.Addr(), 5201)
	if args := disable([]workload.Pair{{Client: pod("c1", "10.0.0.1"), Server: alone}}); len(args) > 0 {
		t.Errorf("pods of IPv4 alone: %v", args)
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
