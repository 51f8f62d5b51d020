package main

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/agent"
)

// What a path costs stands where it is known, and that packets go in UDP beside why.
func TestPrintPaths(t *testing.T) {
	ps := []agent.PathStatus{
		{Pair: "a>b", Network: "vxlan", State: "up", RTT: 40e-6, Goodput: 2e9, Buckets: 64, Active: true, Why: "best"},
		{Pair: "a>b", Network: "ovn", State: "up", Encapsulated: true},
	}
	var plain, costs strings.Builder
	if err := printPaths(&plain, ps); err != nil {
		t.Fatal(err)
	}
	ps[0].CPU = 0.25
	if err := printPaths(&costs, ps); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain.String(), "\n  vxlan: best\n") || !strings.Contains(plain.String(), "\n  ovn (in UDP)\n") ||
		strings.Contains(plain.String(), "cpu/GB") {
		t.Error(plain.String())
	}
	if !strings.Contains(costs.String(), "cpu/GB") || !strings.Contains(costs.String(), "250.0ms") {
		t.Error(costs.String())
	}
	for _, line := range strings.Split(costs.String(), "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
}
