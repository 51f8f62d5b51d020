package experiment_test

import (
	"testing"
)

// TestQuickSaysWhatItLeaves: each exhibit says what its counterpart lacks
// by the quick variant, and nothing where it lacks nothing.
func TestQuickSaysWhatItLeaves(t *testing.T) {
	e := parse(t, `name: x
networks: [a, b]
topologies: [one-host, two-hosts]
workloads:
  - {name: tcp, load: {connections: [1, 8]}}
  - udp
quick:
  budget: 1m
  workloads:
    - {name: tcp, topologies: two-hosts, load: {connections: 1}}
    - {name: tcp, topologies: one-host, load: {connections: 1}, networks: [b]}
    - {name: tcp, topologies: one-host, load: {connections: 8}, networks: [a]}
paper:
  title: T
  authors: A 2020
  exhibits:
    - {id: far, title: t, shows: [{workload: tcp, topologies: two-hosts}]}
    - {id: near, title: t, shows: [{workload: tcp, topologies: one-host}]}
    - {id: one, title: t, shows: [{workload: tcp, topologies: two-hosts, load: {connections: 1}}]}
    - {id: gone, title: t, shows: [{workload: udp}]}
    - {id: none, title: t, why: a photograph}
`)
	quick, _ := e.AsQuick()
	const end = "; run without --quick"
	want := map[string]string{
		"far":  "not in the quick variant: tcp with 8 connections" + end,
		"near": "not in the quick variant: tcp with some figures of a, b" + end,
		"one":  "", "none": "",
		"gone": "not in the quick variant: udp in one-host, two-hosts" + end,
	}
	for _, x := range quick.Paper.Exhibits {
		if x.Left != want[x.ID] {
			t.Errorf("%s: got %q, want %q", x.ID, x.Left, want[x.ID])
		}
	}
	for _, x := range e.Paper.Exhibits {
		if x.Left != "" {
			t.Errorf("the whole study's %s lacks %q", x.ID, x.Left)
		}
	}
	if !quick.Paper.Abridged() || e.Paper.Abridged() {
		t.Error("the quick variant is abridged, and the whole study is not")
	}
}
